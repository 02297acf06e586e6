//! Runs, figures and reports.

use std::fmt::Write as _;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What the command line asks for.
#[derive(Default)]
pub struct Options {
    /// Tiny sizes and one run, to see that the benchmarks work.
    pub test: bool,
    /// The largest sizes too.
    pub full: bool,
    json: Option<String>,
    only: Option<String>,
}

impl Options {
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options::default();
        // Under `cargo test --benches` cargo gives no argument at all, and under `cargo bench` it gives `--bench`.
        let mut benching = false;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" => benching = true,
                "--test" => options.test = true,
                "--full" => options.full = true,
                "--json" => options.json = Some(args.next().ok_or("--json needs the name of a file")?),
                "--only" => options.only = Some(args.next().ok_or("--only needs a text")?),
                other => return Err(format!("unknown argument `{other}`: there are --test, --full, --json FILE and --only TEXT")),
            }
        }
        options.test |= !benching;
        Ok(options)
    }
}

/// The runs of one figure.
struct Row {
    name: String,
    n: u64,
    unit: &'static str,
    values: Vec<f64>,
}

impl Row {
    fn min(&self) -> f64 {
        self.values[0]
    }
    fn median(&self) -> f64 {
        self.values[self.values.len() / 2]
    }
    fn max(&self) -> f64 {
        self.values[self.values.len() - 1]
    }
    fn per_second(&self) -> Option<u64> {
        (self.unit == "ns").then(|| (1e9 / self.median()) as u64)
    }
}

/// Collects the figures.
pub struct Bench {
    pub options: Options,
    rows: Vec<Row>,
}

/// One run of a figure: how long so many operations took.
pub struct Run {
    pub operations: u64,
    pub time: Duration,
}

/// Times one run, by the processor time of this thread: nothing here waits, and what else runs on the machine should not count.
pub fn timed(operations: u64, run: impl FnOnce()) -> Run {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let start = now();
    run();
    Run { operations, time: now().saturating_sub(start) }
}

impl Bench {
    pub fn new(options: Options) -> Bench {
        println!("{:<34} {:>9} {:>11} {:>11} {:>11}  {:<5} {:>12}", "", "n", "min", "median", "max", "", "median, 1/s");
        Bench { options, rows: Vec::new() }
    }

    fn runs(&self) -> usize {
        if self.options.test { 1 } else { 5 }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.options.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Measures nanoseconds an operation, over five runs.
    pub fn nanoseconds(&mut self, name: &str, n: u64, mut run: impl FnMut() -> Run) {
        if !self.is_wanted(name) {
            return;
        }
        let values = (0..self.runs()).map(|_| {
            let Run { operations, time } = run();
            time.as_nanos() as f64 / operations as f64
        });
        let values = values.collect();
        self.add(name, n, "ns", values);
    }

    /// Notes a figure that is measured otherwise, over five runs.
    pub fn figure(&mut self, name: &str, n: u64, unit: &'static str, run: impl FnMut() -> f64) {
        if self.is_wanted(name) {
            let values = std::iter::repeat_with(run).take(self.runs()).collect();
            self.add(name, n, unit, values);
        }
    }

    fn add(&mut self, name: &str, n: u64, unit: &'static str, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let row = Row { name: name.to_owned(), n, unit, values };
        let rate = row.per_second().map(|rate| rate.to_string()).unwrap_or_default();
        println!(
            "{:<34} {:>9} {:>11.1} {:>11.1} {:>11.1}  {:<5} {:>12}",
            row.name,
            row.n,
            row.min(),
            row.median(),
            row.max(),
            row.unit,
            rate
        );
        self.rows.push(row);
    }

    /// Writes the JSON file if one was asked for.
    pub fn finish(self) -> Result<(), String> {
        let Some(path) = &self.options.json else { return Ok(()) };
        let mut json = String::from("[\n");
        for (index, row) in self.rows.iter().enumerate() {
            let comma = if index + 1 < self.rows.len() { "," } else { "" };
            let Row { name, n, unit, values } = row;
            let (min, median, max) = (row.min(), row.median(), row.max());
            writeln!(
                json,
                r#"  {{"name": "{name}", "n": {n}, "unit": "{unit}", "runs": {}, "min": {min:.3}, "median": {median:.3}, "max": {max:.3}}}{comma}"#,
                values.len()
            )
            .map_err(|error| error.to_string())?;
        }
        json.push_str("]\n");
        std::fs::write(path, json).map_err(|error| format!("cannot write the figures to {path}: {error}"))
    }
}

/// A small generator of pseudo-random numbers (SplitMix64), so that every run meets the same sequence.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let z = z ^ (z >> 31);
        ((u128::from(z) * u128::from(bound)) >> 64) as u64
    }

    /// The numbers below `n` in a random order.
    pub fn permutation(&mut self, n: u64) -> Vec<u64> {
        let mut order: Vec<u64> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i as usize, self.below(i + 1) as usize);
        }
        order
    }
}
