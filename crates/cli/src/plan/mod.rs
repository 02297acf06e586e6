//! `forebay plan`: how much buffer to ask for, what it brings, how sure that is, and what it costs.

mod args;
mod levels;
mod page;
mod study;

use forebay_core::config::{ReplacementKind, WriteBack};
use forebay_sim::buffer::{Formula, Policy, WorkloadBuilder};
use serde_json::json;

pub(crate) use args::PlanArgs;

use crate::console::{self, Console};
use crate::error::Error;
use crate::report::{self, Kind, Unit};
use crate::tracefile;

use levels::Level;
use study::{Clock, Run, Study, Wanted};

/// What it writes to files.
const KINDS: [Kind; 2] = [Kind::Page, Kind::Json];

/// What a run of the application costs (C-23): price of a node for an hour, times hours, times nodes.
fn cost(price: f64, seconds: f64, nodes: u32) -> f64 {
    price * seconds / 3600.0 * f64::from(nodes)
}

/// Money for a run without a buffer and with one.
struct Money {
    direct: f64,
    buffered: f64,
}

/// What the plan says.
struct Plan<'a> {
    args: &'a PlanArgs,
    home: String,
    buffer: String,
    footprint_bytes: u64,
    capacities: Vec<u64>,
    /// The trace's own order first.
    runs: Vec<Run>,
    /// What to ask for.
    ask_bytes: u64,
    /// The share of an unlimited buffer's throughput with it.
    ratio: f64,
    /// Seconds that pass without reads and writes; that home alone takes for these; that they take with the buffer; that it takes until all
    /// is home afterwards.
    other_s: f64,
    direct_s: f64,
    buffered_s: f64,
    drain_s: f64,
    money: Option<Money>,
}

/// A size that can be asked for: a little more, with few digits.
fn round_up(bytes: u64, chunk_bytes: u64, most: u64) -> u64 {
    let step = (bytes.max(1).next_power_of_two() / 32).max(chunk_bytes);
    bytes.next_multiple_of(step).min(most.max(bytes))
}

impl<'a> Plan<'a> {
    fn new(args: &'a PlanArgs, study: &Study, clock: &Clock, runs: Vec<Run>, levels: [String; 2]) -> Plan<'a> {
        let chunk_bytes = u64::from(study.workload.chunk_bytes());
        let footprint_bytes = study.workload.footprint_bytes();
        let needed = runs.iter().map(|run| run.needed_bytes).max().unwrap_or(footprint_bytes);
        let ask_bytes = round_up(needed, chunk_bytes, footprint_bytes);
        let outcome = study.outcome(study.workload, ask_bytes);
        let (buffered_s, drain_s) = outcome.as_ref().map_or((0.0, 0.0), |outcome| study.buffered_s(outcome));
        let ratio = outcome.map_or(0.0, |outcome| outcome.throughput(Formula::Full).ratio());
        let [home, buffer] = levels;
        let (other_s, direct_s) = (clock.other_s(), study.direct_s(&clock.totals.all));
        let money = args.price.map(|price| {
            let gib = ask_bytes as f64 / f64::from(1 << 30);
            let nodes = args.compute_nodes + args.buffer_nodes + args.meta_nodes;
            let space = args.buffer_price * gib * (other_s + buffered_s) / 3600.0;
            Money {
                direct: cost(price, other_s + direct_s, args.compute_nodes),
                buffered: cost(price, other_s + buffered_s, nodes) + space,
            }
        });
        let capacities = study.capacities.clone();
        Plan { args, home, buffer, footprint_bytes, capacities, runs, ask_bytes, ratio, other_s, direct_s, buffered_s, drain_s, money }
    }

    /// The smallest and the largest capacity that is enough in one of the orders.
    fn needed(&self) -> (u64, u64) {
        let needed = || self.runs.iter().map(|run| run.needed_bytes);
        (needed().min().unwrap_or(0), needed().max().unwrap_or(0))
    }

    /// At each capacity: the share in the trace's own order, and how far the other orders are off at most.
    fn curve(&self) -> Vec<(u64, f64, f64)> {
        let off = |at: usize| self.runs.iter().map(|run| (run.ratios[at] - self.runs[0].ratios[at]).abs()).fold(0.0, f64::max);
        self.capacities.iter().enumerate().map(|(at, capacity)| (*capacity, self.runs[0].ratios[at], off(at))).collect()
    }

    fn speedup(&self) -> f64 {
        (self.other_s + self.direct_s) / (self.other_s + self.buffered_s).max(1e-12)
    }

    /// What to ask for, in words.
    fn answer(&self) -> String {
        let ask = Unit::Bytes.show(self.ask_bytes as f64);
        let target = Unit::Share.show(self.args.target / 100.0);
        let seconds = |value: f64| Unit::Seconds.show(value);
        if self.buffered_s >= self.direct_s {
            return format!(
                "A buffer brings nothing here: reads and writes take {} at home alone, and {} with {ask} of buffer. Each byte is used about once, or home is about as fast as the buffer, or chunks (--chunk) are much larger than what is read.",
                seconds(self.direct_s),
                seconds(self.buffered_s)
            );
        }
        format!(
            "Ask for {ask} of buffer (the trace touches {}). It reaches {target} of an unlimited buffer's throughput, and reads and writes take {} instead of {}; the application takes about {} instead of {}, {:.2} times as fast. After it, {} pass until everything is home.",
            Unit::Bytes.show(self.footprint_bytes as f64),
            seconds(self.buffered_s),
            seconds(self.direct_s),
            seconds(self.other_s + self.buffered_s),
            seconds(self.other_s + self.direct_s),
            self.speedup(),
            seconds(self.drain_s)
        )
    }

    /// How sure that is, in words.
    fn uncertainty(&self) -> String {
        let orders = self.runs.len() - 1;
        if orders == 0 {
            return "Its processes never work at the same time (or --variations is 0), so its order is taken as it is.".into();
        }
        let (least, most) = self.needed();
        let off = self.curve().iter().map(|(_, _, off)| *off).fold(0.0, f64::max);
        format!(
            "In {orders} other orders of its parallel parts, as chance could have had them, {} to {} are enough, and no capacity's share differs by more than {:.1} points.",
            Unit::Bytes.show(least as f64),
            Unit::Bytes.show(most as f64),
            100.0 * off
        )
    }

    fn price(&self) -> Option<String> {
        let Money { direct, buffered } = self.money.as_ref()?;
        let change = if *direct > 0.0 { 100.0 * (buffered / direct - 1.0) } else { 0.0 };
        Some(format!("A run costs {buffered:.4} instead of {direct:.4} ({change:+.1} %)."))
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.answer(), self.uncertainty());
        if let Some(price) = self.price() {
            text += &format!("{price}\n");
        }
        text += &format!("\nhome: {}\nbuffer: {}\n\n{:>10}  share of the throughput\n", self.home, self.buffer, "buffer");
        for (capacity, ratio, off) in self.curve() {
            text += &format!("{:>10}  {:5.1} % ± {:.1}\n", Unit::Bytes.show(capacity as f64), 100.0 * ratio, 100.0 * off);
        }
        text
    }

    fn json(&self) -> String {
        let (least, most) = self.needed();
        let curve = self.curve();
        let value = json!({
            "version": 1,
            "answer": self.answer(),
            "uncertainty": self.uncertainty(),
            "ask_bytes": self.ask_bytes,
            "needed_bytes": { "own_order": self.runs[0].needed_bytes, "least": least, "most": most },
            "throughput_share": self.ratio,
            "footprint_bytes": self.footprint_bytes,
            "orders": self.runs.len() - 1,
            "seed": self.args.seed,
            "home": self.home,
            "buffer": self.buffer,
            "seconds": { "other": self.other_s, "direct": self.direct_s, "buffered": self.buffered_s, "drain": self.drain_s },
            "speedup": self.speedup(),
            "cost": self.money.as_ref().map(|money| json!({ "direct": money.direct, "buffered": money.buffered })),
            "capacity_bytes": curve.iter().map(|(capacity, ..)| capacity).collect::<Vec<_>>(),
            "throughput_shares": curve.iter().map(|(_, ratio, _)| ratio).collect::<Vec<_>>(),
            "throughput_shares_off": curve.iter().map(|(.., off)| off).collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }
}

fn wanted(args: &PlanArgs) -> Result<Wanted, Error> {
    let one = |option: &str, name: &str, known: Vec<&str>| Error::usage(format!("{option}: \"{name}\" is none of {}", known.join(", ")));
    let kind = ReplacementKind::NAMED.iter().find(|(name, _)| *name == args.policy);
    let (_, kind) = kind.ok_or_else(|| one("--policy", &args.policy, ReplacementKind::NAMED.iter().map(|(name, _)| *name).collect()))?;
    let write_back = match &args.write_back[..] {
        "sync" => WriteBack::Sync,
        "async" => WriteBack::Async,
        other => return Err(one("--write-back", other, vec!["sync", "async"])),
    };
    if !(args.target > 0.0 && args.target <= 100.0) {
        return Err(Error::usage(format!("--target: {} is no share between 0 and 100 percent", args.target)));
    }
    Ok(Wanted { policy: Policy::Online(*kind), write_back, nodes: args.buffer_nodes.max(1), target: args.target / 100.0 })
}

/// `forebay plan`.
pub(crate) fn command(args: &PlanArgs, console: Console) -> Result<(), Error> {
    let kinds: Vec<Kind> = args.output.iter().map(|path| Kind::of(path, &KINDS)).collect::<Result<_, _>>()?;
    let (chunk_bytes, wanted) = (tracefile::chunk_bytes(args.chunk)?, wanted(args)?);
    let home = Level::new("--home", &args.home, console)?;
    let buffer = Level::new("--buffer", &args.buffer, console)?.times(wanted.nodes);
    let rates = levels::rates(wanted.nodes, &home, &buffer)?;
    let (mut builder, mut clock) = (WorkloadBuilder::new(chunk_bytes).with_processes(), Clock::default());
    crate::trace::read_sorted(&args.trace, &args.read, console, |record| {
        builder.add(record);
        clock.add(record);
    })?;
    let workload = builder.finish(Vec::new());
    if workload.references() == 0 {
        let trace = args.trace.display();
        return Err(Error::Data(format!("{trace} has no reads or writes at known places, so there is nothing to plan for")));
    }
    let study = Study::new(&workload, &rates, wanted);
    let bar = console::steps_bar(u64::from(args.variations) + 1, "orders of the trace");
    let runs = study.runs(&clock.parts(), args.variations, args.seed, args.threads, || bar.inc(1));
    bar.finish_and_clear();
    let plan = Plan::new(args, &study, &clock, runs, [home.words(), buffer.words()]);
    for (path, kind) in args.output.iter().zip(kinds) {
        let content = if kind == Kind::Page { page::page(&plan, clock.span_s()) } else { plan.json() };
        report::save(path, content.as_bytes())?;
    }
    crate::print(&if args.json { plan.json() } else { plan.text() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-23: Miranda on 128 nodes, 64 of the buffer and one for metadata, 28.7 times as fast: 94.75 % less.
    #[test]
    fn a_buffer_pays_if_it_saves_enough_time() {
        let (direct, buffered) = (cost(2.0, 3600.0 * 28.7, 128), cost(2.0, 3600.0, 128 + 64 + 1));
        assert!((100.0 * (buffered / direct - 1.0) + 94.75).abs() < 0.01, "{}", buffered / direct);
    }

    #[test]
    fn what_is_asked_for_has_few_digits() {
        let mib = 1 << 20;
        assert_eq!(round_up(151 * mib, mib, 205 * mib), 152 * mib);
        assert_eq!(round_up(204 * mib, mib, 205 * mib), 205 * mib);
        assert_eq!(round_up(mib, mib, mib), mib);
    }
}
