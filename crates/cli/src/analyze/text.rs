//! An analysis for the terminal.

use std::fmt::Write as _;

use forebay_trace::Op;
use forebay_trace::statistics::patterns::Share;

use super::findings::Findings;
use crate::size::Bytes;

fn percent(part: f64, all: f64) -> f64 {
    if all == 0.0 { 0.0 } else { 100.0 * part / all }
}

fn share_line(name: &str, share: Share, all: Share) -> String {
    let requests = percent(share.requests as f64, all.requests as f64);
    let bytes = percent(share.bytes as f64, all.bytes as f64);
    format!("  {name:<34} {requests:5.1} % of requests  {bytes:5.1} % of bytes\n")
}

pub(super) fn text(findings: &Findings) -> String {
    let (analysis, args) = (&findings.analysis, findings.args);
    let mut text = format!("{}\n\n", findings.answer);
    let span = analysis.bursts.span_ns() as f64 / 1e9;
    let parts = analysis.phases.parts();
    let parallel = parts.iter().filter(|part| part.is_parallel()).count();
    let _ = writeln!(
        text,
        "operations in {span:.3} s, {} processes, {parallel} parallel parts of {}:",
        analysis.phases.processes(),
        parts.len()
    );
    for (op, share) in Op::ALL.iter().zip(&analysis.operations).filter(|(_, share)| share.requests > 0) {
        let bytes = if op.moves_data() { format!(", {}", Bytes(share.bytes)) } else { String::new() };
        let _ = writeln!(text, "  {:<10} {}{bytes}", op.name(), share.requests);
    }
    let patterns = &analysis.patterns;
    text += "\naccess:\n";
    for (name, share) in [("sequential", patterns.sequential), ("strided", patterns.strided), ("random", patterns.random)] {
        text += &share_line(name, share, patterns.all);
    }
    text += &share_line(&format!("above a stripe unit of {}, unaligned", Bytes(args.stripe)), patterns.unaligned, patterns.all);
    text += &share_line("below 20 KiB", patterns.small, patterns.all);
    let locality = &analysis.locality;
    let _ = writeln!(text, "\nan unlimited buffer takes {:.1} % of all bytes (R_buf)", 100.0 * locality.ratio());
    if let Some(longest) = analysis.bursts.idle.first() {
        let _ = writeln!(
            text,
            "longest time without I/O: {:.3} s, after {:.3} s",
            longest.length_ns as f64 / 1e9,
            longest.from_ns as f64 / 1e9
        );
    }
    // Of the rates around home's, the page has all.
    for drained in analysis.bursts.drained.iter().skip(1).step_by(2) {
        let _ = writeln!(
            text,
            "most dirty data at once, if home takes {}/s: {}",
            Bytes(drained.bytes_per_s as u64),
            Bytes(drained.peak_bytes as u64)
        );
    }
    if let Some(reuse) = &analysis.reuse {
        for (name, histogram) in [("reads", &reuse.reads), ("writes", &reuse.writes)] {
            if let (Some(half), Some(most)) = (histogram.quantile(0.5), histogram.quantile(0.9)) {
                let _ = writeln!(text, "reuse distance of {name}: half up to {half} chunks, nine tenths up to {most}");
            }
        }
    }
    text + "\n" + &curve_text(findings)
}

fn curve_text(findings: &Findings) -> String {
    let mut text = format!("{:>10} {:>10} {:>6} ", "buffer", "home gets", "speed");
    findings.curves.iter().for_each(|(name, _)| text += &format!(" {name:>9}"));
    text += "   (misses, %)\n";
    for (at, point) in findings.points.iter().enumerate() {
        let written = point.written_home_bytes.map_or("-".into(), |bytes| Bytes(bytes).to_string());
        let speed = point.throughput_share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share));
        text += &format!("{:>10} {written:>10} {speed:>6} ", Bytes(point.bytes).to_string());
        findings.curves.iter().for_each(|(_, curve)| text += &format!(" {:>9.2}", 100.0 * curve[at]));
        text += "\n";
    }
    let kept = findings.analysis.kept_share();
    if kept < 1.0 {
        text += &format!("policies other than LRU: simulated on a sample of {:.2} % of the chunks\n", 100.0 * kept);
    }
    text
}
