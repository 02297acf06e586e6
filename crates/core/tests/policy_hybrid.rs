//! Detection and admission against naive models, and against logs that others published.

use std::path::PathBuf;

use forebay_core::id::Ino;
use forebay_core::policy::admission::{
    AdaptiveLevel, AdmissionConfig, AdmissionView, IndexRule, ResetRule, SsdupPlus, SsdupPlusConfig, Watermarks,
};
use forebay_core::policy::detector::{Detector, RandomStreams, StreamConfig};
use forebay_core::policy::{Arrival, Operation, RequestClass, Share, Target};
use proptest::prelude::*;

fn write(file: u64, offset: u64, len: u64) -> Arrival<'static> {
    let (operation, class) = (Operation::Write, RequestClass::Ordinary);
    Arrival { file: Ino(file), offset, len, operation, class, siblings: &[], place: offset }
}

/// Random pairs of a stream, told by whether anything of the stream continues at each request's end.
fn naive_share(stream: &[(u64, u64, u64)]) -> Share {
    let mut sorted = stream.to_vec();
    sorted.sort();
    let mut random = 0;
    for at in 1..sorted.len() {
        let (file, offset, len) = sorted[at - 1];
        random += u32::from(sorted[at] != (file, offset + len, sorted[at].2));
    }
    Share::new(random, sorted.len() as u32 - 1)
}

/// P-01 and P-02 as the text has it: a list that is sorted each time, and fractions.
#[derive(Default)]
struct NaiveLevel {
    parts: Vec<u64>,
    resets: u64,
    watch: Option<(u64, u64)>,
    level: Option<u64>,
}

impl NaiveLevel {
    fn insert(&mut self, part: u64, whole: u64, rule: IndexRule, with_reset: bool) -> (u64, u64) {
        let (level, level_whole) = self.level.map_or((1, 2), |level| (level, whole));
        let deviates = 10 * (part * level_whole).abs_diff(level * whole) > 2 * whole * level_whole;
        // What is watched, and how much of it deviated.
        let (watched, deviated) =
            self.watch.map_or((0, u64::from(deviates)), |(watched, deviated)| (watched, deviated + u64::from(deviates)));
        let mut is_watching = self.watch.is_some() || deviates;
        if watched > 10 {
            if with_reset && 10 * deviated >= 8 * watched {
                self.parts.clear();
                self.resets += 1;
            }
            is_watching = false;
        }
        self.watch = is_watching.then_some((watched + 1, deviated));
        self.parts.push(part);
        self.parts.sort();
        let n = self.parts.len() as u64;
        let sum: u64 = self.parts.iter().sum();
        // (1 - sum / (n whole)) (n - 1), as a fraction.
        let (above, below) = match rule {
            IndexRule::RoundN1 => (2 * (n * whole - sum) * (n - 1) + n * whole, 2 * n * whole),
            IndexRule::SourceN => ((n * whole - sum) * n, n * whole),
            IndexRule::FloorN1 => ((n * whole - sum) * (n - 1), n * whole),
        };
        if n >= 2 || self.resets > 0 {
            self.level = Some(self.parts[(above / below).min(n - 1) as usize]);
        }
        self.level.map_or((1, 2), |level| (level, whole))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn streams_are_judged_like_the_model(
        requests in 2..20u32,
        writes in proptest::collection::vec((1..3u64, 0..40u64, 1..4u64, any::<bool>()), 0..200),
    ) {
        let mut streams = RandomStreams::new(StreamConfig { requests, gap_requests: 0 });
        let mut stream = Vec::new();
        for (file, offset, len, is_write) in writes {
            let operation = if is_write { Operation::Write } else { Operation::Read };
            let found = streams.observe(&Arrival { operation, ..write(file, offset, len) });
            if is_write {
                stream.push((file, offset, len));
            }
            let expected = (is_write && stream.len() == requests as usize).then(|| naive_share(&std::mem::take(&mut stream)));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_level_is_that_of_the_sorted_list(
        whole in 1..130u32,
        rule in prop_oneof![Just(IndexRule::RoundN1), Just(IndexRule::SourceN), Just(IndexRule::FloorN1)],
        with_reset in any::<bool>(),
        parts in proptest::collection::vec((0..1000u32, 1..30usize), 1..20),
    ) {
        let mut level = AdaptiveLevel::new(whole, rule, with_reset.then(ResetRule::default));
        let mut naive = NaiveLevel::default();
        // Spells of alike streams, so that resets happen.
        for part in parts.iter().flat_map(|(part, times)| std::iter::repeat_n(part % (whole + 1), *times)) {
            let (expected, of) = naive.insert(u64::from(part), u64::from(whole), rule, with_reset);
            let found = level.insert(Share::new(part, whole));
            prop_assert_eq!(found, Share::new(expected as u32, of as u32));
            prop_assert_eq!(level.resets(), naive.resets);
        }
    }

    /// P-03: the device changes only with the end of a stream, and only towards the side of the level that the stream is on.
    #[test]
    fn the_device_changes_between_streams_only(writes in proptest::collection::vec((0..200u64, 1..3u64), 0..400)) {
        let stream = StreamConfig { requests: 8, gap_requests: 0 };
        for config in [
            AdmissionConfig::Ssdup(stream, Watermarks::default()),
            AdmissionConfig::SsdupPlus(stream, SsdupPlusConfig::default()),
            AdmissionConfig::SsdupPlus(stream, SsdupPlusConfig::released()),
        ] {
            let mut policy = config.build();
            let mut before = Target::Disk;
            for (at, (offset, len)) in writes.iter().enumerate() {
                let verdict = policy.admit(&AdmissionView::default(), &write(1, *offset, *len));
                prop_assert!(at % 8 == 0 || verdict.target == before);
                prop_assert!(at >= 8 || verdict.target == Target::Disk);
                before = verdict.target;
            }
        }
    }
}

/// The share and the device of each stream of a log that the authors of SSDUP+ published, if it is there.
fn published(name: &str) -> Option<Vec<(Share, Target)>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: {} is not there", path.display());
        return None;
    };
    let stream = |line: &str| {
        let (share, device) = line.split_once(',').expect("two columns");
        let share: f64 = share.parse().expect("a share");
        let target = if device == "1" { Target::Disk } else { Target::Ssd };
        (Share::new((share * 127.0).round() as u32, 127), target)
    };
    Some(text.lines().map(stream).collect())
}

/// How many streams went where the log says, and the others: place, share and level.
fn agreement(log: &[(Share, Target)]) -> (usize, Vec<(usize, Share, Share)>) {
    let mut policy = SsdupPlus::new(StreamConfig::default(), SsdupPlusConfig::released());
    let mut others = Vec::new();
    for (at, (share, device)) in log.iter().enumerate() {
        if policy.on_stream(*share) != *device {
            others.push((at, *share, policy.level()));
        }
    }
    (log.len() - others.len(), others)
}

/// P-01 to P-03 with the released source's marks, against its authors' own logs. Their program compared floats of 32 bits: the four
/// streams that differ lie on the level, or one 127th beside it.
#[test]
fn the_level_agrees_with_the_authors_logs() {
    if let Some(log) = published("ssdupplus-con-stri.csv") {
        assert_eq!((log.len(), agreement(&log)), (512, (512, vec![])));
    }
    if let Some(log) = published("ssdupplus-stri-ran.csv") {
        let (agreeing, others) = agreement(&log);
        assert_eq!((log.len(), agreeing), (510, 506), "{others:?}");
        for (at, share, level) in others {
            assert!(share.part().abs_diff(level.part()) <= 1, "stream {at}: {share:?} at a level of {level:?}");
        }
    }
}
