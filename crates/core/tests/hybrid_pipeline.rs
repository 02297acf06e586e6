//! The two regions of the hybrid node, driven by hand: times, order and number of flushes.

use std::collections::VecDeque;

use forebay_core::hybrid::{Access, Effect, FileRange, HybridConfig, HybridNode, Input, Request};
use forebay_core::id::{CallId, Ino, Token};
use forebay_core::machine::Machine;
use forebay_core::policy::admission::{AdmissionConfig, WhileFlushing};
use forebay_core::policy::{RequestClass, Target};
use forebay_core::time::Time;

/// One SSD, one disk, each doing one thing after the other, in a time of its own for each byte.
struct Host {
    node: HybridNode,
    now: u64,
    ssd_ns: u64,
    flush_ns: u64,
    ssd: VecDeque<(u64, Token)>,
    disk: VecDeque<(u64, Token)>,
    disk_free: u64,
    answered: Vec<(CallId, u64)>,
    flushed: Vec<FileRange>,
    appended: Vec<u64>,
    direct: u64,
}

impl Host {
    fn new(config: HybridConfig, ssd_ns: u64, flush_ns: u64) -> Host {
        Host {
            node: HybridNode::new(config),
            now: 0,
            ssd_ns,
            flush_ns,
            ssd: VecDeque::new(),
            disk: VecDeque::new(),
            disk_free: 0,
            answered: Vec::new(),
            flushed: Vec::new(),
            appended: Vec::new(),
            direct: 0,
        }
    }

    fn input(&mut self, input: Input) {
        self.node.handle(Time(self.now), input);
        while let Some(effect) = self.node.poll_effect() {
            self.take(effect);
        }
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Reply { call, .. } => self.answered.push((call, self.now)),
            Effect::AppendSsd { token, entry, .. } => {
                self.appended.push(entry.at);
                let free = self.ssd.back().map_or(self.now, |(time, _)| *time);
                self.ssd.push_back((free + entry.range.len * self.ssd_ns, token));
            }
            Effect::Flush { token, range, .. } => {
                self.flushed.push(range);
                self.disk_free = self.disk_free.max(self.now) + range.len * self.flush_ns;
                self.disk.push_back((self.disk_free, token));
            }
            Effect::WriteDisk { token, range, .. } => {
                self.direct += range.len;
                self.disk_free = self.disk_free.max(self.now) + range.len * self.flush_ns;
                self.disk.push_back((self.disk_free, token));
            }
            Effect::SyncDisk { token } | Effect::SyncSsd { token } | Effect::Note { token, .. } => self.disk.push_back((self.now, token)),
            Effect::ReadSsd { .. } | Effect::ReadDisk { .. } | Effect::ChangeDisk { .. } => panic!("nobody reads or changes anything"),
        }
    }

    /// Goes on until this call is answered.
    fn until_answered(&mut self, call: CallId) -> u64 {
        loop {
            if let Some((_, at)) = self.answered.iter().find(|(answered, _)| *answered == call) {
                return *at;
            }
            let next = [self.ssd.front(), self.disk.front()].into_iter().flatten().map(|(time, _)| *time).min();
            let next = next.unwrap_or_else(|| panic!("{call:?} is never answered"));
            self.now = self.now.max(next);
            for queue in [true, false] {
                let queue = if queue { &mut self.ssd } else { &mut self.disk };
                if let Some((_, token)) = queue.front().copied().filter(|(time, _)| *time <= self.now) {
                    queue.pop_front();
                    self.input(Input::Done { token, result: Ok(()) });
                }
            }
        }
    }

    fn write(&mut self, call: u64, offset: u64, len: u64) {
        let range = FileRange { file: Ino(1), offset, len };
        let access = Access { range, class: RequestClass::Ordinary, siblings: Vec::new(), place: offset };
        self.input(Input::Request { call: CallId(call), request: Request::Write(access) });
    }

    fn drain(&mut self) -> u64 {
        self.input(Input::Request { call: CallId(u64::MAX), request: Request::Drain });
        self.until_answered(CallId(u64::MAX))
    }
}

fn everything(ssd_bytes: u64) -> HybridConfig {
    let admission = AdmissionConfig::All(WhileFlushing::Wait);
    HybridConfig { admission, regions: 2, flush_depth: 1, flush_bytes_max: 1, ..HybridConfig::ssdup(ssd_bytes) }
}

/// S-06, P-05: 16 parts, of which 4 fit; 1 to write one, 1.5 to flush one. The last is accepted at 22, as equation 6 says, and home at 26.
#[test]
fn two_regions_take_the_time_of_the_model() {
    let mut host = Host::new(everything(4), 2, 3);
    let mut accepted = 0;
    for part in 0..16 {
        // In descending order, which is none that the disk likes.
        host.write(part, 15 - part, 1);
        accepted = host.until_answered(CallId(part));
    }
    assert_eq!((accepted, host.drain()), (2 * 22, 2 * 26));
    assert_eq!(host.node.counters().flushes, 8);
}

/// S-06: 10 GB through regions of 4 GB are three flushes.
#[test]
fn three_flushes_bring_ten_parts_home_through_regions_of_four() {
    let mut host = Host::new(everything(8), 2, 3);
    for part in 0..10 {
        host.write(part, part * 7 % 10, 1);
        host.until_answered(CallId(part));
    }
    host.drain();
    let flushes: Vec<u64> = host.node.counters().reports.iter().map(|report| report.bytes).collect();
    assert_eq!(flushes, [4, 4, 2]);
}

/// S-09, S-11: whatever the order of arrival, the log is appended to, and each flush goes through the file from front to back, with what
/// is adjacent as one.
#[test]
fn appended_as_it_comes_and_flushed_in_order() {
    let config = HybridConfig { flush_bytes_max: 4, flush_depth: 3, ..everything(32) };
    let mut host = Host::new(config, 1, 1);
    for (call, block) in [5, 1, 2, 9, 0, 3, 14, 8].into_iter().enumerate() {
        host.write(call as u64, 2 * block, 2);
        host.until_answered(CallId(call as u64));
    }
    assert_eq!(host.appended, (0..8).map(|slot| 2 * slot).collect::<Vec<_>>());
    host.drain();
    let flushed: Vec<(u64, u64)> = host.flushed.iter().map(|range| (range.offset, range.len)).collect();
    assert_eq!(flushed, [(0, 4), (4, 4), (10, 2), (16, 4), (28, 2)]);
}

/// P-07: what does not fit ends the filling and goes to the disk, as does all that comes before the SSD is empty.
#[test]
fn a_plain_burst_buffer_goes_past_the_ssd_while_it_is_emptied() {
    let config = HybridConfig { flush_depth: 1, flush_bytes_max: 1, ..HybridConfig::all(4) };
    let mut host = Host::new(config, 1, 10);
    let mut targets = Vec::new();
    for part in 0..8 {
        host.write(part, part, 1);
        host.until_answered(CallId(part));
        targets.push(host.direct);
    }
    assert_eq!(targets, [0, 0, 0, 0, 1, 2, 3, 4]);
    host.drain();
    host.write(8, 8, 1);
    host.until_answered(CallId(8));
    let to = |target| host.node.counters().to(target).requests;
    assert_eq!((to(Target::Ssd), to(Target::Disk)), (5, 4), "the SSD takes writes again");
}
