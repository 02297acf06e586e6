//! What flushes of the hybrid node keep to beside their policy, and what a failed sync costs.

use forebay_core::errno::Errno;
use forebay_core::hybrid::{Access, Effect, FileRange, HybridConfig, HybridNode, Input, Request};
use forebay_core::id::{CallId, Ino, Token};
use forebay_core::machine::Machine;
use forebay_core::policy::admission::{AdmissionConfig, WhileFlushing};
use forebay_core::policy::{RequestClass, Share};
use forebay_core::time::Time;

/// An SSD that takes no time, and a disk that takes `flush_ns` for a range of a flush.
struct Host {
    node: HybridNode,
    now: u64,
    flush_ns: u64,
    flushes: Vec<(u64, Token)>,
    /// When each range was sent home.
    sent: Vec<(u64, FileRange)>,
    reads: Vec<Token>,
    drained: bool,
    failing_syncs: u32,
}

const DRAIN: CallId = CallId(u64::MAX);

impl Host {
    /// Two regions of four bytes, one of them full of every second byte of a file: four ranges.
    fn with_a_full_region(config: HybridConfig, flush_ns: u64) -> Host {
        Host::with_reader(config, flush_ns, false)
    }

    /// As before; somebody may wait for bytes that the disk has.
    fn with_reader(config: HybridConfig, flush_ns: u64, reads: bool) -> Host {
        let admission = AdmissionConfig::All(WhileFlushing::Wait);
        let node = HybridNode::new(HybridConfig { admission, regions: 2, flush_depth: 4, ..config });
        let (flushes, sent) = (Vec::new(), Vec::new());
        let mut host = Host { node, now: 0, flush_ns, flushes, sent, reads: Vec::new(), drained: false, failing_syncs: 0 };
        if reads {
            host.ask(CallId(100), Request::Read(access(1000)));
        }
        for part in 0..5 {
            host.ask(CallId(part), Request::Write(access(2 * part)));
        }
        host
    }

    fn ask(&mut self, call: CallId, request: Request) {
        self.input(Input::Request { call, request });
    }

    fn input(&mut self, input: Input) {
        self.node.handle(Time(self.now), input);
        self.take();
    }

    fn take(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Reply { call, .. } => self.drained |= call == DRAIN,
                Effect::Flush { token, range, .. } => {
                    self.sent.push((self.now, range));
                    self.flushes.push((self.now + self.flush_ns, token));
                }
                Effect::ReadDisk { token, .. } => self.reads.push(token),
                Effect::SyncDisk { token } if self.failing_syncs > 0 => {
                    self.failing_syncs -= 1;
                    self.node.handle(Time(self.now), Input::Done { token, result: Err(Errno::EIO) });
                }
                Effect::AppendSsd { token, .. } | Effect::SyncDisk { token } | Effect::SyncSsd { token } | Effect::Note { token, .. } => {
                    self.node.handle(Time(self.now), Input::Done { token, result: Ok(()) });
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next thing that happens by itself.
    fn step(&mut self) {
        let flush = self.flushes.iter().map(|(at, _)| *at).min();
        let wake = self.node.poll_timeout().map(|time| time.0);
        self.now = [flush, wake].into_iter().flatten().min().expect("something happens").max(self.now);
        match self.flushes.iter().position(|(at, _)| *at <= self.now) {
            Some(at) => {
                let (_, token) = self.flushes.remove(at);
                self.input(Input::Done { token, result: Ok(()) });
            }
            None => {
                self.node.handle_timeout(Time(self.now));
                self.take();
            }
        }
    }

    fn sent_at(&self) -> Vec<u64> {
        self.sent.iter().map(|(at, _)| *at).collect()
    }
}

fn access(offset: u64) -> Access {
    let range = FileRange { file: Ino(1), offset, len: 1 };
    Access { range, class: RequestClass::Ordinary, siblings: Vec::new(), place: offset }
}

#[test]
fn a_cap_holds_flushes_back_and_no_drain() {
    // A byte in 50 ns.
    let config = HybridConfig { flush_bytes_per_s_max: Some(20_000_000), ..HybridConfig::none(8) };
    let mut host = Host::with_a_full_region(config.clone(), 1);
    while host.sent.len() < 4 {
        host.step();
    }
    assert_eq!(host.sent_at(), [0, 50, 100, 150]);

    let mut host = Host::with_a_full_region(config, 1);
    host.ask(DRAIN, Request::Drain);
    while !host.drained {
        host.step();
    }
    assert_eq!(host.sent_at(), [0, 0, 0, 0, 1], "four at a time, and what was in the other region");
}

#[test]
fn clients_that_use_the_disk_keep_their_part_of_it() {
    let share = Some(Share::new(4, 5));
    let config = HybridConfig { foreground_share: share, ..HybridConfig::none(8) };
    let host = Host::with_a_full_region(config.clone(), 10);
    assert_eq!(host.sent_at(), [0; 4], "nobody else uses the disk");

    let mut host = Host::with_reader(config, 10, true);
    while host.sent.len() < 3 {
        host.step();
    }
    // 10 ns for a range, 40 for the client that reads.
    assert_eq!(host.sent_at(), [0, 50, 100]);
    // It has its bytes, and was the last: once what it was owed is over, the rest goes together.
    let token = host.reads.remove(0);
    host.input(Input::Done { token, result: Ok(()) });
    while host.sent.len() < 4 {
        host.step();
    }
    assert_eq!(host.sent_at(), [0, 50, 100, 150]);
}

#[test]
fn what_a_failed_sync_was_to_cover_goes_home_again() {
    let mut host = Host::with_a_full_region(HybridConfig { retry_ns: 10, ..HybridConfig::none(8) }, 1);
    host.failing_syncs = 1;
    host.ask(DRAIN, Request::Drain);
    while !host.drained {
        host.step();
    }
    let mut offsets: Vec<u64> = host.sent.iter().map(|(_, range)| range.offset).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 0, 2, 2, 4, 4, 6, 6, 8]);
}
