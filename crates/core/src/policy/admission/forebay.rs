//! forebay: what would the disk's time for this write be worth?
//!
//! A write costs the disk the time of its bytes and something beside that: jumps of its head, commands. How much that is depends on the
//! writes around it, since the scheduler sorts and merges what comes within its window. So each write is looked at by itself: does it
//! stand beside another one of the last [`WINDOW`]? One that stands alone adds a jump to the sweep, one that closes the gap between two
//! takes one away. The share of jumps is kept for each area of a file, so that a program that writes in order is told from one beside it
//! that does not; by this share, writes belong to one of [`CLASSES`] classes.
//!
//! What a write of each class costs beside its bytes is learned from the disk, and so is what it costs in a flush, which sorts a whole
//! region. The SSD saves the difference. From this follow the rules:
//!
//! - While the disk has time to spare and nothing waits to be flushed, it takes what comes: its time is worth nothing then.
//! - Otherwise a write goes to the SSD if that saves more than the room is worth: nothing while the SSD is empty, half of the time of its
//!   bytes when it is nearly full.
//! - A write for which there is no room goes to the disk if that costs less than [`WAIT_FACTOR`] times what the flush costs; else it waits.
//! - What would wait for the disk goes to the SSD all the same while enough of that is free: it would be left empty.
//!
//! It is wrong if the traffic of an area changes with every few writes, or if bursts are so short that nothing ever waits: then it
//! makes the disk do at once what the SSD could have spared it for ever.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

use super::{Admission, AdmissionView, DiskView, Reason, Verdict};
use crate::id::Ino;
use crate::policy::{Arrival, Operation, Share, Target};
use crate::time::Time;

/// Writes that are looked at for neighbours: as many as the disk's scheduler sorts.
pub const WINDOW: usize = 128;
/// Classes of writes, by the share of jumps around them.
pub const CLASSES: usize = 5;
/// The largest share of each class, in parts.
const CLASS_JUMPS: [u64; CLASSES] = [64, 256, 512, 768, 1024];
/// A write waits for the SSD if the disk would take longer than so many times what the flush takes.
pub const WAIT_FACTOR: u64 = 2;
/// Areas whose shares are kept; another one takes the place of one with the same hash.
const AREAS: usize = 1024;
/// Bytes of an area, as a power of two.
const AREA_BITS: u32 = 26;
/// A jump, in parts: shares of jumps are counted in these.
const JUMP: u32 = 1024;
/// Writes of an area whose share counts, as a decaying average.
const AREA_WRITES: i64 = 16;
/// Requests of a measurement.
const MEASURED: u64 = 64;
/// Requests of a flush that the disk takes before it is as busy as it will be.
const WARM_UP: u64 = 192;
/// Writes whose class is remembered until the disk has done them.
const OUTSTANDING_MAX: usize = 4096;
/// What anything costs at least, ns, so that it can grow again.
const COST_NS_MIN: u64 = 1000;
const KIB_PER_MIB: u64 = 1024;
/// With each measurement, the time of bytes grows by one part in so many if no faster one is seen.
const FORGETTING: u64 = 4096;

/// What is assumed before anything was measured, and how much of the SSD is kept for writes that need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForebayConfig {
    /// What a jump of a write that goes to the disk costs, ns.
    pub jump_ns: u64,
    /// What a write costs in a flush beside its bytes, ns.
    pub flush_ns: u64,
    /// What a mebibyte costs, ns.
    pub mib_ns: u64,
    /// While more than this share of the SSD is free, it takes whatever would wait for the disk.
    pub spare_room: Share,
}

impl Default for ForebayConfig {
    /// A disk of 50 MB/s on which sorting saves half of a jump.
    fn default() -> Self {
        ForebayConfig { jump_ns: 4_000_000, flush_ns: 2_000_000, mib_ns: 20_000_000, spare_room: Share::new(1, 4) }
    }
}

/// The last writes, by what begins and ends where.
struct Neighbours {
    starts: [u64; WINDOW],
    ends: [u64; WINDOW],
    at: usize,
}

/// A place of a file as one number. Two places that get the same one are taken for neighbours once in a very long while.
fn key(file: Ino, offset: u64) -> u64 {
    file.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(offset)
}

impl Neighbours {
    /// How many jumps a write adds, in parts: none beside one other, one less between two.
    fn observe(&mut self, arrival: &Arrival<'_>) -> i64 {
        let (start, end) = (key(arrival.file, arrival.offset), key(arrival.file, arrival.offset.wrapping_add(arrival.len)));
        // Without a way out of the loops, which are then done several at a time.
        let follows = self.ends.iter().fold(false, |found, other| found | (*other == start));
        let precedes = self.starts.iter().fold(false, |found, other| found | (*other == end));
        (self.starts[self.at], self.ends[self.at]) = (start, end);
        self.at = (self.at + 1) % WINDOW;
        i64::from(JUMP) * (1 - i64::from(follows) - i64::from(precedes))
    }
}

#[derive(Clone, Copy)]
struct Area {
    name: u64,
    /// Writes that count: up to [`AREA_WRITES`].
    writes: i64,
    /// The share of jumps among them, in parts; it may be below none for a while.
    jumps: i64,
}

/// Requests that the disk did one after the other without a pause.
#[derive(Clone, Copy, Default)]
struct Measurement {
    from: Option<Time>,
    /// Requests that came before, when the disk was not yet as busy as it will be.
    before: u64,
    requests: u64,
    bytes: u64,
    /// Writes of each class, and those that flushes brought home.
    writes: [u64; CLASSES + 1],
}

/// What a write costs the disk beside its bytes, ns: of each class, and in a flush; and what a mebibyte costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// By class; the last is that of a flush.
    pub write_ns: [u64; CLASSES + 1],
    /// The bytes.
    pub mib_ns: u64,
}

/// The place of flushes among the classes.
const FLUSH: usize = CLASSES;

impl Costs {
    fn new(config: ForebayConfig) -> Costs {
        let mut write_ns = [config.flush_ns; CLASSES + 1];
        let mut below = 0;
        for (cost_ns, upto) in write_ns.iter_mut().zip(CLASS_JUMPS) {
            *cost_ns = (config.jump_ns * (below + upto) / 2 / u64::from(JUMP)).max(COST_NS_MIN);
            below = upto;
        }
        write_ns[CLASSES - 1] = config.jump_ns;
        Costs { write_ns, mib_ns: config.mib_ns }
    }

    /// The time of bytes, ns.
    fn bytes_ns(&self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.mib_ns)) >> 20) as u64
    }

    /// The disk took so long for all of this. Who was there has a part in what was not expected, as large as it was expected to cost.
    fn learn(&mut self, ns: u64, found: &Measurement) {
        if found.bytes >> 10 >= KIB_PER_MIB {
            // The fastest that was seen is what bytes cost; it is forgotten slowly.
            let mib_ns = ns * KIB_PER_MIB / (found.bytes >> 10);
            self.mib_ns = mib_ns.min(self.mib_ns + self.mib_ns / FORGETTING).max(1);
        }
        let beside_ns = ns.saturating_sub(self.bytes_ns(found.bytes));
        let expected_ns: u64 = self.write_ns.iter().zip(found.writes).map(|(cost_ns, writes)| cost_ns * writes).sum();
        let all: u64 = found.writes.iter().sum();
        debug_assert!(all > 0, "a measurement of nothing");
        for (cost_ns, writes) in self.write_ns.iter_mut().zip(found.writes) {
            let scaled = u128::from(*cost_ns) * u128::from(beside_ns) / u128::from(expected_ns.max(1));
            let fitting = u64::try_from(scaled).unwrap_or(u64::MAX).clamp(*cost_ns / 4, *cost_ns * 4);
            // A class that made up all of it moves half of the way.
            *cost_ns = ((*cost_ns * (2 * all - writes) + fitting * writes) / (2 * all)).max(COST_NS_MIN);
        }
    }
}

/// See the head of this file.
pub struct Forebay {
    config: ForebayConfig,
    neighbours: Box<Neighbours>,
    areas: Box<[Area]>,
    costs: Costs,
    measurement: Measurement,
    /// Of the write that was asked about last.
    class: usize,
    /// Of the writes that the disk has yet to do.
    outstanding: VecDeque<u8>,
    traffic: Target,
}

impl Forebay {
    /// The policy before its first write.
    pub fn new(config: ForebayConfig) -> Self {
        let none = Area { name: u64::MAX, writes: 0, jumps: 0 };
        Forebay {
            config,
            neighbours: Box::new(Neighbours { starts: [u64::MAX; WINDOW], ends: [u64::MAX; WINDOW], at: 0 }),
            areas: vec![none; AREAS].into_boxed_slice(),
            costs: Costs::new(config),
            measurement: Measurement::default(),
            class: 0,
            outstanding: VecDeque::new(),
            traffic: Target::Disk,
        }
    }

    /// What was learned.
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// The class of a write, by the last writes around it, itself among them.
    fn class(&mut self, arrival: &Arrival<'_>) -> usize {
        let found = self.neighbours.observe(arrival);
        let name = key(arrival.file, arrival.offset >> AREA_BITS);
        let at = (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - AREAS.ilog2())) as usize;
        let area = &mut self.areas[at];
        if area.name != name {
            *area = Area { name, writes: 0, jumps: 0 };
        }
        area.writes = (area.writes + 1).min(AREA_WRITES);
        area.jumps += (found - area.jumps) / area.writes;
        let jumps = area.jumps.max(0) as u64;
        CLASS_JUMPS.iter().position(|upto| jumps <= *upto).unwrap_or(CLASSES - 1)
    }

    fn choose(&self, view: &AdmissionView, len: u64) -> (Target, Reason, i64) {
        let bytes_ns = self.costs.bytes_ns(len);
        let (now_ns, flush_ns) = (self.costs.write_ns[self.class], self.costs.write_ns[FLUSH]);
        let return_ns = now_ns as i64 - flush_ns as i64;
        let capacity = u128::from(view.capacity_bytes.max(1));
        let used = capacity.saturating_sub(u128::from(view.free_bytes));
        let price_ns = (u128::from(bytes_ns) * used / capacity / 2) as i64;
        let spare = &self.config.spare_room;
        let (target, reason) = if !view.disk_is_full && !view.flush_is_due {
            (Target::Disk, Reason::SpareTime)
        } else if view.free_bytes < len && now_ns + bytes_ns < WAIT_FACTOR * (flush_ns + bytes_ns) {
            (Target::Disk, Reason::NoRoom)
        } else if return_ns > price_ns {
            (Target::Ssd, Reason::Return)
        } else if view.disk_is_full && (capacity - used) * u128::from(spare.whole()) > capacity * u128::from(spare.part()) {
            (Target::Ssd, Reason::SpareRoom)
        } else {
            (Target::Disk, Reason::NoReturn)
        };
        (target, reason, return_ns)
    }

    /// The disk has done something: enough of it in one go is a measurement.
    fn measure(&mut self, view: &DiskView, bytes: u64, class: usize, writes: u64) {
        if !view.is_full && !view.is_flushing {
            self.measurement = Measurement::default();
            return;
        }
        let this = &mut self.measurement;
        let Some(from) = this.from else {
            // Requests wait for it: it is busy. A flush may have just begun.
            this.before += 1;
            this.from = (view.is_full || this.before > WARM_UP).then_some(view.now);
            return;
        };
        this.requests += 1;
        this.bytes += bytes;
        this.writes[class] += writes;
        if this.requests == MEASURED {
            let found = *this;
            self.measurement = Measurement { from: Some(view.now), ..Measurement::default() };
            // Where the clock stood still, nothing was measured.
            if view.now > from {
                self.costs.learn(view.now.since_ns(from), &found);
            }
        }
    }
}

impl Admission for Forebay {
    fn admit(&mut self, view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict {
        if arrival.operation == Operation::Read {
            return Verdict::new(Target::Disk, Reason::Class);
        }
        self.class = self.class(arrival);
        let (target, reason, return_ns) = self.choose(view, arrival.len);
        self.traffic = target;
        Verdict { target, reason, return_ns }
    }

    fn on_disk(&mut self, _arrival: &Arrival<'_>) {
        if self.outstanding.len() == OUTSTANDING_MAX {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(self.class as u8);
    }

    fn on_disk_done(&mut self, view: &DiskView, bytes: u64) {
        // Not quite the one that is done, since the disk sorts, but about as many of each class.
        let class = self.outstanding.pop_front().unwrap_or(0);
        self.measure(view, bytes, usize::from(class), 1);
    }

    fn on_flushed(&mut self, view: &DiskView, bytes: u64, writes: u64) {
        self.measure(view, bytes, FLUSH, writes);
    }

    fn traffic(&self) -> Target {
        self.traffic
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::write;
    use super::*;
    use alloc::vec::Vec;

    const KIB: u64 = 1 << 10;
    const MS: u64 = 1_000_000;

    fn policy() -> Forebay {
        Forebay::new(ForebayConfig::default())
    }

    /// The disk is busy, and something is to be flushed.
    fn busy() -> AdmissionView {
        AdmissionView { flush_is_due: true, disk_is_full: true, free_bytes: 2 << 30, capacity_bytes: 8 << 30, ..AdmissionView::default() }
    }

    /// A number that looks like chance.
    fn scattered(number: u64) -> u64 {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
    }

    /// Two programs side by side: each write goes where it belongs, though they come in turn.
    #[test]
    fn programs_are_told_apart() {
        let mut policy = policy();
        let mut wrong = 0;
        for number in 0..2000 {
            let ordered = policy.admit(&busy(), &write(1, number * 64 * KIB, 64 * KIB)).target;
            let random = policy.admit(&busy(), &write(2, scattered(number) * 64 * KIB, 64 * KIB)).target;
            wrong += u32::from(ordered != Target::Disk) + u32::from(random != Target::Ssd);
        }
        // The first write of each area of the program that writes in order.
        assert!(wrong <= 4, "{wrong} of 4000");
    }

    /// Strided writers that come in any order leave no gaps in the end: what one adds, another takes away.
    #[test]
    fn strided_writers_are_in_order() {
        let mut policy = policy();
        let mut to_ssd = 0;
        for round in 0..200u64 {
            // Sixteen processes, each once, in an order that is another one each round.
            let mut ranks: Vec<u64> = (0..16).collect();
            ranks.sort_unstable_by_key(|rank| scattered(round * 16 + rank));
            for rank in ranks {
                let arrival = write(1, (round * 16 + rank) * 64 * KIB, 64 * KIB);
                to_ssd += u32::from(policy.admit(&busy(), &arrival).target == Target::Ssd);
            }
        }
        assert!(to_ssd * 20 < 3200, "{to_ssd} of 3200");
    }

    /// Time that nobody wants is worth nothing, and room that nobody needs neither.
    #[test]
    fn what_is_spare_is_used() {
        let mut policy = policy();
        let reason = |policy: &mut Forebay, view: AdmissionView, offset| policy.admit(&view, &write(1, offset, KIB)).reason;
        assert_eq!(reason(&mut policy, AdmissionView::default(), 7 << 30), Reason::SpareTime);
        assert_eq!(reason(&mut policy, busy(), 9 << 30), Reason::Return);
        for step in 0..200 {
            policy.admit(&busy(), &write(1, step * KIB, KIB));
        }
        let room = |kib| AdmissionView { disk_is_full: true, free_bytes: kib * KIB, capacity_bytes: 100 * KIB, ..AdmissionView::default() };
        assert_eq!(reason(&mut policy, room(26), 200 * KIB), Reason::SpareRoom);
        assert_eq!(reason(&mut policy, room(25), 201 * KIB), Reason::NoReturn);
        let read = Arrival { operation: Operation::Read, ..write(1, 0, KIB) };
        assert_eq!(policy.admit(&busy(), &read).target, Target::Disk);
    }

    /// Feeds the policy with what a disk does that takes so long for a write, and for a mebibyte.
    fn work(policy: &mut Forebay, now_ns: &mut u64, write_ns: u64, mib_ns: u64, is_random: bool) {
        // Somebody waits for the disk all the time, and the SSD has no room.
        let view = AdmissionView { disk_is_full: true, ..AdmissionView::default() };
        for number in 0..6000u64 {
            let offset = if is_random { scattered(number) << 20 } else { number * 64 * KIB };
            let arrival = write(1, offset, 64 * KIB);
            policy.admit(&view, &arrival);
            policy.on_disk(&arrival);
            *now_ns += mib_ns / 16 + write_ns;
            policy.on_disk_done(&DiskView { now: Time(*now_ns), is_full: true, is_flushing: false }, 64 * KIB);
        }
    }

    /// What bytes take is learned from the fastest writes, what else a write takes from all of them, by what the disk shows.
    #[test]
    fn costs_are_learned() {
        for (write_ns, mib_ns) in [(9 * MS, 20 * MS), (MS / 2, MS)] {
            let (mut policy, mut now_ns) = (policy(), 0);
            work(&mut policy, &mut now_ns, 0, mib_ns, false);
            let found = policy.costs();
            assert!(found.mib_ns.abs_diff(mib_ns) * 50 < mib_ns && found.write_ns[0] < MS / 20, "{found:?}");
            work(&mut policy, &mut now_ns, write_ns, mib_ns, true);
            let found = policy.costs().write_ns[CLASSES - 1];
            assert!(found.abs_diff(write_ns) * 10 < write_ns, "{found} instead of {write_ns} ns");
        }
    }

    /// Brings home ranges that so many writes had put down, at a cost for each of those.
    fn flush(policy: &mut Forebay, now_ns: &mut u64, write_ns: u64, writes: u64) {
        for _ in 0..6000 {
            *now_ns += writes * (write_ns + 20 * MS / 16);
            policy.on_flushed(&DiskView { now: Time(*now_ns), is_full: false, is_flushing: true }, writes * 64 * KIB, writes);
        }
    }

    /// Where a flush takes as long as the writes would have, it saves nothing, and nothing goes to the SSD for that.
    #[test]
    fn a_flush_that_saves_nothing_is_not_asked_for() {
        let (mut policy, mut now_ns) = (policy(), 0);
        let view = AdmissionView { free_bytes: 1 << 30, capacity_bytes: 8 << 30, ..busy() };
        flush(&mut policy, &mut now_ns, 5 * MS, 1);
        assert!(policy.costs().write_ns[FLUSH].abs_diff(5 * MS) < MS / 2, "{:?}", policy.costs());
        assert_eq!(policy.admit(&view, &write(1, 3 << 30, 64 * KIB)).reason, Reason::NoReturn);
        flush(&mut policy, &mut now_ns, MS / 10, 16);
        assert_eq!(policy.admit(&view, &write(1, 5 << 30, 64 * KIB)).reason, Reason::Return);
    }

    /// The fuller the SSD, the more a write has to save; and without room it waits only for what the disk would take much longer for.
    #[test]
    fn room_has_its_price() {
        let mut policy = policy();
        policy.costs = Costs { write_ns: [0, 0, 0, 0, 3 * MS, 2 * MS], mib_ns: 16 * MS };
        let mut reason = |free_bytes, len, place: u64| {
            let view = AdmissionView { free_bytes, capacity_bytes: 100 << 20, ..busy() };
            policy.admit(&view, &write(1, place << 30, len)).reason
        };
        // It saves 1 ms; a mebibyte's room is worth 8 ms when the SSD is full.
        assert_eq!(reason(99 << 20, 1 << 20, 1), Reason::Return);
        assert_eq!(reason(20 << 20, 1 << 20, 2), Reason::NoReturn);
        assert_eq!(reason(20 << 20, 64 * KIB, 3), Reason::Return);
        assert_eq!(reason(0, 64 * KIB, 4), Reason::NoRoom);
        policy.costs.write_ns[FLUSH] = MS / 10;
        assert_eq!(policy.admit(&AdmissionView { capacity_bytes: 100, ..busy() }, &write(1, 5 << 30, 4 * KIB)).target, Target::Ssd);
    }
}
