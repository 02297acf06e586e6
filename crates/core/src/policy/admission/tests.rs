use super::*;
use crate::id::Ino;
use crate::policy::detector::{Detector, RandomStreams, SequentialRuns};
use crate::policy::{Operation, Share};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

const KIB: u64 = 1 << 10;
/// Parts of 127 of the ten streams whose shares the paper prints (2.3.2).
const CASE: [u32; 10] = [50, 69, 75, 80, 77, 74, 79, 79, 79, 86];

pub(super) fn write(file: u64, offset: u64, len: u64) -> Arrival<'static> {
    let (operation, class) = (Operation::Write, RequestClass::Ordinary);
    Arrival { file: Ino(file), offset, len, operation, class, siblings: &[], place: offset }
}

/// The share of one stream of these requests, as one file's.
fn share_of(requests: impl IntoIterator<Item = (u64, u64)>) -> Share {
    let requests: Vec<(u64, u64)> = requests.into_iter().collect();
    let mut streams = RandomStreams::new(StreamConfig { requests: requests.len() as u32, gap_requests: 0 });
    let shares: Vec<Share> = requests.iter().filter_map(|(offset, len)| streams.observe(&write(1, *offset, *len))).collect();
    assert_eq!(shares.len(), 1);
    shares[0]
}

/// S-03: what follows the one before it is not random, whatever the order of arrival; everything else is.
#[test]
fn random_factor_of_neighbours() {
    let parts = |requests: &[(u64, u64)]| (share_of(requests.iter().copied()).part(), requests.len() as u32 - 1);
    assert_eq!(parts(&[(0, 1), (6, 1), (7, 1), (1, 1), (2, 1), (3, 1)]), (1, 5), "one gap, from 3 to 6");
    assert_eq!(parts(&[(4, 4), (0, 4)]), (0, 1));
    assert_eq!(parts(&[(0, 4), (5, 4)]), (1, 1));
    assert_eq!(parts(&[(0, 4), (0, 4)]), (1, 1), "the same offset again");
    assert_eq!(parts(&[(0, 4), (2, 4)]), (1, 1), "an overlap");
    let mut streams = RandomStreams::new(StreamConfig { requests: 2, gap_requests: 0 });
    assert_eq!(streams.observe(&write(1, 0, 4)), None);
    assert_eq!(streams.observe(&write(2, 4, 4)), Some(Share::new(1, 1)), "another file");
}

/// S-03 (c).
#[test]
fn a_gap_can_be_forgiven() {
    let part = |gap_requests, second| {
        let mut streams = RandomStreams::new(StreamConfig { requests: 2, gap_requests });
        streams.observe(&write(1, 0, 4));
        streams.observe(&write(1, second, 4)).unwrap().part()
    };
    assert_eq!([4, 5, 8, 9].map(|second| part(0, second)), [0, 1, 1, 1]);
    assert_eq!([3, 4, 5, 8, 9].map(|second| part(1, second)), [1, 0, 0, 0, 1]);
}

/// S-03, S-04: sixteen processes that write their segments in lock step; and the mixture of the paper's figure 5.
#[test]
fn published_shares() {
    let (request, segment) = (256 * KIB, 1 << 30);
    assert_eq!(share_of((0..128).map(|i| (i % 16 * segment + i / 16 * request, request))).part(), 15);
    let isolated = (0..76).map(|i| (100 * segment + 3 * i * request, request));
    let contiguous = (0..52).map(|i| (i % 16 * segment + i / 16 * request, request));
    let mixed = share_of(contiguous.chain(isolated));
    assert_eq!((mixed.part(), mixed.ten_thousandths()), (91, 7165));
    let printed = [3937, 5433, 5905, 6299, 6062, 5826, 6220, 6220, 6220, 6771];
    assert_eq!(CASE.map(|part| Share::new(part, 127).ten_thousandths()), printed);
    assert_eq!([15, 57, 127].map(|part| Share::new(part, 127).ten_thousandths()), [1181, 4488, 10_000]);
}

/// S-02: 16 GiB in requests of 256 KiB are 512 streams; all writes count, reads do not.
#[test]
fn streams_are_counted() {
    let mut streams = RandomStreams::new(StreamConfig::default());
    let closed = (0..65_536u64).filter(|i| {
        let read = Arrival { operation: Operation::Read, ..write(1, i * 7, 1) };
        assert_eq!(streams.observe(&read), None);
        streams.observe(&write(1, i * 256 * KIB, 256 * KIB)) == Some(Share::ZERO)
    });
    assert_eq!(closed.count(), 512);
    assert!(streams.is_empty() && streams.finish().is_none());
    streams.observe(&write(1, 0, 1));
    assert_eq!(streams.finish(), None, "one request has no neighbour");
    for offset in [0, 1, 9] {
        streams.observe(&write(1, offset, 1));
    }
    assert_eq!((streams.finish(), streams.len()), (Some(Share::new(1, 2)), 0), "a stream that is cut short is judged by what it has");
}

/// S-05.
#[test]
fn watermarks_keep_the_device_between_them() {
    let mut device = Target::Disk;
    let mut devices = String::new();
    for percent in [20, 50, 40, 35, 30, 29, 31, 45, 46] {
        device = Watermarks::default().next(device, Share::new(percent, 100));
        devices.push(if device == Target::Ssd { 'S' } else { 'H' });
    }
    assert_eq!(devices, "HSSSSHHHS");
}

fn levels(rule: IndexRule, parts: &[u32]) -> Vec<u64> {
    let mut level = AdaptiveLevel::new(127, rule, None);
    parts.iter().map(|part| level.insert(Share::new(*part, 127)).ten_thousandths()).collect()
}

/// P-01: the case study, by each rule, and with the stream that must have been left out of the printed list.
#[test]
fn the_level_follows_the_case_study() {
    let rounded = [5000, 5433, 5433, 5433, 5905, 5826, 5905, 5905, 5905, 6062];
    assert_eq!(levels(IndexRule::RoundN1, &CASE), rounded);
    assert_eq!(levels(IndexRule::SourceN, &CASE), rounded);
    assert_eq!(levels(IndexRule::FloorN1, &CASE), [5000, 3937, 3937, 5433, 5433, 5826, 5826, 5826, 5905, 5905]);
    let mut whole = CASE.to_vec();
    whole.insert(6, 12);
    let printed = [5433, 5433, 5433, 5905, 5826, 5826, 5826, 5905, 5905, 6062];
    assert_eq!(levels(IndexRule::RoundN1, &whole)[1..], printed);
    assert_eq!(levels(IndexRule::SourceN, &whole)[1..], printed);
}

fn devices(parts: &[u32], config: SsdupPlusConfig) -> Vec<Target> {
    let mut policy = SsdupPlus::new(StreamConfig::default(), config);
    parts.iter().map(|part| own_device(&mut policy, Share::new(*part, 127))).collect()
}

/// The device that the stream itself went to.
fn own_device(policy: &mut SsdupPlus, share: Share) -> Target {
    let own = policy.traffic();
    policy.on_stream(share);
    own
}

/// P-03: which streams of the case study go to the SSD, an equal share changing nothing.
#[test]
fn streams_of_the_case_study_go_where_the_paper_sends_them() {
    let on_ssd = |parts: &[u32]| -> Vec<u64> {
        let devices = devices(parts, SsdupPlusConfig { reset: None, ..SsdupPlusConfig::default() });
        let shares = parts.iter().map(|part| Share::new(*part, 127).ten_thousandths());
        shares.zip(devices).filter(|(_, device)| *device == Target::Ssd).map(|(share, _)| share).collect()
    };
    assert_eq!(on_ssd(&CASE), [6299, 6062, 5826, 6220, 6220, 6220, 6771]);
    let mut whole = CASE.to_vec();
    whole.insert(6, 12);
    assert_eq!(on_ssd(&whole), [6299, 6062, 5826, 944, 6220, 6220, 6771]);
}

/// P-02: the traffic changes after 50 streams; the eleventh watched stream after the first deviating one ends the watch.
#[test]
fn the_list_is_forgotten_when_the_traffic_changes() {
    let parts: Vec<u32> = [10; 50].into_iter().chain([90; 30]).collect();
    let run = |reset| {
        let mut level = AdaptiveLevel::new(100, IndexRule::RoundN1, reset);
        let mut resets = Vec::new();
        let mut reached = None;
        for (stream, part) in (1..).zip(&parts) {
            let before = level.resets();
            if level.insert(Share::new(*part, 100)) == Share::new(90, 100) {
                reached = reached.or(Some(stream));
            }
            if level.resets() > before {
                resets.push(stream);
            }
        }
        (resets, reached)
    };
    assert_eq!(run(Some(ResetRule::default())), (alloc::vec![62], Some(62)));
    assert_eq!(run(None), (alloc::vec![], None));
    let mut level = AdaptiveLevel::new(100, IndexRule::RoundN1, None);
    for _ in 0..50 {
        level.insert(Share::new(10, 100));
    }
    let streams = (1..).find(|_| level.insert(Share::new(90, 100)) == Share::new(90, 100));
    assert_eq!(streams, Some(50), "without a reset it takes as many streams as there were before");
}

#[test]
fn runs_are_followed_per_file_and_place() {
    let mut runs = SequentialRuns::new();
    let lens: Vec<u64> = [(1, 0, 4), (2, 0, 8), (1, 4, 4), (2, 8, 8), (1, 9, 1), (1, 8, 2)]
        .iter()
        .map(|(file, offset, len)| runs.observe(&write(*file, *offset, *len)))
        .collect();
    assert_eq!(lens, [4, 8, 8, 16, 1, 10]);
}

/// P-07: while the buffer is being emptied, writes go to the disk, or are left to wait for room.
#[test]
fn a_plain_burst_buffer_gives_way_while_it_is_emptied() {
    let flushing = AdmissionView { buffer_is_flushing: true, ..AdmissionView::default() };
    let ask = |while_flushing, view| AdmissionConfig::All(while_flushing).build().admit(&view, &write(1, 0, 1)).target;
    assert_eq!(ask(WhileFlushing::Disk, AdmissionView::default()), Target::Ssd);
    assert_eq!(ask(WhileFlushing::Disk, flushing), Target::Disk);
    assert_eq!(ask(WhileFlushing::Wait, flushing), Target::Ssd);
}

/// Every policy over the same traffic: 3 streams in order, 3 random ones, 2 in order, of 8 requests each. One sign a request.
#[test]
fn trajectories() {
    let stream = StreamConfig { requests: 8, gap_requests: 0 };
    let configs = [
        AdmissionConfig::None,
        AdmissionConfig::All(WhileFlushing::Disk),
        AdmissionConfig::Ssdup(stream, Watermarks::default()),
        AdmissionConfig::SsdupPlus(stream, SsdupPlusConfig::default()),
        AdmissionConfig::SsdupPlus(stream, SsdupPlusConfig { reset: None, ..SsdupPlusConfig::released() }),
        AdmissionConfig::CutOff { run_bytes_min: 4 * 64 * KIB },
        AdmissionConfig::IBridge(ibridge::tests::config()),
        AdmissionConfig::Forebay(ForebayConfig::default()),
    ];
    // The disk is busy, there is something to be flushed, and a quarter of the SSD is free.
    let view =
        AdmissionView { flush_is_due: true, disk_is_full: true, free_bytes: 2 << 30, capacity_bytes: 8 << 30, ..AdmissionView::default() };
    let mut lines = Vec::new();
    for config in configs {
        let mut policy = config.build();
        let mut line = String::new();
        for request in 0..64u64 {
            let is_random = (24..48).contains(&request);
            let block = if is_random { 1000 + request * 7919 % 1000 } else { request };
            let (len, class) = if is_random { (4 * KIB, RequestClass::Random) } else { (64 * KIB, RequestClass::Ordinary) };
            let arrival = Arrival { class, ..write(1, block * 64 * KIB, len) };
            let verdict = policy.admit(&view, &arrival);
            if verdict.target == Target::Disk {
                policy.on_disk(&arrival);
            }
            line.push(if verdict.target == Target::Ssd { 'S' } else { '.' });
            if request % 8 == 7 {
                write!(line, " ").unwrap();
            }
        }
        lines.push(format!("{line}{}", policy.service_ns().map_or(String::new(), |ns| format!("{} us", ns / 1000))));
    }
    assert_eq!(lines, TRAJECTORIES);
}

const TRAJECTORIES: [&str; 8] = [
    // none
    "........ ........ ........ ........ ........ ........ ........ ........ ",
    // all
    "SSSSSSSS SSSSSSSS SSSSSSSS SSSSSSSS SSSSSSSS SSSSSSSS SSSSSSSS SSSSSSSS ",
    // ssdup: one stream late, in both directions
    "........ ........ ........ ........ SSSSSSSS SSSSSSSS SSSSSSSS ........ ",
    // ssdup+: half of the streams were random, so that the level is the lowest share, and a stream that equals it changes nothing
    "........ ........ ........ ........ SSSSSSSS SSSSSSSS SSSSSSSS SSSSSSSS ",
    // ssdup+ with the released source's marks
    "........ ........ ........ ........ SSSSSSSS SSSSSSSS SSSSSSSS ........ ",
    // cut-off: the start of each run goes to the SSD
    "SSS..... ........ ........ SSSSSSSS SSSSSSSS SSSSSSSS SSS..... ........ ",
    // ibridge: what is farther away than most, until the head comes back
    "........ ........ ........ ........ ......SS SSSSSSSS ........ ........ 5737 us",
    // forebay: each random write but one that closes a gap, and none in order
    "S....... ........ ........ SSSSSSSS SSSSS.SS SSSSSSSS ........ ........ ",
];
