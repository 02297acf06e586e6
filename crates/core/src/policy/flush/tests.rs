use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

const MS: u64 = 1_000_000;

fn view(now_ms: u64) -> FlushView {
    FlushView {
        now: Time(now_ms * MS),
        traffic: Target::Disk,
        disk_requests: 0,
        disk_used: None,
        client_active: None,
        client_requests: 0,
        writer_waits: false,
        has_full_region: true,
        dirty_bytes: 50,
        capacity_bytes: 100,
        is_draining: false,
    }
}

/// P-05, with the paper's meaning of each time.
#[test]
fn the_pipeline_model_gives_the_published_times() {
    let model = Pipeline { stages: 16, buffered: 4, ssd_ns: 10, disk_ns: 30, flush_ns: 15 };
    assert_eq!((model.without_ns(), model.with_ns()), (400, 220));
    assert_eq!(Pipeline { flush_ns: 25, ..model }.with_ns(), 340);
}

/// S-08.
#[test]
fn an_immediate_flush_never_rests() {
    let busy = FlushView { disk_requests: 9, client_requests: 9, disk_used: Some(Time(0)), ..view(0) };
    assert_eq!(Immediate.plan(&busy), FlushPlan::Flush);
    assert_eq!(Immediate.plan(&FlushView { has_full_region: false, ..busy }), FlushPlan::Rest(None));
}

/// P-04.
#[test]
fn a_traffic_aware_flush_rests_while_the_disk_has_the_traffic() {
    let mut policy = TrafficAware::new(10 * MS);
    let busy = FlushView { disk_requests: 1, disk_used: Some(Time(0)), ..view(5) };
    assert_eq!(policy.plan(&busy), FlushPlan::Rest(None));
    let between = FlushView { disk_requests: 0, ..busy };
    assert_eq!(policy.plan(&between), FlushPlan::Rest(Some(Time(10 * MS))));
    assert_eq!(policy.plan(&FlushView { now: Time(10 * MS), ..between }), FlushPlan::Flush, "the disk is idle");
    assert_eq!(policy.plan(&FlushView { traffic: Target::Ssd, ..busy }), FlushPlan::Flush, "the traffic goes to the SSD");
    assert_eq!(policy.plan(&FlushView { writer_waits: true, ..busy }), FlushPlan::Flush, "both regions are full");
    assert_eq!(policy.plan(&FlushView { has_full_region: false, ..view(99) }), FlushPlan::Rest(None));
}

/// I-14: what goes to the SSD disturbs the quiet, too.
#[test]
fn idle_write_back_waits_for_quiet() {
    let mut policy = Idle::new(10 * MS);
    let active = FlushView { client_active: Some(Time(3 * MS)), ..view(5) };
    assert_eq!(policy.plan(&active), FlushPlan::Rest(Some(Time(13 * MS))));
    assert_eq!(policy.plan(&FlushView { now: Time(13 * MS), ..active }), FlushPlan::Flush);
    assert_eq!(policy.plan(&FlushView { client_requests: 1, now: Time(99 * MS), ..active }), FlushPlan::Rest(None));
    assert_eq!(policy.plan(&FlushView { writer_waits: true, ..active }), FlushPlan::Flush);
    assert_eq!(policy.plan(&FlushView { dirty_bytes: 0, ..view(99) }), FlushPlan::Rest(None));
}

#[test]
fn watermarks_begin_high_and_end_low() {
    let mut policy = DirtyMarks::new(Share::new(60, 100), Share::new(40, 100));
    let mut plans = String::new();
    for dirty_bytes in [0, 59, 60, 61, 50, 41, 40, 41, 60, 61] {
        let plan = policy.plan(&FlushView { dirty_bytes, ..view(0) });
        write!(plans, "{dirty_bytes}{} ", if plan == FlushPlan::Flush { '!' } else { '.' }).unwrap();
    }
    assert_eq!(plans, "0. 59. 60. 61! 50! 41! 40. 41. 60. 61! ");
    assert_eq!(policy.plan(&FlushView { dirty_bytes: 0, writer_waits: true, ..view(0) }), FlushPlan::Rest(None));
}

/// What each policy does in each situation: the whole of the table.
#[test]
fn trajectories() {
    let configs = [
        FlushConfig::Immediate,
        FlushConfig::TrafficAware { idle_ns: 10 * MS },
        FlushConfig::SpareTime,
        FlushConfig::Idle { idle_ns: 10 * MS },
        FlushConfig::Watermarks { high: Share::new(70, 100), low: Share::new(40, 100) },
    ];
    let mut lines = Vec::new();
    for config in configs {
        let mut policy = config.build();
        let mut line = String::new();
        for step in 0..24u64 {
            // A burst to the disk, one to the SSD, a pause; the SSD fills up meanwhile, until writers wait.
            let traffic = if step < 8 { Target::Disk } else { Target::Ssd };
            let requests = u64::from(step < 16);
            let last = Some(Time(step.min(16) * 4 * MS));
            let (disk_requests, disk_used) = if step < 8 { (requests, last) } else { (0, Some(Time(8 * 4 * MS))) };
            let plan = policy.plan(&FlushView {
                now: Time(step * 4 * MS),
                traffic,
                disk_requests,
                disk_used,
                client_requests: requests,
                client_active: last,
                writer_waits: step == 3,
                has_full_region: step >= 2,
                dirty_bytes: if step < 16 { step * 6 } else { 96 - (step - 15) * 10 },
                ..view(0)
            });
            line.push(match plan {
                FlushPlan::Flush => 'F',
                FlushPlan::Rest(None) => '.',
                FlushPlan::Rest(Some(_)) => 't',
            });
        }
        lines.push(line);
    }
    assert_eq!(
        lines,
        [
            "..FFFFFFFFFFFFFFFFFFFFFF", // immediate: from the first full region on
            "...F....FFFFFFFFFFFFFFFF", // traffic-aware: for the writer that waits, then with the SSD's traffic
            "...F....FFFFFFFFFFFFFFFF", // spare time: for the writer that waits, then when none waits for the disk
            "...F............tttFFFFF", // idle: for the writer that waits, then 10 ms after the last request
            "...F........FFFFFFFFF...", // watermarks
        ]
    );
}
