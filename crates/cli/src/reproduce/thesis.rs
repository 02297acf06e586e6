//! The thesis on hierarchical file systems: its studies of a buffer by simulation (chapter 5), and what goes before them.

use super::figure::Rule::{AtLeast, AtMost, Factor, NotAbove, NotBelow, Within};
use super::figure::{Check, Figure, Findings};
use super::lab::App;
use super::measures::{behind_the_best, count, elsewhere, largest_fall, largest_rise_between_lines, leads, mean, smallest_at};
use super::{studies, tables};

const MIB: f64 = (1u64 << 20) as f64;
const KIB: f64 = 1024.0;

/// Points that simulations of generated traces go up and down without a meaning.
const NOISE: f64 = 2.0;

const SIZES_CHOSEN: &str = "the thesis prints sums only; how they are spread over files and in time is our choice";
const RAN_HERE: &str = "Montage ran here on other images, and reads them in other ways than the version of then";

pub(super) const FIGURES: &[Figure] = &[
    Figure { name: "thesis.table2.1", title: "Montage's I/O, and how much of it a buffer takes", run: tables::locality, checks: TABLE_2_1 },
    Figure { name: "thesis.table5.2", title: "Input, touched and moved bytes of five applications", run: tables::sizes, checks: TABLE_5_2 },
    Figure {
        name: "thesis.5.8",
        title: "Montage: size of the buffer and nodes",
        run: |lab| studies::nodes(lab, App::Montage),
        checks: MONTAGE,
    },
    Figure {
        name: "thesis.5.9",
        title: "Similar Pages: size of the buffer and nodes",
        run: |lab| studies::nodes(lab, App::SimilarPages),
        checks: SIMILAR_PAGES,
    },
    Figure {
        name: "thesis.5.10",
        title: "POV-Ray: size of the buffer and nodes",
        run: |lab| studies::nodes(lab, App::Povray),
        checks: POVRAY,
    },
    Figure { name: "thesis.5.11", title: "BTIO: size of the buffer and nodes", run: |lab| studies::nodes(lab, App::Btio), checks: BTIO },
    Figure {
        name: "thesis.5.12",
        title: "Miranda_IO: size of the buffer and nodes",
        run: |lab| studies::nodes(lab, App::Miranda),
        checks: MIRANDA,
    },
    Figure { name: "thesis.5.13", title: "Swapping by chunks and by files, 32 nodes", run: studies::granularity, checks: GRANULARITY },
    Figure { name: "thesis.5.14", title: "Replacement policies, 32 nodes", run: studies::policies, checks: POLICIES },
    Figure { name: "thesis.5.20", title: "An example of reuse distances", run: tables::distances, checks: DISTANCES },
    Figure {
        name: "thesis.5.24",
        title: "Montage: traced directly and through a buffer",
        run: |lab| studies::two_traces(lab, App::Montage),
        checks: TWO_TRACES,
    },
    Figure {
        name: "thesis.5.25",
        title: "BTIO: traced directly and through a buffer",
        run: |lab| studies::two_traces(lab, App::Btio),
        checks: TWO_TRACES,
    },
    Figure {
        name: "thesis.5.26",
        title: "Miranda_IO: traced directly and through a buffer",
        run: |lab| studies::two_traces(lab, App::Miranda),
        checks: TWO_TRACES,
    },
    Figure {
        name: "thesis.5.27",
        title: "POV-Ray: traced directly and through a buffer",
        run: |lab| studies::two_traces(lab, App::Povray),
        checks: TWO_TRACES_POVRAY,
    },
    Figure {
        name: "thesis.5.28",
        title: "Similar Pages: traced directly and through a buffer",
        run: |lab| studies::two_traces(lab, App::SimilarPages),
        checks: TWO_TRACES,
    },
    Figure { name: "thesis.5.29", title: "A read that goes on in the same chunk is no use again", run: tables::continued, checks: &[] },
    Figure {
        name: "thesis.5.30",
        title: "Montage: reuse distances",
        run: |lab| studies::distances(lab, App::Montage),
        checks: &[SHORT_DISTANCES, OTHER_DISTANCES],
    },
    Figure {
        name: "thesis.5.31",
        title: "Similar Pages: reuse distances",
        run: |lab| studies::distances(lab, App::SimilarPages),
        checks: &[SHORT_DISTANCES, OTHER_DISTANCES],
    },
    Figure {
        name: "thesis.5.32",
        title: "POV-Ray: reuse distances",
        run: |lab| studies::distances(lab, App::Povray),
        checks: &[SHORTEST_DISTANCES, OTHER_DISTANCES],
    },
    Figure { name: "thesis.5.33", title: "BTIO: reuse distances", run: |lab| studies::distances(lab, App::Btio), checks: &[] },
    Figure {
        name: "thesis.5.34",
        title: "Miranda_IO: reuse distances",
        run: |lab| studies::distances(lab, App::Miranda),
        checks: &[OTHER_DISTANCES],
    },
];

/// A value of table 2.1 for a set of data.
macro_rules! row_2_1 {
    ($claim:literal, $set:literal, $column:literal, $what:literal, $unit:literal, $rule:expr, $otherwise:expr) => {
        Check { claim: $claim, what: $what, unit: $unit, measure: |found| found.at(0, $set, $column), rule: $rule, otherwise: $otherwise }
    };
}

const TABLE_2_1: &[Check] = &[
    row_2_1!(
        "thesis.t21.ds0.rbuf",
        "set 0",
        5.0,
        "R_buf of the smallest set",
        "%",
        Within(3.0),
        "the thesis leaves 85 MB of reads unbuffered for 25 MB of input, more than three misses for each byte of it, and no rule for \
         that fits its other two sets; with each byte missing once R_buf is as high in the small set as in the others"
    ),
    row_2_1!("thesis.t21.ds1.rbuf", "set 1", 5.0, "R_buf of the middle set", "%", Within(3.0), RAN_HERE),
    row_2_1!("thesis.t21.ds2.rbuf", "set 2", 5.0, "R_buf of the largest set", "%", Within(3.0), RAN_HERE),
    Check {
        claim: "thesis.t21.rbuf.min",
        what: "smallest R_buf",
        unit: "%",
        measure: |found| smallest_at(found.panels.first()?, 5.0),
        rule: AtLeast(0.0),
        otherwise: RAN_HERE,
    },
];

const TABLE_5_2: &[Check] = &[
    sizes("thesis.t52.montage.input", "input of Montage", |found| found.at(0, "Montage", 0.0)),
    sizes("thesis.t52.montage.access", "touched by Montage", |found| found.at(0, "Montage", 1.0)),
    sizes("thesis.t52.montage.io", "moved by Montage", |found| found.at(0, "Montage", 2.0)),
    sizes("thesis.t52.povray.input", "input of POV-Ray", |found| found.at(0, "POV-Ray", 0.0)),
    sizes("thesis.t52.povray.access", "touched by POV-Ray", |found| found.at(0, "POV-Ray", 1.0)),
    sizes("thesis.t52.povray.io", "moved by POV-Ray", |found| found.at(0, "POV-Ray", 2.0)),
    sizes("thesis.t52.similar_pages.input", "input of Similar Pages", |found| found.at(0, "Similar Pages", 0.0)),
    sizes("thesis.t52.similar_pages.access", "touched by Similar Pages", |found| found.at(0, "Similar Pages", 1.0)),
    sizes("thesis.t52.similar_pages.io", "moved by Similar Pages", |found| found.at(0, "Similar Pages", 2.0)),
    sizes("thesis.t52.miranda.access", "touched by Miranda_IO, a node", |found| found.at(0, "Miranda_IO", 1.0)),
    sizes("thesis.t52.miranda.io", "moved by Miranda_IO, a node", |found| found.at(0, "Miranda_IO", 2.0)),
    sizes("thesis.t52.btio.access", "touched by BTIO", |found| found.at(0, "BTIO", 1.0)),
    sizes("thesis.t52.btio.io", "moved by BTIO", |found| found.at(0, "BTIO", 2.0)),
];

const fn sizes(claim: &'static str, what: &'static str, measure: fn(&Findings) -> Option<f64>) -> Check {
    let otherwise = "what ran here has other proportions of input, output and reads: other images, other scenes, other versions";
    Check { claim, what, unit: "MB", measure, rule: Factor(1.2), otherwise }
}

/// The ratio grows with the buffer.
const fn grows(claim: &'static str) -> Check {
    Check {
        claim,
        what: "largest fall from a buffer to the next larger one",
        unit: "%",
        measure: |found| found.panels.first().map(largest_fall),
        rule: NotAbove(NOISE),
        otherwise: "a larger buffer is slower somewhere",
    }
}

const MONTAGE: &[Check] = &[
    Check {
        claim: "thesis.fig58.6gb",
        what: "smallest ratio with 80 % of what is touched (6 of 7.5 GB)",
        unit: "%",
        measure: |found| smallest_at(found.panels.first()?, 80.0),
        rule: AtLeast(0.0),
        otherwise: SIZES_CHOSEN,
    },
    Check {
        claim: "thesis.fig58.4gb.n32",
        what: "ratio with 53 % of what is touched (4 of 7.5 GB), 32 nodes",
        unit: "%",
        measure: |found| found.at(0, "32 nodes", 53.3),
        rule: Within(10.0),
        otherwise: "nothing has to be written back here to make room: home keeps up in the background, where the thesis's bars show that \
            it did not; the rest depends on how the tasks' reads are spread, which is not printed",
    },
    grows("thesis.fig58.trend.buffer"),
    Check {
        claim: "thesis.fig58.trend.nodes",
        what: "largest rise from a number of nodes to the double",
        unit: "%",
        measure: |found| found.panels.first().map(largest_rise_between_lines),
        rule: NotAbove(NOISE),
        otherwise: "each phase walks through the images in the order of the one before, and LRU has just let go of the first ones; with many \
            tasks at once the walk is less regular, which helps, where in the thesis it harms",
    },
];

const SIMILAR_PAGES: &[Check] = &[
    Check {
        claim: "thesis.fig59.32mb",
        what: "smallest ratio with 32 MiB",
        unit: "%",
        measure: |found| smallest_at(found.panels.first()?, 32.0 * MIB),
        rule: AtLeast(3.0),
        otherwise: SIZES_CHOSEN,
    },
    Check {
        claim: "thesis.fig59.16mb.n1",
        what: "ratio with 16 MiB, 1 node",
        unit: "%",
        measure: |found| found.at(0, "1 node", 16.0 * MIB),
        rule: Within(10.0),
        otherwise: SIZES_CHOSEN,
    },
    Check {
        claim: "thesis.fig59.16mb.n32",
        what: "ratio with 16 MiB, 32 nodes",
        unit: "%",
        measure: |found| found.at(0, "32 nodes", 16.0 * MIB),
        rule: Within(10.0),
        otherwise: SIZES_CHOSEN,
    },
];

const POVRAY: &[Check] = &[Check {
    claim: "thesis.fig510",
    what: "smallest ratio with 400 KiB",
    unit: "%",
    measure: |found| smallest_at(found.panels.first()?, 400.0 * KIB),
    rule: NotBelow(90.0),
    otherwise: "with one task on each of many nodes, more sources are in use at once than so small a buffer holds",
}];

const BTIO: &[Check] = &[
    Check {
        claim: "thesis.fig511.full",
        what: "smallest ratio with all that is touched",
        unit: "%",
        measure: |found| smallest_at(found.panels.first()?, 100.0),
        rule: Within(0.5),
        otherwise: "something is swapped although there is room for all",
    },
    Check {
        claim: "thesis.fig511.trend",
        what: "gain from 10 % to 90 % of what is touched, 32 nodes",
        unit: "%",
        measure: |found| Some(found.at(0, "32 nodes", 90.0)? - found.at(0, "32 nodes", 10.0)?),
        rule: NotAbove(10.0),
        otherwise: "a larger buffer writes less back before the last dump is written",
    },
    Check {
        claim: "thesis.fig511.trend",
        what: "gain from 90 % to all, 32 nodes",
        unit: "%",
        measure: |found| Some(found.at(0, "32 nodes", 100.0)? - found.at(0, "32 nodes", 90.0)?),
        rule: NotBelow(50.0),
        otherwise: "the file is used again before all of it has passed",
    },
];

const MIRANDA: &[Check] = &[
    Check {
        claim: "thesis.fig512.trend",
        what: "gain from 10 % to 80 % of what is touched, 32 nodes",
        unit: "%",
        measure: |found| Some(found.at(0, "32 nodes", 80.0)? - found.at(0, "32 nodes", 10.0)?),
        rule: NotBelow(1.0),
        otherwise: "each byte is used again when all others have been: what a buffer holds of it is gone by then, however large it is, and \
            the thesis does not say what else it counts on",
    },
    grows("thesis.fig512.trend"),
];

const GRANULARITY: &[Check] = &[
    Check {
        claim: "thesis.fig513.order",
        what: "smallest lead of chunks over files",
        unit: "%",
        measure: |found| found.panels.iter().flat_map(|panel| leads(panel, "by chunks", "by files")).reduce(f64::min),
        rule: NotBelow(-0.5),
        otherwise: "where a file is used as a whole, swapping it at once costs no more, and a file whose first chunk is used is kept as a whole",
    },
    Check {
        claim: "thesis.fig513.slight",
        what: "mean lead of chunks over files, the larger of Montage's and Similar Pages'",
        unit: "%",
        measure: |found| {
            let mean = |title: &str| {
                let leads: Vec<f64> = leads(found.panel(title)?, "by chunks", "by files").collect();
                (!leads.is_empty()).then(|| leads.iter().sum::<f64>() / leads.len() as f64)
            };
            Some(mean("Montage")?.max(mean("Similar Pages")?))
        },
        rule: NotAbove(10.0),
        otherwise: "Montage's files are several chunks long, and tasks read parts of them",
    },
    Check {
        claim: "thesis.fig513.missing",
        what: "sizes below the whole at which BTIO works by files",
        unit: "",
        measure: |found| Some(found.panel("BTIO")?.line("by files")?.points.iter().filter(|(x, _)| *x < 100.0).count() as f64),
        rule: NotAbove(0.0),
        otherwise: "a buffer smaller than the file took it",
    },
];

const POLICIES: &[Check] = &[
    Check {
        claim: "thesis.fig514.algorithms",
        what: "policies",
        unit: "",
        measure: |found| Some(found.panels.first()?.lines.len() as f64),
        rule: Within(0.0),
        otherwise: "a policy is missing",
    },
    Check {
        claim: "thesis.fig514.lru_fifo",
        what: "applications of five in which LRU and FIFO are within 10 points of the best of four, by the mean",
        unit: "",
        measure: |found| {
            Some(count(found, |panel| ["lru", "fifo"].iter().all(|name| behind_the_best(panel, name).is_some_and(|behind| behind <= 10.0))))
        },
        rule: NotBelow(4.0),
        otherwise: "another policy is far better in several applications",
    },
    Check {
        claim: "thesis.fig514.btio",
        what: "LRU behind the best of four for BTIO, by the mean",
        unit: "%",
        measure: |found| behind_the_best(found.panel("BTIO")?, "lru"),
        rule: NotAbove(15.0),
        otherwise: "a policy that keeps what it has wins much where all is read in a loop",
    },
    Check {
        claim: "thesis.fig514.lfu",
        what: "LRU above LFU for Montage, by the mean",
        unit: "%",
        measure: |found| {
            let montage = found.panel("Montage")?;
            Some(mean(montage.line("lru")?)? - mean(montage.line("lfu")?)?)
        },
        rule: NotBelow(1.0),
        otherwise: "files of an early phase were not used so often that they pollute the buffer later",
    },
    Check {
        claim: "thesis.fig514.lfu",
        what: "applications of five in which LRU is above LFU and LFUDA, by the mean",
        unit: "",
        measure: |found| {
            let mean_of = |panel: &super::figure::Panel, name| panel.line(name).and_then(mean).unwrap_or(f64::NAN);
            Some(count(found, |panel| ["lfu", "lfuda"].iter().all(|name| mean_of(panel, "lru") > mean_of(panel, name))))
        },
        rule: NotBelow(3.0),
        otherwise: "where all is read in a loop, or shortly after it was written, counts do no harm; LFUDA forgets them soon enough",
    },
];

const DISTANCES: &[Check] = &[
    example("thesis.fig520.A", "distance of A", |found| found.at(0, "distance", 2.0)),
    example("thesis.fig520.B", "distance of B", |found| found.at(0, "distance", 1.0)),
    example("thesis.fig520.C", "distance of C", |found| found.panels.first()?.line("distance")?.points.first().map(|(_, y)| *y)),
    example("thesis.fig520.between", "accesses between the two of A", |found| found.at(0, "accesses between", 2.0)),
];

const fn example(claim: &'static str, what: &'static str, measure: fn(&Findings) -> Option<f64>) -> Check {
    Check { claim, what, unit: "", measure, rule: Within(0.0), otherwise: "distances are counted differently" }
}

/// The largest difference of what is simulated from two traces.
fn difference(found: &Findings) -> Option<f64> {
    found.panels.first()?.line("difference")?.values().reduce(f64::max)
}

const TWO_TRACES: &[Check] = &[Check {
    claim: "thesis.fig524_528.diff",
    what: "largest difference",
    unit: "%",
    measure: difference,
    rule: AtMost(2.0),
    otherwise: "with one size of the buffer a use again is just within it in one order and just beyond it in the other",
}];

const TWO_TRACES_POVRAY: &[Check] = &[Check {
    claim: "thesis.fig527.maxdiff",
    what: "largest difference",
    unit: "%",
    measure: difference,
    rule: AtMost(0.5),
    otherwise: "with one size of the buffer a use again is just within it in one order and just beyond it in the other",
}];

const SHORT_DISTANCES: Check = Check {
    claim: "thesis.fig530_534.short",
    what: "uses again within half of all chunks, direct",
    unit: "%",
    measure: |found| found.at(1, "direct", 50.0),
    rule: NotBelow(80.0),
    otherwise: "uses again follow each other at larger distances",
};

const SHORTEST_DISTANCES: Check = Check {
    claim: "thesis.fig530_534.short",
    what: "uses again within a hundredth of all chunks, direct",
    unit: "%",
    measure: |found| found.at(1, "direct", 1.0),
    rule: NotBelow(50.0),
    otherwise: "jobs on other nodes use their own sources in between",
};

const OTHER_DISTANCES: Check = Check {
    claim: "thesis.fig530_534.diff",
    what: "uses again, reads or writes, at other distances in the other trace",
    unit: "%",
    measure: |found| {
        let panel = found.panels.first()?;
        let of = |kind: &str| Some(elsewhere(panel.line(&format!("{kind}, direct"))?, panel.line(&format!("{kind}, through a buffer"))?));
        Some(of("reads")?.max(of("writes")?))
    },
    rule: NotBelow(5.0),
    otherwise: "the same tasks in nearly the same order: only their times differ here, where the thesis had two runs of the program",
};
