//! What follows from an analysis: how large the buffer has to be, and what each size of it gives.

use forebay_core::config::ReplacementKind;
use forebay_sim::parallel;
use forebay_trace::statistics::Analysis;
use forebay_trace::{FileId, Names, ProcessId};

use crate::args::AnalyzeArgs;
use crate::size::Bytes;

/// The share of the best throughput that the answer is about.
pub(super) const ENOUGH: f64 = 0.9;
/// Lines of the curves: capacities from one chunk to all, each the double of the one before.
const CAPACITIES_MAX: usize = 40;

/// What a buffer of some size does, by LRU and writing back at eviction.
pub(super) struct Point {
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    pub(super) written_home_bytes: Option<u64>,
    pub(super) throughput_share: Option<f64>,
}

/// An analysis with all that is told of it.
pub(super) struct Findings<'a> {
    pub(super) analysis: Analysis,
    pub(super) names: Names,
    pub(super) args: &'a AnalyzeArgs,
    pub(super) points: Vec<Point>,
    /// For each policy, the miss ratio at each point.
    pub(super) curves: Vec<(&'static str, Vec<f64>)>,
    /// The smallest capacity, in chunks, that reaches enough of the best throughput.
    pub(super) smallest_chunks: Option<u64>,
    pub(super) answer: String,
}

impl<'a> Findings<'a> {
    pub(super) fn new(analysis: Analysis, names: Names, args: &'a AnalyzeArgs) -> Findings<'a> {
        let points = points(&analysis, args);
        let capacities: Vec<u64> = points.iter().map(|point| point.chunks).collect();
        let curves = curves(&analysis, &capacities);
        let smallest_chunks = smallest(&analysis, args);
        let answer = answer(&analysis, args, smallest_chunks);
        Findings { analysis, names, args, points, curves, smallest_chunks, answer }
    }

    pub(super) fn chunk_bytes(&self) -> u64 {
        u64::from(self.analysis.options().chunk_bytes)
    }

    pub(super) fn file(&self, file: FileId) -> String {
        if file == FileId::NONE { "(unknown)".into() } else { String::from_utf8_lossy(self.names.path(file)).into_owned() }
    }

    /// A process, as people call it.
    pub(super) fn process(&self, process: ProcessId) -> String {
        let Some(who) = self.names.who(process) else { return "(unknown)".into() };
        let rank = who.rank.map(|rank| format!("rank {rank}"));
        let pid = (who.pid != 0).then(|| who.pid.to_string());
        let thread = (who.thread != 0 && who.thread != who.pid).then(|| format!("thread {}", who.thread));
        let parts = [Some(who.command.clone()), rank, pid, thread, Some(who.host.clone())];
        let text = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        if text.is_empty() { format!("process {}", process.0) } else { text }
    }

    pub(super) fn capacities(&self) -> Vec<u64> {
        self.points.iter().map(|point| point.chunks).collect()
    }
}

/// The miss ratios of all policies, each on a thread of its own as far as there are cores.
fn curves(analysis: &Analysis, capacities: &[u64]) -> Vec<(&'static str, Vec<f64>)> {
    let named = ReplacementKind::NAMED;
    parallel::map(0, named.len(), |at| {
        let (name, kind) = named[at];
        (name, analysis.miss_ratios(kind, capacities))
    })
}

/// The share of an unlimited buffer's throughput that an LRU buffer of these capacities reaches (B-03, RMS in the total), by exact
/// distances.
fn throughput_shares(analysis: &Analysis, args: &AnalyzeArgs, capacities: &[u64]) -> Option<Vec<f64>> {
    let reuse = analysis.reuse.as_ref()?;
    let chunk = f64::from(analysis.options().chunk_bytes);
    let (home, buffer) = (args.rates.home_rate.max(1) as f64, args.rates.buffer_rate.max(1) as f64);
    let uses = reuse.reads.uses() + reuse.writes.uses();
    let first = reuse.reads.first_uses;
    let best_s = chunk * (first / home + uses / buffer);
    let missed = reuse.reads.miss_ratios(capacities);
    let written_back = reuse.written_back(capacities);
    let share = |(missed, back): (&f64, &u64)| {
        let read_again = missed * reuse.reads.uses() - first;
        let extra_s = chunk * (read_again + *back as f64) / home;
        if best_s == 0.0 { 1.0 } else { best_s / (best_s + extra_s) }
    };
    Some(missed.iter().zip(&written_back).map(share).collect())
}

fn points(analysis: &Analysis, args: &AnalyzeArgs) -> Vec<Point> {
    let all = analysis.chunks().max(1);
    let mut capacities: Vec<u64> = (0..CAPACITIES_MAX).map(|power| 1u64 << power).take_while(|chunks| *chunks < all).collect();
    capacities.push(all);
    let shares = throughput_shares(analysis, args, &capacities);
    let written = analysis.reuse.as_ref().map(|reuse| reuse.written_home(&capacities));
    let chunk_bytes = u64::from(analysis.options().chunk_bytes);
    let point = |(at, chunks): (usize, &u64)| Point {
        chunks: *chunks,
        bytes: chunks * chunk_bytes,
        written_home_bytes: written.as_ref().map(|written| written[at] * chunk_bytes),
        throughput_share: shares.as_ref().map(|shares| shares[at]),
    };
    capacities.iter().enumerate().map(point).collect()
}

/// The smallest capacity, in chunks, that reaches enough of the best throughput.
fn smallest(analysis: &Analysis, args: &AnalyzeArgs) -> Option<u64> {
    let enough = |chunks: u64| throughput_shares(analysis, args, &[chunks]).map(|shares| shares[0] >= ENOUGH);
    let (mut low, mut high) = (1, analysis.chunks().max(1));
    while low < high {
        let middle = low.midpoint(high);
        if enough(middle)? { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

/// The answer in words.
fn answer(analysis: &Analysis, args: &AnalyzeArgs, smallest_chunks: Option<u64>) -> String {
    let chunk_bytes = u64::from(analysis.options().chunk_bytes);
    let all = Bytes(analysis.chunks() * chunk_bytes);
    let rates = format!("home moves {}/s and the buffer {}/s", Bytes(args.rates.home_rate), Bytes(args.rates.buffer_rate));
    let Some(chunks) = smallest_chunks else {
        return format!(
            "The trace touches about {all}, too many chunks to say exactly how large a buffer it needs; take larger chunks (--chunk)."
        );
    };
    let why = if chunks >= analysis.chunks() {
        "every smaller buffer reads again, or writes back to make room, too much of it"
    } else if chunks == 1 {
        "hardly anything is used again"
    } else {
        "what is used again is mostly used again soon enough for it, and little has to be written back to make room"
    };
    format!(
        "A buffer of {} (of {all} touched) reaches {:.0} % of the throughput of an unlimited one, if {rates} (LRU, written back at eviction): {why}.",
        Bytes(chunks * chunk_bytes),
        ENOUGH * 100.0
    )
}
