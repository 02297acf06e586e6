//! iBridge: requests that do not fit the stripes, and an SSD for what is left over of them. Not all of its figures: caching of what is read,
//! and what follows from it, is not built.

use super::figure::Rule::{AtMost, NotAbove, NotBelow, Within};
use super::figure::{Check, Figure, Findings};
use super::ibridge_studies::{self as studies, IBRIDGE, STOCK};

pub(super) const FIGURES: &[Figure] = &[
    Figure { name: "ibridge.table1", title: "Unaligned and random requests of four programs", run: studies::shares, checks: TABLE_1 },
    Figure { name: "ibridge.fig2", title: "Requests that do not fit the stripes", run: studies::unaligned, checks: FIG_2 },
    Figure { name: "ibridge.fig3", title: "Striping magnification", run: studies::magnification, checks: FIG_3 },
    Figure { name: "ibridge.fig4", title: "mpi-io-test, writes of 64 processes", run: studies::writes, checks: FIG_4 },
    Figure { name: "ibridge.fig13", title: "The threshold of fragments", run: studies::thresholds, checks: FIG_13 },
];

const DRAWN: &str = "the requests were drawn by these shares";

const TABLE_1: &[Check] = &[
    Check::new("ibridge.table1.alegra2744.unaligned", "unaligned, ALEGRA-2744", "%", |f| f.at(0, "ALEGRA-2744", 0.0), Within(1.5), DRAWN),
    Check::new("ibridge.table1.alegra2744.random", "random, ALEGRA-2744", "%", |f| f.at(0, "ALEGRA-2744", 1.0), Within(1.5), DRAWN),
    Check::new("ibridge.table1.alegra5832.unaligned", "unaligned, ALEGRA-5832", "%", |f| f.at(0, "ALEGRA-5832", 0.0), Within(1.5), DRAWN),
    Check::new("ibridge.table1.cth.random", "random, CTH", "%", |f| f.at(0, "CTH", 1.0), Within(1.5), DRAWN),
    Check::new("ibridge.table1.s3d.unaligned", "unaligned, S3D", "%", |f| f.at(0, "S3D", 0.0), Within(1.5), DRAWN),
    Check::new("ibridge.table1.s3d.total", "both, S3D", "%", |f| f.at(0, "S3D", 2.0), Within(1.5), DRAWN),
];

const ORDER: &str = "how far the paper's processes drift apart, and what its servers' disks had in their queues, is not printed";
const PLACES: [f64; 4] = [16.0, 64.0, 128.0, 512.0];

/// How much one line is above another, percent.
fn gain(found: &Findings, panel: usize, one: &str, other: &str, x: f64) -> Option<f64> {
    Some(100.0 * (found.at(panel, one, x)? / found.at(panel, other, x)? - 1.0))
}

/// The largest of some values, if there are all of them.
fn largest(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

fn unaligned_over_aligned(found: &Findings, panel: usize) -> Option<f64> {
    let kinds = ["65 KiB", "74 KiB", "84 KiB", "94 KiB"];
    largest(kinds.iter().flat_map(|kind| PLACES.map(|x| gain(found, panel, kind, "64 KiB", x))))
}

const FIG_2: &[Check] = &[
    Check::new(
        "ibridge.fig2a.p16.r65.drop",
        "reads of 65 KiB, 16 processes, from 64 KiB",
        "%",
        |f| gain(f, 0, "65 KiB", "64 KiB", 16.0),
        Within(12.0),
        ORDER,
    ),
    Check::new(
        "ibridge.fig2a.p16.r74.drop",
        "reads of 74 KiB, 16 processes, from 64 KiB",
        "%",
        |f| gain(f, 0, "74 KiB", "64 KiB", 16.0),
        Within(12.0),
        ORDER,
    ),
    Check::new(
        "ibridge.fig2a.trend.unaligned",
        "reads that do not fit over those that do, the best of all",
        "%",
        |f| unaligned_over_aligned(f, 0),
        NotAbove(0.0),
        ORDER,
    ),
    Check::new(
        "ibridge.fig2a.trend.procs",
        "reads of 64 KiB, 512 processes over 16",
        "%",
        |f| Some(100.0 * (f.at(0, "64 KiB", 512.0)? / f.at(0, "64 KiB", 16.0)? - 1.0)),
        NotAbove(0.0),
        ORDER,
    ),
    Check::new(
        "ibridge.fig2b.o1.drop",
        "reads shifted by 1 KiB, 16 processes",
        "%",
        |f| gain(f, 0, "+1 KiB", "64 KiB", 16.0),
        Within(15.0),
        ORDER,
    ),
    Check::new(
        "ibridge.fig2b.o10.drop",
        "reads shifted by 10 KiB, 16 processes",
        "%",
        |f| gain(f, 0, "+10 KiB", "64 KiB", 16.0),
        Within(15.0),
        ORDER,
    ),
    Check::new(
        "ibridge.fig2b.trend",
        "shifted by 1 KiB over shifted by 10, 16 processes",
        "%",
        |f| gain(f, 0, "+1 KiB", "+10 KiB", 16.0),
        NotBelow(0.0),
        "a seek and a turn cost the same before a large and a small piece; only the passing of the bytes differs",
    ),
    Check::new(
        "ibridge.fig2.write",
        "writes that do not fit over those that do, the best of all",
        "%",
        |f| unaligned_over_aligned(f, 1),
        NotAbove(0.0),
        ORDER,
    ),
];

/// The largest step down along a line, points.
fn largest_step_down(found: &Findings, panel: usize, line: &str) -> Option<f64> {
    found.line(panel, line)?.points.windows(2).map(|pair| pair[0].1 - pair[1].1).reduce(f64::max)
}

const FIG_3: &[Check] = &[
    Check::new(
        "ibridge.fig3.trend.fragment",
        "smallest loss by the fragment, no barrier",
        "%",
        |f| f.line(1, "no barrier")?.values().reduce(f64::min),
        NotBelow(0.0),
        "a fragment costs nothing",
    ),
    Check::new(
        "ibridge.fig3.trend.fragment",
        "loss with 7 stripes above that with 1, no barrier",
        "%",
        |f| Some(f.at(1, "no barrier", 7.0)? - f.at(1, "no barrier", 1.0)?),
        NotBelow(0.0),
        "the first servers are so much faster than the busy one that requests wait for that one as long with few stripes as with many: in bytes \
         those with many lose less",
    ),
    Check::new(
        "ibridge.fig3.trend.barrier",
        "least lead of the loss with a barrier",
        "%",
        |f| {
            let without = f.line(1, "no barrier")?;
            let leads = f.line(1, "barrier")?.points.iter().map(|(x, loss)| Some(-(loss - without.at(*x)?)));
            largest(leads).map(|lead| -lead)
        },
        NotBelow(0.0),
        "the busy server is what everybody waits for with and without a barrier",
    ),
];

const RETURN: &str = "by the printed formulas a fragment's own time is that of a stripe less the passing of its bytes, so its return is positive only \
    where its seek happens to be longer than the last request's; three fragments in ten are, and the rest of the request pays its seek anyway. The \
    paper's shares are those of all fragments";

const FIG_4: &[Check] = &[
    Check::new(
        "ibridge.fig4a.r33.gain",
        "iBridge over stock, writes of 33 KiB",
        "%",
        |f| gain(f, 0, IBRIDGE, STOCK, 33.0 * 1024.0),
        Within(60.0),
        RETURN,
    ),
    Check::new(
        "ibridge.fig4a.r65.gain",
        "iBridge over stock, writes of 65 KiB",
        "%",
        |f| gain(f, 0, IBRIDGE, STOCK, 65.0 * 1024.0),
        Within(60.0),
        RETURN,
    ),
    Check::new(
        "ibridge.fig4a.r129.gain",
        "iBridge over stock, writes of 129 KiB",
        "%",
        |f| gain(f, 0, IBRIDGE, STOCK, 129.0 * 1024.0),
        Within(60.0),
        RETURN,
    ),
    Check::new("ibridge.fig4.r33.ssd_share", "iBridge to SSDs, 33 KiB", "%", |f| f.at(1, IBRIDGE, 33.0 * 1024.0), Within(2.0), RETURN),
    Check::new("ibridge.fig4.r65.ssd_share", "iBridge to SSDs, 65 KiB", "%", |f| f.at(1, IBRIDGE, 65.0 * 1024.0), Within(2.0), RETURN),
    Check::new("ibridge.fig4.r129.ssd_share", "iBridge to SSDs, 129 KiB", "%", |f| f.at(1, IBRIDGE, 129.0 * 1024.0), AtMost(0.0), RETURN),
    Check::new(
        "ibridge.fig4.offset.ibridge",
        "iBridge and stock, writes of 64 KiB: difference",
        "%",
        |f| Some(gain(f, 0, IBRIDGE, STOCK, 65_536.0)?.abs()),
        NotAbove(0.1),
        RETURN,
    ),
];

const FIG_13: &[Check] = &[
    Check::new("ibridge.fig13.t10.ssd", "to SSDs, threshold of 10 KiB", "%", |f| f.at(1, IBRIDGE, 10.0 * 1024.0), AtMost(0.0), RETURN),
    Check::new("ibridge.fig13.t40.ssd", "to SSDs, threshold of 40 KiB", "%", |f| f.at(1, IBRIDGE, 40.0 * 1024.0), Within(10.0), RETURN),
    Check::new(
        "ibridge.fig13.trend",
        "largest step down of the share with the threshold",
        "%",
        |f| largest_step_down(f, 1, IBRIDGE),
        NotAbove(0.0),
        RETURN,
    ),
    Check::new(
        "ibridge.fig13.trend",
        "throughput with 40 KiB over that with 10",
        "%",
        |f| Some(100.0 * (f.at(0, IBRIDGE, 40.0 * 1024.0)? / f.at(0, IBRIDGE, 10.0 * 1024.0)? - 1.0)),
        NotBelow(0.0),
        RETURN,
    ),
];
