//! How fast both levels are: tables of throughput by the size of a transfer, for numbers of nodes (B-13, B-14).

use std::collections::BTreeMap;

use thiserror::Error;

/// A level and a direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Reading from the buffer.
    BufferRead,
    /// Writing to the buffer.
    BufferWrite,
    /// Reading from home.
    HomeRead,
    /// Writing to home.
    HomeWrite,
}

impl Level {
    const ALL: [(&str, &str, Level); 4] = [
        ("buffer", "read", Level::BufferRead),
        ("buffer", "write", Level::BufferWrite),
        ("home", "read", Level::HomeRead),
        ("home", "write", Level::HomeWrite),
    ];
}

/// Why a text is no table of throughput.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RateError {
    /// A line is not as it should be.
    #[error("line {line}: {problem}; a line says nodes,level,op,size,bytes_per_s, as in 4,home,write,1048576,350000000")]
    Line {
        /// The line, from 1 on.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A level is not in the table.
    #[error("the table has no line for {level},{op}; it needs buffer and home, read and write")]
    Missing {
        /// buffer or home.
        level: &'static str,
        /// read or write.
        op: &'static str,
    },
}

/// Throughput of both levels.
#[derive(Clone, PartialEq, Debug)]
pub struct Rates {
    /// By level and nodes: sizes, ascending, with their bytes a second.
    tables: BTreeMap<(Level, u32), Vec<(u64, f64)>>,
    /// There was no table: the buffer has this throughput with one node and as many times it with more; home stays the same (B-14).
    is_constant: bool,
}

impl Rates {
    /// Throughput that depends on no size: of home, and of the buffer for each node, bytes a second.
    #[must_use]
    pub fn constant(home_bytes_per_s: f64, buffer_bytes_per_s: f64) -> Rates {
        let rate = |level| if matches!(level, Level::HomeRead | Level::HomeWrite) { home_bytes_per_s } else { buffer_bytes_per_s };
        let tables = Level::ALL.into_iter().map(|(_, _, level)| ((level, 1), vec![(1, rate(level))])).collect();
        Rates { tables, is_constant: true }
    }

    /// Reads a table: lines of `nodes,level,op,size,bytes_per_s`, with `buffer` or `home`, `read` or `write`; `#` begins a comment, and a
    /// line of these names may come first.
    ///
    /// # Errors
    /// If a line is wrong, or a level has none.
    pub fn parse(text: &str) -> Result<Rates, RateError> {
        let mut tables: BTreeMap<(Level, u32), Vec<(u64, f64)>> = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() || (at == 0 && line.starts_with("nodes")) {
                continue;
            }
            let (level, nodes, size, rate) = parse_line(line).map_err(|problem| RateError::Line { line: at + 1, problem })?;
            tables.entry((level, nodes)).or_default().push((size, rate));
        }
        for (name, op, level) in Level::ALL {
            if !tables.keys().any(|(known, _)| *known == level) {
                return Err(RateError::Missing { level: name, op });
            }
        }
        tables.values_mut().for_each(|sizes| sizes.sort_by_key(|(size, _)| *size));
        Ok(Rates { tables, is_constant: false })
    }

    /// Bytes a second of transfers of this size: those of the nearest size in the table of the nearest number of nodes, of two equally
    /// near the smaller.
    #[must_use]
    pub fn of(&self, nodes: u32, level: Level, size: u64) -> f64 {
        let known = self.tables.range((level, 0)..=(level, u32::MAX));
        let Some((_, sizes)) = known.min_by_key(|((_, known), _)| known.abs_diff(nodes)) else { return f64::NAN };
        let nearest = sizes.iter().min_by_key(|(known, _)| known.abs_diff(size)).map_or(f64::NAN, |(_, rate)| *rate);
        let scale = self.is_constant && matches!(level, Level::BufferRead | Level::BufferWrite);
        if scale { nearest * f64::from(nodes.max(1)) } else { nearest }
    }
}

fn parse_line(line: &str) -> Result<(Level, u32, u64, f64), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [nodes, level, op, size, rate] = fields[..] else { return Err(format!("{} fields instead of 5", fields.len())) };
    let found = Level::ALL.into_iter().find(|(name, known_op, _)| *name == level && *known_op == op);
    let (_, _, found) = found.ok_or_else(|| format!("\"{level},{op}\" is no level and op"))?;
    let nodes: u32 = nodes.parse().map_err(|_| format!("\"{nodes}\" is no number of nodes"))?;
    let size: u64 = size.parse().map_err(|_| format!("\"{size}\" is no size in bytes"))?;
    let rate: f64 = rate.parse().map_err(|_| format!("\"{rate}\" is no number"))?;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(format!("a throughput of {rate} is not above 0"));
    }
    Ok((found, nodes, size, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B-13: sizes of 1 to 128 KiB by 1 KiB, then by 100 KiB up to 5 MiB.
    #[test]
    fn the_nearest_size_counts() {
        let grid = (1..=128u64).chain((1..50).map(|step| 128 + 100 * step));
        let mut text = String::from("nodes,level,op,size,bytes_per_s\n");
        for kib in grid {
            for (level, op) in [("buffer", "read"), ("buffer", "write"), ("home", "read"), ("home", "write")] {
                text.push_str(&format!("1,{level},{op},{},{kib}  # measured\n", kib * 1024));
            }
        }
        let rates = Rates::parse(&text).unwrap();
        let at = |kib: u64| rates.of(1, Level::HomeRead, kib * 1024);
        assert_eq!([at(130), at(200), at(1), at(100_000)], [128.0, 228.0, 1.0, 5028.0]);
        assert_eq!(text.lines().count(), 1 + 4 * (128 + 49));
    }

    #[test]
    fn nodes_choose_the_table() {
        let mut text = String::new();
        for (nodes, rate) in [(1, 100), (8, 400)] {
            for (level, op) in [("buffer", "read"), ("buffer", "write"), ("home", "read"), ("home", "write")] {
                text.push_str(&format!("{nodes},{level},{op},4096,{rate}\n"));
            }
        }
        let rates = Rates::parse(&text).unwrap();
        assert_eq!([1, 4, 5, 32].map(|nodes| rates.of(nodes, Level::BufferWrite, 1)), [100.0, 100.0, 400.0, 400.0]);
        let constant = Rates::constant(10.0, 100.0);
        assert_eq!((constant.of(4, Level::BufferRead, 1), constant.of(4, Level::HomeRead, 1)), (400.0, 10.0));
    }

    #[test]
    fn a_wrong_table_says_where() {
        let problem = |text: &str| Rates::parse(text).unwrap_err().to_string();
        assert!(problem("1,home,read,4096,5\n1,home,wipe,4096,5\n").starts_with("line 2: \"home,wipe\""));
        assert!(problem("1,home,read,4096\n").contains("4 fields"));
        assert!(problem("1,home,read,4096,0\n").contains("not above 0"));
        assert!(problem("1,home,read,4096,7\n").contains("no line for buffer,read"));
    }
}
