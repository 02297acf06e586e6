//! Tables of the thesis, and its small examples.

use forebay_trace::statistics::chunks::{Continuation, Touch, Touches};
use forebay_trace::statistics::reuse::Reuse;
use forebay_trace::{FileId, Op, ProcessId, Record};

use super::figure::{Axis, Findings, Line, Panel};
use super::lab::{App, Lab, Run};
use crate::error::Error;

const MEGABYTE: f64 = 1e6;

/// A table with names along the top and a line for each row.
fn table(title: &str, y_label: &str, ticks: Vec<String>, rows: Vec<(String, Vec<f64>)>) -> Panel {
    let line = |(name, values): (String, Vec<f64>)| Line {
        name,
        points: values.into_iter().enumerate().map(|(at, value)| (at as f64, value)).collect(),
    };
    let lines = rows.into_iter().map(line).collect();
    Panel { title: title.into(), x: Axis::Names, x_label: String::new(), y_label: y_label.into(), ticks, stacked: false, lines }
}

/// Montage's I/O on three sets of data (table 2.1).
pub(super) fn locality(lab: &Lab<'_>) -> Result<Findings, Error> {
    let names = ["input", "read", "written", "all", "with locality", "R_buf, %"];
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for (set, side) in lab.montage_sides().into_iter().enumerate() {
        let (traced, note) = lab.montage_of(side)?;
        let locality = &traced.locality;
        let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
        let (read, written) = (megabytes(locality.read_bytes), megabytes(locality.written_bytes));
        let local = megabytes(locality.read_known_bytes + locality.written_bytes);
        let values = vec![megabytes(traced.input_bytes), read, written, read + written, local, 100.0 * locality.ratio()];
        rows.push((format!("set {set}"), values));
        notes.push(note);
    }
    let ticks = names.map(str::to_owned).into();
    Ok(Findings { panels: vec![table("Montage", "MB", ticks, rows)], notes })
}

/// Input, touched and moved bytes of the applications (table 5.2).
pub(super) fn sizes(lab: &Lab<'_>) -> Result<Findings, Error> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for app in App::ALL {
        let nodes = 1;
        let traced = lab.traced(app, Run::Fast(nodes))?;
        // Where it ran here, in sizes of its own: as if it touched what the thesis says, so that only the proportions count.
        let scale = if lab.is_recorded(app)? { app.printed_space_bytes(nodes) as f64 / traced.space_bytes as f64 } else { 1.0 };
        let megabytes = |bytes: u64| scale * bytes as f64 / MEGABYTE;
        let moved = traced.locality.read_bytes + traced.locality.written_bytes;
        rows.push((
            app.name().to_owned(),
            vec![megabytes(lab.input_bytes(app, &traced)?), megabytes(traced.space_bytes), megabytes(moved)],
        ));
        let scaled = if scale == 1.0 { String::new() } else { format!("; its numbers are multiplied by {scale:.2}") };
        notes.push(format!("{}{scaled}", lab.note(app)?));
    }
    let ticks = ["input", "touched", "moved"].map(str::to_owned).into();
    Ok(Findings { panels: vec![table("applications", "MB", ticks, rows)], notes })
}

/// The example of reuse distances (figure 5.20).
pub(super) fn distances(_: &Lab<'_>) -> Result<Findings, Error> {
    let (mut reuse, mut last) = (Reuse::new(), [None; 4]);
    let mut rows = vec![("distance".to_owned(), Vec::new()), ("accesses between".to_owned(), Vec::new())];
    for (at, chunk) in [0u64, 1, 2, 3, 2, 1, 0].into_iter().enumerate() {
        let before = reuse.reads.counts.clone();
        reuse.touch(&Touch { file: FileId(0), index: chunk, bytes: 1, is_write: false, is_continued: false });
        if let Some(last) = last[chunk as usize].replace(at) {
            let count = |counts: &[f64], at: usize| counts.get(at).copied().unwrap_or(0.0);
            let distance = (0..reuse.reads.counts.len()).find(|at| count(&before, *at) != reuse.reads.counts[*at]);
            rows[0].1.push(distance.map_or(f64::NAN, |distance| distance as f64));
            rows[1].1.push((at - last - 1) as f64);
        }
    }
    let ticks = ["C", "B", "A"].map(str::to_owned).into();
    let panels = vec![table("A B C D C B A", "accesses", ticks, rows)];
    Ok(Findings { panels, notes: Vec::new() })
}

/// The example of a read that goes on within a chunk (figure 5.29).
pub(super) fn continued(_: &Lab<'_>) -> Result<Findings, Error> {
    let uses = |second: (u64, u64)| {
        let (mut reuse, mut touches) = (Reuse::new(), Touches::new(8192, Continuation::PerProcess));
        for (offset, size) in [(0, 2048), second] {
            let (file, process) = (FileId(0), ProcessId(0));
            let record = Record { file, process, offset, size, result: size as i64, ..Record::new(Op::Read, offset) };
            touches.of(&record, |touch| reuse.touch(&touch));
        }
        reuse.reads.counts.iter().sum::<f64>()
    };
    let ticks = ["2 KB, then the next 3 KB", "2 KB, then 3 KB from the begin"].map(str::to_owned).into();
    let rows = vec![("uses again".to_owned(), vec![uses((2048, 3072)), uses((0, 3072))])];
    Ok(Findings { panels: vec![table("two reads in one chunk", "uses again", ticks, rows)], notes: Vec::new() })
}
