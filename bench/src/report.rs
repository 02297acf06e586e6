//! The results as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use forebay_bench::cases::Case;
use forebay_bench::quantity::show_bytes;
use forebay_bench::statistics::Spread;
use forebay_bench::systems::{self, SlowKind};
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
    /// Forebay's rate over that of each other system, run by run.
    ratio_to: BTreeMap<&'static str, Spread>,
}

impl CaseResult {
    /// The runs of each system, Forebay's last.
    pub(crate) fn new(case: &Case, mut runs: Vec<(&'static str, Vec<f64>)>) -> CaseResult {
        let (name, forebay) = runs.pop().unwrap_or_default();
        CaseResult {
            name: case.name(),
            unit: if case.counts_bytes() { "MiB/s" } else { "operations/s" },
            ratio_to: runs.iter().map(|(name, other)| (*name, Spread::of_ratios(&forebay, other))).collect(),
            systems: runs.into_iter().chain([(name, forebay)]).map(|(name, runs)| (name, Runs::new(runs))).collect(),
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
    pub(crate) fn new(bytes: u64, home: &SlowKind, runs: [Vec<f64>; 3], drain_seconds: Vec<f64>) -> BurstResult {
        let [bare, slow, forebay] = &runs;
        BurstResult {
            burst_bytes: bytes,
            home_bytes_per_s: home.bytes_per_s,
            home_latency_us: home.latency.as_micros(),
            unit: "MiB/s",
            ratio_to_slow_home: Spread::of_ratios(forebay, slow),
            ratio_to_bare: Spread::of_ratios(forebay, bare),
            drain_seconds: Spread::of(&drain_seconds),
            systems: ["bare", "slow home", "forebay"].into_iter().zip(runs.map(Runs::new)).collect(),
        }
    }
}

/// Data of four times the capacity, written through the buffer and straight to the slow home.
#[derive(Serialize)]
pub(crate) struct FlowResult {
    data_bytes: u64,
    capacity_bytes: u64,
    home_bytes_per_s: u64,
    home_latency_us: u128,
    /// Reading at home takes nothing from the writing.
    home_is_duplex: bool,
    unit: &'static str,
    systems: BTreeMap<&'static str, Runs>,
    ratio_to_slow_home: Spread,
}

impl FlowResult {
    /// `runs` in the order slow home, Forebay.
    pub(crate) fn new(capacity_bytes: u64, data_bytes: u64, home: &SlowKind, runs: [Vec<f64>; 2]) -> FlowResult {
        let [slow, forebay] = &runs;
        FlowResult {
            data_bytes,
            capacity_bytes,
            home_bytes_per_s: home.bytes_per_s,
            home_latency_us: home.latency.as_micros(),
            home_is_duplex: home.is_duplex,
            unit: "MiB/s",
            ratio_to_slow_home: Spread::of_ratios(forebay, slow),
            systems: ["slow home", "forebay"].into_iter().zip(runs.map(Runs::new)).collect(),
        }
    }

    fn lines(&self, text: &mut String) {
        let (data, capacity, home) = (show_bytes(self.data_bytes), show_bytes(self.capacity_bytes), show_bytes(self.home_bytes_per_s));
        let kind = if self.home_is_duplex { "each way" } else { "both ways together" };
        let _ = writeln!(text, "\n{data} through a buffer of {capacity}; home: {home}/s {kind}, {} us a call", self.home_latency_us);
        for (name, runs) in &self.systems {
            let _ = writeln!(text, "  {name:<10} {:>24} MiB/s", rates(runs.spread));
        }
        let _ = writeln!(text, "  ratio to the slow home {}", ratios(self.ratio_to_slow_home));
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
    pub(crate) flows: Vec<FlowResult>,
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
            flows: Vec::new(),
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
            for (number, case) in self.cases.iter().enumerate() {
                if number == 0 {
                    case.heading(&mut text);
                }
                case.line(&mut text);
            }
        }
        if let Some(burst) = &self.burst {
            burst.lines(&mut text);
        }
        for flow in &self.flows {
            flow.lines(&mut text);
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
    fn heading(&self, text: &mut String) {
        let _ = write!(text, "{:<40} {:<7} {:>24}", "case", "unit", "forebay");
        for name in self.ratio_to.keys() {
            let _ = write!(text, " {:>20}", format!("ratio to {name}"));
        }
        text.push('\n');
    }

    fn line(&self, text: &mut String) {
        let unit = if self.unit == "MiB/s" { "MiB/s" } else { "1/s" };
        let forebay = self.systems.get("forebay").map_or_else(String::new, |runs| rates(runs.spread));
        let _ = write!(text, "{:<40} {unit:<7} {forebay:>24}", self.name);
        for ratio in self.ratio_to.values() {
            let _ = write!(text, " {:>20}", ratios(*ratio));
        }
        text.push('\n');
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
