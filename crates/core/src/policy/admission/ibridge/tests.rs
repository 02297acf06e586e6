use super::super::tests::write;
use super::*;
use crate::policy::Share;
use alloc::vec;
use alloc::vec::Vec;

const KIB: u64 = 1 << 10;
const GB: u64 = 1_000_000_000;
/// Beyond this distance the worked example's seek takes 5 ms.
const FAR: u64 = 1 << 30;

/// A disk of 85 MB/s and 7200 turns a minute; 5 ms beyond [`FAR`].
pub(in super::super) fn config() -> IBridgeConfig {
    IBridgeConfig {
        server: ServerId(0),
        seek: SeekProfile::new(vec![(512, 800_000), (FAR, 5_000_000)]).unwrap(),
        rotation_ns: 4_166_667,
        bytes_per_s: 85_000_000,
        weights: Weights::NewCountsMore,
        partition: PartitionMode::Dynamic,
    }
}

/// A service time whose average is as given, with the head at 0.
fn service(average_ns: u64, weights: Weights) -> ServiceTime {
    let config = config();
    let mut service = ServiceTime::new(config.seek, config.rotation_ns, config.bytes_per_s, weights);
    service.average_ns = Some(average_ns);
    service.head = Some(0);
    service
}

/// Tens of microseconds, rounded: what the worked example prints, in ms with four digits after the point, is a tenth of this.
fn tenth_us(ns: i64) -> i64 {
    (ns + 50 * ns.signum()) / 100
}

/// I-03, I-05: by hand.
#[test]
fn service_times_and_returns() {
    let service = service(6_000_000, Weights::NewCountsMore);
    assert_eq!(tenth_us(service.sample_ns(FAR, 64 * KIB) as i64), 99_377);
    let cases = [(FAR, 64 * KIB, 94_455, 34_455), (FAR, KIB, 87_814, 27_814), (0, 64 * KIB, 50_705, -9_295)];
    for (place, len, with, returned) in cases {
        assert_eq!(tenth_us(service.if_on_disk_ns(place, len) as i64), with);
        assert_eq!(tenth_us(service.return_ns(place, len)), returned);
    }
    let old = self::service(6_000_000, Weights::OldCountsMore);
    assert_eq!(tenth_us(old.if_on_disk_ns(FAR, 64 * KIB) as i64), 64_922);
}

/// I-03: the first request is the first average, and returns nothing. What the SSD serves changes nothing.
#[test]
fn the_average_begins_with_the_first_request() {
    let mut policy = IBridge::new(config());
    let small = |place| Arrival { class: RequestClass::Random, ..Arrival { place, ..write(1, 0, KIB) } };
    let view = AdmissionView::default();
    let first = policy.admit(&view, &small(7 * FAR));
    assert_eq!((first.target, first.return_ns, policy.service_ns()), (Target::Disk, 0, None));
    policy.on_disk(&small(7 * FAR));
    assert_eq!(policy.service_ns(), Some(4_166_667 + 12_047));
    let second = policy.admit(&view, &small(0));
    assert_eq!((second.target, second.reason), (Target::Ssd, Reason::Return));
    assert_eq!(policy.service_ns(), Some(4_166_667 + 12_047));
    policy.on_background(0);
    assert_eq!(policy.admit(&view, &small(0)).reason, Reason::NoReturn, "the flush has brought the head here");
}

/// I-05: a large request goes to the disk whatever it costs, and counts.
#[test]
fn only_small_requests_are_candidates() {
    let mut policy = IBridge::new(config());
    policy.on_disk(&write(1, 0, 64 * KIB));
    let far = Arrival { place: 2 * FAR, ..write(1, 0, 64 * KIB) };
    assert_eq!(policy.admit(&AdmissionView::default(), &far), Verdict::new(Target::Disk, Reason::Class));
    let before = policy.service_ns();
    policy.on_disk(&far);
    assert!(policy.service_ns() > before);
}

/// I-07: T = (12, 9, 10) ms, two siblings, a return of 1 ms.
#[test]
fn a_fragment_on_the_slowest_disk_returns_its_siblings_waiting() {
    let ms = |ns: u64| ns * 1_000_000;
    let times = [(ServerId(0), ms(12)), (ServerId(1), ms(9)), (ServerId(2), ms(10))];
    let bonus = |server: u32, times: &[(ServerId, u64)]| {
        let mut policy = IBridge::new(IBridgeConfig { server: ServerId(server), ..config() });
        policy.service.average_ns = times.iter().find(|(of, _)| of.0 == server).map(|(_, ns)| *ns);
        policy.on_service_times(times);
        let siblings: Vec<ServerId> = (0..3).filter(|other| *other != server).map(ServerId).collect();
        policy.siblings_ns(&siblings)
    };
    assert_eq!(bonus(0, &times), 4_000_000);
    assert_eq!((bonus(1, &times), bonus(2, &times)), (0, 0));
    assert_eq!(bonus(0, &[times[0], times[1], (ServerId(2), ms(12))]), 0, "a tie");
    assert_eq!(bonus(0, &times[..1]), 0, "nobody else was heard of");
    assert_eq!(bonus(0, &times[..2]), 6_000_000, "one of two was heard of");
}

/// I-07: only a fragment is given the bonus, and it can make the difference.
#[test]
fn the_bonus_decides_for_fragments_alone() {
    let mut policy = IBridge::new(config());
    policy.service.average_ns = Some(6_000_000);
    policy.service.head = Some(0);
    policy.on_service_times(&[(ServerId(1), 5_000_000)]);
    let fragment = Arrival { class: RequestClass::Fragment, siblings: &[ServerId(1)], ..write(1, 0, 8 * KIB) };
    let admit = |policy: &mut IBridge, arrival: &Arrival<'_>| policy.admit(&AdmissionView::default(), arrival);
    let alone = Arrival { class: RequestClass::Random, ..fragment };
    assert!(admit(&mut policy, &alone).return_ns < 0);
    assert_eq!(admit(&mut policy, &fragment).return_ns, admit(&mut policy, &alone).return_ns + 1_000_000);
    policy.on_service_times(&[(ServerId(1), 2_000_000)]);
    assert_eq!(admit(&mut policy, &fragment).target, Target::Ssd);
}

/// I-06: what is not reported again stays.
#[test]
fn the_board_remembers_a_server_that_has_gone_silent() {
    let mut board = ServiceBoard::new();
    board.on_report(ServerId(1), 7);
    board.on_report(ServerId(0), 5);
    board.on_report(ServerId(0), 6);
    assert_eq!(board.times(), [(ServerId(0), 6), (ServerId(1), 7)]);
}

/// I-08: averages of 2 and 6 ms divide 10 GB into 2.5 and 7.5.
#[test]
fn the_partition_follows_the_average_returns() {
    let mut partition = Partition::new(PartitionMode::Dynamic);
    let sizes =
        |partition: &Partition| [RequestClass::Random, RequestClass::Fragment].map(|class| partition.allocation_bytes(class, 10 * GB));
    assert_eq!(sizes(&partition), [5 * GB, 5 * GB]);
    partition.on_insert(RequestClass::Random, 1_000_000);
    assert_eq!(sizes(&partition), [5 * GB, 5 * GB], "halves until both classes have items");
    partition.on_insert(RequestClass::Random, 3_000_000);
    for _ in 0..3 {
        partition.on_insert(RequestClass::Fragment, 6_000_000);
    }
    assert_eq!(sizes(&partition), [25 * GB / 10, 75 * GB / 10]);
    partition.on_remove(RequestClass::Random, 1_000_000);
    assert_eq!(sizes(&partition), [10 * GB / 3, 10 * GB - 10 * GB / 3]);
    partition.on_remove(RequestClass::Random, 3_000_000);
    assert_eq!(sizes(&partition), [5 * GB, 5 * GB]);
}

#[test]
fn sums_beyond_64_bits_do_not_disturb_the_partition() {
    let mut partition = Partition::new(PartitionMode::Dynamic);
    for _ in 0..1000 {
        partition.on_insert(RequestClass::Random, i64::MAX / 4000);
        partition.on_insert(RequestClass::Fragment, i64::MAX / 4000 * 3);
    }
    let quarter = partition.allocation_bytes(RequestClass::Random, 1 << 40);
    assert!(quarter.abs_diff(1 << 38) < 1 << 10, "{quarter}");
}

/// I-15: the static divisions of figure 12, of 8 GB.
#[test]
fn a_static_partition_stays() {
    for (share, random) in [(Share::new(1, 2), 4 * GB), (Share::new(1, 3), 8 * GB / 3)] {
        let mut partition = Partition::new(PartitionMode::Static(share));
        partition.on_insert(RequestClass::Random, 1);
        partition.on_insert(RequestClass::Fragment, 1_000);
        assert_eq!(partition.allocation_bytes(RequestClass::Random, 8 * GB), random);
        assert_eq!(partition.allocation_bytes(RequestClass::Fragment, 8 * GB), 8 * GB - random);
    }
}

/// I-04: 0 at 0, never falling, and whatever was measured in its place.
#[test]
fn seek_profiles_rise_from_nothing() {
    let fit = SeekFit { base_ns: 500_000, root_ns: 400_000, knee_bytes: 100 << 30, line_ns_per_gib: 25_000, full_bytes: 500 << 30 };
    let fitted = SeekProfile::fitted(fit);
    let measured = config().seek;
    for profile in [&fitted, &measured] {
        assert_eq!(profile.seek_ns(0), 0);
        let mut last = 0;
        for step in 0..2000 {
            let ns = profile.seek_ns(1 + step * (fit.full_bytes / 2000));
            assert!(ns >= last, "step {step}");
            last = ns;
        }
    }
    // At the points themselves the fit is exact but for the root's own rounding.
    assert!(fitted.seek_ns(512) - fit.base_ns < 1000);
    let full_ns = fit.base_ns + 10 * fit.root_ns + 400 * fit.line_ns_per_gib;
    assert!(fitted.seek_ns(fit.full_bytes).abs_diff(full_ns) < 1000);
    assert_eq!(fitted.seek_ns(u64::MAX), fitted.seek_ns(fit.full_bytes));
    assert_eq!(measured.seek_ns(FAR / 2), 800_000 + (4_200_000u128 * u128::from(FAR / 2 - 512) / u128::from(FAR - 512)) as u64);
    assert_eq!(SeekProfile::new(vec![]), Err(SeekProfileError::Empty));
    assert_eq!(SeekProfile::new(vec![(1, 5), (2, 4)]), Err(SeekProfileError::NotMonotone(1)));
    assert_eq!(SeekProfile::new(vec![(0, 5), (2, 6)]), Err(SeekProfileError::NotMonotone(0)));
}
