//! What to simulate, from the lists and ranges of the command line.

use forebay_core::config::WriteBack;
use forebay_sim::buffer::{BufferConfig, Counting, Granularity, Policy};

use crate::args::SimArgs;
use crate::error::Error;
use crate::size;

/// The most simulations of one command.
const CONFIGS_MAX: usize = 100_000;
/// The most values of one range.
const VALUES_MAX: usize = 10_000;

/// The values of a list of values and ranges: `a..b*f` multiplies, `a..b+s` adds, `a..b` doubles.
fn values(option: &str, text: &str, parse: &dyn Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, Error> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        let wrong = |why: String| Error::usage(format!("{option}: \"{part}\": {why}"));
        let number = |text: &str| parse(text).map_err(wrong);
        let Some((from, rest)) = part.split_once("..") else {
            values.push(number(part)?);
            continue;
        };
        let (to, step, is_factor) = match (rest.split_once('*'), rest.split_once('+')) {
            (Some((to, factor)), _) => (to, factor.trim().parse().map_err(|_| wrong("the factor is no whole number".into()))?, true),
            (None, Some((to, step))) => (to, number(step)?, false),
            (None, None) => (rest, 2, true),
        };
        let (mut at, to) = (number(from)?, number(to)?);
        if at > to || step == 0 || (is_factor && (step < 2 || at == 0)) {
            return Err(wrong("the range has no end; write it as in 64MiB..8GiB*2 or 1GiB..4GiB+1GiB".into()));
        }
        while at <= to && values.len() < VALUES_MAX {
            values.push(at);
            at = if is_factor { at.saturating_mul(step) } else { at.saturating_add(step) };
        }
    }
    if values.len() >= VALUES_MAX { Err(Error::usage(format!("{option}: more than {VALUES_MAX} values"))) } else { Ok(values) }
}

/// What stands behind the names of a list.
fn named<T: Copy>(option: &str, text: &str, known: &[(&str, T)]) -> Result<Vec<T>, Error> {
    let find = |name: &str| {
        let found = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| Error::usage(format!("{option}: \"{name}\" is none of {}", names())))
    };
    text.split(',').map(|name| find(name.trim())).collect()
}

const GRANULARITIES: [(&str, Granularity); 3] = [
    ("chunk", Granularity::Chunk),
    ("file", Granularity::File { dirty_only: false }),
    ("file-dirty", Granularity::File { dirty_only: true }),
];
const WRITE_BACKS: [(&str, WriteBack); 2] = [("sync", WriteBack::Sync), ("async", WriteBack::Async)];
const COUNTINGS: [(&str, Counting); 2] = [("chunks", Counting::Chunks), ("bytes", Counting::Bytes)];

/// The configurations that the command line asks for, the capacity changing fastest.
pub(super) fn configs(args: &SimArgs, footprint_bytes: u64, chunk_bytes: u32) -> Result<Vec<BufferConfig>, Error> {
    let size = |text: &str| size::parse(text.trim()).map_err(|error| error.to_string());
    let capacities = match &args.capacity {
        Some(text) => values("--capacity", text, &size)?,
        None => (0..8)
            .rev()
            .map(|halves| (footprint_bytes >> halves).next_multiple_of(u64::from(chunk_bytes)).max(u64::from(chunk_bytes)))
            .collect(),
    };
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(nodes) if nodes > 0 => Ok(u64::from(nodes)),
        _ => Err("no number of nodes".to_owned()),
    };
    let all_nodes = values("--nodes", &args.nodes, &number)?;
    let known = Policy::named();
    let policies =
        if args.policy == "all" { known.iter().map(|(_, policy)| *policy).collect() } else { named("--policy", &args.policy, &known)? };
    let granularities = named("--granularity", &args.granularity, &GRANULARITIES)?;
    let write_backs = named("--write-back", &args.write_back, &WRITE_BACKS)?;
    let counting = named("--count", &args.count, &COUNTINGS)?[0];
    let mut configs = Vec::new();
    for &nodes in &all_nodes {
        for &write_back in &write_backs {
            for &granularity in &granularities {
                for &policy in &policies {
                    for &capacity_bytes in &capacities {
                        configs.push(BufferConfig { capacity_bytes, policy, granularity, write_back, counting, nodes: nodes as u32 });
                    }
                    if configs.len() > CONFIGS_MAX {
                        return Err(Error::usage(format!("more than {CONFIGS_MAX} simulations; ask for fewer at a time")));
                    }
                }
            }
        }
    }
    Ok(configs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<Vec<u64>, String> {
        let size = |text: &str| size::parse(text.trim()).map_err(|error| error.to_string());
        values("--capacity", text, &size).map_err(|error| error.to_string())
    }

    #[test]
    fn ranges_and_lists() {
        assert_eq!(sizes("1KiB, 4KiB..32KiB*2,1..3+1").unwrap(), [1024, 4096, 8192, 16384, 32768, 1, 2, 3]);
        assert_eq!(sizes("1..5").unwrap(), [1, 2, 4]);
        for wrong in ["", "4..1", "0..8*2", "1..8*1", "1..8+0", "1..8*x", "x..8", "1..9999999999+1"] {
            assert!(sizes(wrong).unwrap_err().starts_with("--capacity"), "{wrong}");
        }
    }
}
