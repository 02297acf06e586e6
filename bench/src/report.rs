//! The results as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_bench::cases::Case;
use forebay_bench::quantity::show_bytes;
use forebay_bench::statistics::Spread;
use forebay_bench::systems;
use serde::Serialize;

/// The runs of one system.
#[derive(Serialize)]
pub(crate) struct Runs {
    runs: Vec<f64>,
    spread: Spread,
}

impl Runs {
    fn new(runs: Vec<f64>) -> Runs {
        Runs { spread: Spread::of(&runs), runs }
    }
}

/// One case on all systems.
#[derive(Serialize)]
pub(crate) struct CaseResult {
    name: String,
    unit: &'static str,
    systems: BTreeMap<&'static str, Runs>,
    /// Forebay's rate over the bare directory's, run by run.
    ratio_to_bare: Spread,
    /// Forebay's rate over that of bindfs, run by run.
    ratio_to_bindfs: Spread,
}

impl CaseResult {
    /// `names` and `runs` in the order bare, bindfs, Forebay.
    pub(crate) fn new(case: &Case, names: [&'static str; 3], runs: [Vec<f64>; 3]) -> CaseResult {
        let [bare, bindfs, forebay] = &runs;
        CaseResult {
            name: case.name(),
            unit: if case.counts_bytes() { "MiB/s" } else { "operations/s" },
            ratio_to_bare: Spread::of_ratios(forebay, bare),
            ratio_to_bindfs: Spread::of_ratios(forebay, bindfs),
            systems: names.into_iter().zip(runs.map(Runs::new)).collect(),
        }
    }
}

/// The burst against a slow home.
#[derive(Serialize)]
pub(crate) struct BurstResult {
    burst_bytes: u64,
    home_bytes_per_s: u64,
    home_latency_us: u128,
    unit: &'static str,
    systems: BTreeMap<&'static str, Runs>,
    ratio_to_slow_home: Spread,
    ratio_to_bare: Spread,
    /// From the end of the burst until everything was at home and compared.
    drain_seconds: Spread,
}

impl BurstResult {
    /// `runs` in the order bare, slow home, Forebay.
    pub(crate) fn new(bytes: u64, home_bytes_per_s: u64, latency: Duration, runs: [Vec<f64>; 3], drain_seconds: Vec<f64>) -> BurstResult {
        let [bare, slow, forebay] = &runs;
        BurstResult {
            burst_bytes: bytes,
            home_bytes_per_s,
            home_latency_us: latency.as_micros(),
            unit: "MiB/s",
            ratio_to_slow_home: Spread::of_ratios(forebay, slow),
            ratio_to_bare: Spread::of_ratios(forebay, bare),
            drain_seconds: Spread::of(&drain_seconds),
            systems: ["bare", "slow home", "forebay"].into_iter().zip(runs.map(Runs::new)).collect(),
        }
    }
}

/// Everything.
#[derive(Serialize)]
pub(crate) struct Report {
    /// The command that gave this.
    command: String,
    commit: String,
    machine: String,
    quick: bool,
    /// Whether reads began with cold caches; none if nothing was read.
    pub(crate) caches_dropped: Option<bool>,
    pub(crate) cases: Vec<CaseResult>,
    pub(crate) burst: Option<BurstResult>,
    /// What the benchmark of the core printed.
    pub(crate) core: Option<String>,
}

fn asked(program: &str, arguments: &[&str]) -> String {
    systems::run(Command::new(program).args(arguments)).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

impl Report {
    pub(crate) fn new(folder: &Path, quick: bool) -> Report {
        let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let kernel = asked("uname", &["-r"]);
        let disk = asked("stat", &["-f", "-c", "%T", &folder.display().to_string()]);
        Report {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            commit: asked("git", &["describe", "--always", "--dirty"]),
            machine: format!("{processors} processors, Linux {kernel}, {disk}"),
            quick,
            caches_dropped: None,
            cases: Vec::new(),
            burst: None,
            core: None,
        }
    }

    /// The table, for a person.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\ncommit {}; {}\n", self.command, self.commit, self.machine);
        if self.quick {
            text += "QUICK: these numbers show that the benchmark works, and nothing else\n";
        }
        text += match self.caches_dropped {
            Some(true) => "reads begin with cold kernel caches; writes end in the caches that each system uses, without fsync\n",
            Some(false) => "the kernel's caches could not be dropped (that takes root): READS ARE WARM\n",
            None => "",
        };
        if !self.cases.is_empty() {
            text += "median (min-max); ratio = forebay's rate over the other's in the same run\n\n";
            let _ = writeln!(
                text,
                "{:<40} {:<7} {:>24} {:>24} {:>24} {:>20} {:>20}",
                "case", "unit", "bare", "bindfs", "forebay", "ratio to bare", "ratio to bindfs"
            );
            for case in &self.cases {
                case.line(&mut text);
            }
        }
        if let Some(burst) = &self.burst {
            burst.lines(&mut text);
        }
        if let Some(core) = &self.core {
            let _ = write!(text, "\nThe core alone (cargo bench -p forebay-core --bench core -- --full):\n{core}");
        }
        text
    }
}

fn rates(spread: Spread) -> String {
    format!("{:.0} ({:.0}-{:.0})", spread.median, spread.min, spread.max)
}

fn ratios(spread: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.min, spread.max)
}

impl CaseResult {
    fn line(&self, text: &mut String) {
        let unit = if self.unit == "MiB/s" { "MiB/s" } else { "1/s" };
        let shown = |name: &str| self.systems.get(name).map_or_else(String::new, |runs| rates(runs.spread));
        let _ = writeln!(
            text,
            "{:<40} {unit:<7} {:>24} {:>24} {:>24} {:>20} {:>20}",
            self.name,
            shown("bare"),
            shown("bindfs"),
            shown("forebay"),
            ratios(self.ratio_to_bare),
            ratios(self.ratio_to_bindfs)
        );
    }
}

impl BurstResult {
    fn lines(&self, text: &mut String) {
        let (burst, home) = (show_bytes(self.burst_bytes), show_bytes(self.home_bytes_per_s));
        let _ = writeln!(text, "\nOne burst of {burst}, the buffer's capacity; home: {home}/s, {} us a call", self.home_latency_us);
        for (name, runs) in &self.systems {
            let _ = writeln!(text, "  {name:<10} {:>24} MiB/s", rates(runs.spread));
        }
        let _ =
            writeln!(text, "  ratio to the slow home {}, to the bare disk {}", ratios(self.ratio_to_slow_home), ratios(self.ratio_to_bare));
        let _ = writeln!(text, "  drain after the burst, with its comparison: {} s", ratios(self.drain_seconds));
    }
}
