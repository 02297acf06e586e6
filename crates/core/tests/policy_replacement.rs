//! Each replacement policy against a naive one that looks at every chunk every time.
//!
//! Long because each policy is written here a second time, as plainly as can be.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::config::ReplacementKind;
use forebay_core::id::{ChunkId, Ino};
use forebay_core::policy::replacement::{self, ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX, Replacement};
use proptest::prelude::*;

const KINDS: [ReplacementKind; 9] = ReplacementKind::ALL;

/// What a policy should do, said as plainly as can be. `touch` is an insert or an access; `leave` tells whether the chunk was evicted.
trait Model {
    fn miss(&mut self, _chunk: u64) {}
    fn touch(&mut self, chunk: u64);
    fn leave(&mut self, chunk: u64, evicted: bool);
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64>;
}

#[derive(Default)]
struct NaiveFifo(Vec<u64>);

impl Model for NaiveFifo {
    fn touch(&mut self, chunk: u64) {
        if !self.0.contains(&chunk) {
            self.0.push(chunk);
        }
    }
    fn leave(&mut self, chunk: u64, _evicted: bool) {
        self.0.retain(|c| *c != chunk);
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.0.iter().copied().find(|c| evictable(*c))
    }
}

#[derive(Default)]
struct NaiveLru(Vec<u64>);

impl Model for NaiveLru {
    fn touch(&mut self, chunk: u64) {
        self.0.retain(|c| *c != chunk);
        self.0.push(chunk);
    }
    fn leave(&mut self, chunk: u64, _evicted: bool) {
        self.0.retain(|c| *c != chunk);
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.0.iter().copied().find(|c| evictable(*c))
    }
}

/// LFU, and LFUDA with `aging`.
#[derive(Default)]
struct NaiveFrequency {
    chunks: Vec<Frequency>,
    clock: u64,
    age: u64,
    aging: bool,
}

struct Frequency {
    chunk: u64,
    count: u64,
    key: u64,
    used: u64,
}

impl Model for NaiveFrequency {
    fn touch(&mut self, chunk: u64) {
        self.clock += 1;
        let at = self.chunks.iter().position(|f| f.chunk == chunk).unwrap_or_else(|| {
            self.chunks.push(Frequency { chunk, count: 0, key: 0, used: 0 });
            self.chunks.len() - 1
        });
        let known = &mut self.chunks[at];
        known.count += 1;
        known.used = self.clock;
        known.key = known.count + self.age;
    }
    fn leave(&mut self, chunk: u64, evicted: bool) {
        if let Some(at) = self.chunks.iter().position(|f| f.chunk == chunk) {
            let gone = self.chunks.remove(at);
            if evicted && self.aging {
                self.age = self.age.max(gone.key);
            }
        }
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.chunks.iter().filter(|f| evictable(f.chunk)).min_by_key(|f| (f.key, f.used)).map(|f| f.chunk)
    }
}

#[derive(Default)]
struct NaiveSieve {
    /// Oldest first, with the mark.
    queue: Vec<(u64, bool)>,
    hand: usize,
}

impl Model for NaiveSieve {
    fn touch(&mut self, chunk: u64) {
        match self.queue.iter_mut().find(|(c, _)| *c == chunk) {
            Some((_, marked)) => *marked = true,
            None => {
                // A hand that has passed the newest stands for the oldest, not for the newcomer.
                if self.hand == self.queue.len() {
                    self.hand = 0;
                }
                self.queue.push((chunk, false));
            }
        }
    }
    fn leave(&mut self, chunk: u64, _evicted: bool) {
        if let Some(at) = self.queue.iter().position(|(c, _)| *c == chunk) {
            self.queue.remove(at);
            if at < self.hand {
                self.hand -= 1;
            }
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        let mut passed = 0;
        while passed < self.queue.len() {
            let (chunk, marked) = &mut self.queue[self.hand];
            if *marked {
                *marked = false;
            } else if evictable(*chunk) {
                return Some(*chunk);
            } else {
                passed += 1;
            }
            self.hand = (self.hand + 1) % self.queue.len();
        }
        None
    }
}

#[derive(Default)]
struct NaiveS3Fifo {
    /// Oldest first, with the uses since the first.
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
    capacity: usize,
    has_evicted: bool,
}

impl NaiveS3Fifo {
    fn chunks(&self) -> usize {
        self.small.len() + self.main.len()
    }
    fn small_victim(&mut self, main_max: usize, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        let mut at = 0;
        while at < self.small.len() && self.main.len() <= main_max {
            let (chunk, uses) = self.small[at];
            if uses > 1 {
                self.small.remove(at);
                self.main.push((chunk, 0));
            } else if evictable(chunk) {
                return Some(chunk);
            } else {
                at += 1;
            }
        }
        None
    }
    fn main_victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        let mut at = 0;
        while at < self.main.len() {
            let (chunk, uses) = self.main[at];
            if uses > 0 && at + 1 < self.main.len() {
                self.main.remove(at);
                self.main.push((chunk, uses - 1));
            } else if evictable(chunk) {
                return Some(chunk);
            } else {
                at += 1;
            }
        }
        None
    }
}

impl Model for NaiveS3Fifo {
    fn touch(&mut self, chunk: u64) {
        if let Some((_, uses)) = self.small.iter_mut().chain(&mut self.main).find(|(c, _)| *c == chunk) {
            *uses = 3.min(*uses + 1);
            return;
        }
        if self.ghosts.contains(&chunk) {
            self.ghosts.retain(|c| *c != chunk);
            self.main.push((chunk, 0));
        } else if !self.has_evicted && self.small.len() >= (self.capacity / 10).max(1) {
            self.main.push((chunk, 0));
        } else {
            self.small.push((chunk, 0));
        }
        let full = self.capacity.max(self.chunks());
        let surplus = self.ghosts.len().saturating_sub(full - (full / 10).max(1));
        self.ghosts.drain(..surplus);
    }
    fn leave(&mut self, chunk: u64, evicted: bool) {
        self.has_evicted |= evicted;
        if evicted && self.small.iter().any(|(c, _)| *c == chunk) {
            self.ghosts.push(chunk);
        }
        self.small.retain(|(c, _)| *c != chunk);
        self.main.retain(|(c, _)| *c != chunk);
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        let small_share = (self.chunks() / 10).max(1);
        let main_max = self.chunks().saturating_sub(small_share);
        let first = if self.small.len() >= small_share { self.small_victim(main_max, evictable) } else { None };
        first.or_else(|| self.main_victim(evictable)).or_else(|| self.small_victim(usize::MAX, evictable))
    }
}

fn put_last(list: &mut Vec<u64>, chunk: u64) {
    list.retain(|c| *c != chunk);
    list.push(chunk);
}

fn first(list: &[u64], evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
    list.iter().copied().find(|c| evictable(*c))
}

#[derive(Default)]
struct NaiveArc {
    /// Oldest first: T1, T2, B1, B2 of the paper.
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
    /// In 65536th parts of a chunk.
    p: usize,
    capacity: usize,
    wanted_in_b2: bool,
    learned: BTreeSet<u64>,
}

impl NaiveArc {
    fn chunks(&self) -> usize {
        self.t1.len() + self.t2.len()
    }
    fn learn(&mut self, chunk: u64) {
        const ONE: usize = 1 << 16;
        let (b1, b2) = (self.b1.len(), self.b2.len());
        if self.b1.contains(&chunk) && self.learned.insert(chunk) {
            self.p = (self.p + (b2 * ONE / b1).max(ONE)).min(self.capacity.max(self.chunks()) * ONE);
        } else if self.b2.contains(&chunk) && self.learned.insert(chunk) {
            self.p = self.p.saturating_sub((b1 * ONE / b2).max(ONE));
        }
    }
}

impl Model for NaiveArc {
    fn miss(&mut self, chunk: u64) {
        if self.b1.contains(&chunk) || self.b2.contains(&chunk) {
            self.learn(chunk);
            self.wanted_in_b2 = self.b2.contains(&chunk);
        }
    }
    fn touch(&mut self, chunk: u64) {
        if self.t1.contains(&chunk) || self.t2.contains(&chunk) {
            self.t1.retain(|c| *c != chunk);
            return put_last(&mut self.t2, chunk);
        }
        self.learn(chunk);
        self.learned.remove(&chunk);
        self.wanted_in_b2 = false;
        let is_ghost = self.b1.contains(&chunk) || self.b2.contains(&chunk);
        self.b1.retain(|c| *c != chunk);
        self.b2.retain(|c| *c != chunk);
        if is_ghost {
            self.t2.push(chunk)
        } else {
            self.t1.push(chunk)
        }
        let capacity = self.capacity.max(self.chunks());
        while self.t1.len() + self.b1.len() > capacity && !self.b1.is_empty() {
            self.learned.remove(&self.b1.remove(0));
        }
        while self.chunks() + self.b1.len() + self.b2.len() > 2 * capacity && !self.b2.is_empty() {
            self.learned.remove(&self.b2.remove(0));
        }
    }
    fn leave(&mut self, chunk: u64, evicted: bool) {
        if evicted {
            if self.t1.contains(&chunk) { self.b1.push(chunk) } else { self.b2.push(chunk) }
        }
        self.t1.retain(|c| *c != chunk);
        self.t2.retain(|c| *c != chunk);
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        let t1 = self.t1.len() << 16;
        let (t1_first, t2_first) = (first(&self.t1, evictable), first(&self.t2, evictable));
        if t1 > self.p || (self.wanted_in_b2 && t1 == self.p) { t1_first.or(t2_first) } else { t2_first.or(t1_first) }
    }
}

#[derive(Default)]
struct NaiveLirs {
    /// Bottom first.
    stack: Vec<u64>,
    near: BTreeSet<u64>,
    /// Far chunks in the buffer, oldest first.
    far: Vec<u64>,
    /// Chunks that are gone, longest gone first.
    gone: Vec<u64>,
    capacity: usize,
}

impl NaiveLirs {
    fn capacity(&self) -> usize {
        self.capacity.max(self.near.len() + self.far.len())
    }
    fn near_max(&self) -> usize {
        self.capacity() - (self.capacity() / 100).max(1)
    }
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.first().copied().filter(|c| !self.near.contains(c)) {
            self.stack.remove(0);
            self.gone.retain(|c| *c != bottom);
        }
    }
    fn draw_near(&mut self, chunk: u64) {
        self.far.retain(|c| *c != chunk);
        self.gone.retain(|c| *c != chunk);
        self.near.insert(chunk);
        put_last(&mut self.stack, chunk);
        while self.near.len() > self.near_max() {
            let bottom = *self.stack.iter().find(|c| self.near.contains(c)).expect("near chunks stand in the stack");
            self.near.remove(&bottom);
            self.far.push(bottom);
            self.stack.retain(|c| *c != bottom);
            self.prune();
        }
    }
}

impl Model for NaiveLirs {
    fn touch(&mut self, chunk: u64) {
        if self.near.contains(&chunk) {
            put_last(&mut self.stack, chunk);
            return self.prune();
        }
        let is_far = self.far.contains(&chunk);
        if self.stack.contains(&chunk) {
            self.draw_near(chunk);
        } else if is_far || self.near.len() >= self.near_max() {
            put_last(&mut self.far, chunk);
            self.stack.push(chunk);
        } else {
            self.near.insert(chunk);
            self.stack.push(chunk);
        }
        while self.stack.len() > 2 * self.capacity() && !self.gone.is_empty() {
            let gone = self.gone.remove(0);
            self.stack.retain(|c| *c != gone);
        }
    }
    fn leave(&mut self, chunk: u64, evicted: bool) {
        let is_far = self.far.contains(&chunk);
        self.far.retain(|c| *c != chunk);
        self.near.remove(&chunk);
        if evicted && is_far && self.stack.contains(&chunk) {
            self.gone.push(chunk);
        } else if self.stack.contains(&chunk) {
            self.stack.retain(|c| *c != chunk);
            self.prune();
        }
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        first(&self.far, evictable).or_else(|| self.stack.iter().copied().find(|c| self.near.contains(c) && evictable(*c)))
    }
}

#[derive(Default)]
struct NaiveWTinyLfu {
    /// Oldest first.
    window: Vec<u64>,
    probation: Vec<u64>,
    protected: Vec<u64>,
    counts: BTreeMap<u64, u8>,
    uses: usize,
    capacity: usize,
}

impl NaiveWTinyLfu {
    fn window_max(&self) -> usize {
        (self.capacity.max(self.chunks()) / 100).max(1)
    }
    fn chunks(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }
    fn count(&self, chunk: u64) -> u8 {
        self.counts.get(&chunk).copied().unwrap_or(0)
    }
}

impl Model for NaiveWTinyLfu {
    fn touch(&mut self, chunk: u64) {
        let count = self.counts.entry(chunk).or_insert(0);
        *count = 15.min(*count + 1);
        self.uses += 1;
        if self.uses >= 10 * self.capacity {
            self.uses /= 2;
            self.counts.values_mut().for_each(|count| *count /= 2);
        }
        if self.protected.contains(&chunk) {
            put_last(&mut self.protected, chunk);
        } else if self.probation.contains(&chunk) {
            self.probation.retain(|c| *c != chunk);
            self.protected.push(chunk);
            let main = self.capacity.max(self.chunks()) - self.window_max();
            while self.protected.len() > main / 5 * 4 {
                self.probation.push(self.protected.remove(0));
            }
        } else {
            put_last(&mut self.window, chunk);
            while self.window.len() > self.window_max() {
                self.probation.push(self.window.remove(0));
            }
        }
    }
    fn leave(&mut self, chunk: u64, _evicted: bool) {
        [&mut self.window, &mut self.probation, &mut self.protected].into_iter().for_each(|list| list.retain(|c| *c != chunk));
    }
    fn victim(&mut self, evictable: &dyn Fn(u64) -> bool) -> Option<u64> {
        let main = first(&self.probation, evictable).or_else(|| first(&self.protected, evictable));
        let candidate = first(&self.window, evictable);
        match (candidate, main) {
            (_, Some(main)) if self.window.len() < self.window_max() => Some(main),
            (Some(candidate), Some(main)) if self.count(candidate) > self.count(main) => Some(main),
            (candidate, main) => candidate.or(main),
        }
    }
}

fn model(kind: ReplacementKind, capacity: usize) -> Box<dyn Model> {
    match kind {
        ReplacementKind::Fifo => Box::<NaiveFifo>::default(),
        ReplacementKind::Lru => Box::<NaiveLru>::default(),
        ReplacementKind::Lfu => Box::<NaiveFrequency>::default(),
        ReplacementKind::Lfuda => Box::new(NaiveFrequency { aging: true, ..Default::default() }),
        ReplacementKind::S3Fifo => Box::new(NaiveS3Fifo { capacity, ..Default::default() }),
        ReplacementKind::Sieve => Box::<NaiveSieve>::default(),
        ReplacementKind::Arc => Box::new(NaiveArc { capacity, ..Default::default() }),
        ReplacementKind::Lirs => Box::new(NaiveLirs { capacity, ..Default::default() }),
        ReplacementKind::WTinyLfu => Box::new(NaiveWTinyLfu { capacity, ..Default::default() }),
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// A read or a write of the chunk.
    Touch(u64),
    /// The same, told as an insert even if the chunk is there.
    Insert(u64),
    /// A chunk is wanted, and may come later or not.
    Miss(u64),
    /// Unlink or truncate.
    Remove(u64),
    /// A victim is asked for, with chunks that cannot go (a bit each), and perhaps swapped out.
    Victim { pinned: u64, evict: bool },
}

/// Chunks are numbered below this, so that a bit mask can pin them.
const CHUNKS: u64 = 40;

fn op() -> impl Strategy<Value = Op> {
    // Squaring prefers small numbers: a hot set.
    let chunk = (0..CHUNKS * CHUNKS).prop_map(|n| n.isqrt().abs_diff(CHUNKS - 1));
    let pinned = prop_oneof![Just(0), any::<u64>(), (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a | b), Just(u64::MAX)];
    prop_oneof![
        12 => chunk.clone().prop_map(Op::Touch),
        1 => chunk.clone().prop_map(Op::Insert),
        2 => chunk.clone().prop_map(Op::Miss),
        1 => chunk.prop_map(Op::Remove),
        4 => (pinned, prop::bool::weighted(0.8)).prop_map(|(pinned, evict)| Op::Victim { pinned, evict }),
    ]
}

fn chunk(index: u64) -> ChunkId {
    ChunkId { ino: Ino(1 + index % 3), index }
}

fn run(kind: ReplacementKind, capacity: usize, ops: &[Op]) {
    let mut policy = replacement::new(kind, capacity as u64);
    let mut model = model(kind, capacity);
    let mut resident = BTreeSet::new();
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::Touch(c) if resident.contains(&c) => {
                policy.on_access(chunk(c));
                model.touch(c);
            }
            Op::Miss(c) => {
                policy.on_miss(chunk(c));
                if !resident.contains(&c) {
                    model.miss(c);
                }
            }
            Op::Touch(c) | Op::Insert(c) => {
                resident.insert(c);
                policy.on_insert(chunk(c));
                model.touch(c);
            }
            Op::Remove(c) => {
                policy.on_remove(chunk(c));
                if resident.remove(&c) {
                    model.leave(c, false);
                }
            }
            Op::Victim { pinned, evict } => {
                let victim = policy.victim(&mut |c| pinned >> c.index & 1 == 0);
                let expected = model.victim(&|c| pinned >> c & 1 == 0);
                assert_eq!(victim, expected.map(chunk), "{kind:?}, step {step}: {op:?}");
                if let (Some(victim), true) = (expected, evict) {
                    assert!(resident.remove(&victim), "{kind:?} named {victim}, which is not in the buffer");
                    policy.on_evict(chunk(victim));
                    model.leave(victim, true);
                }
            }
        }
        assert_eq!(policy.len(), resident.len(), "{kind:?}, step {step}: {op:?}");
        assert_eq!(policy.is_empty(), resident.is_empty());
    }
}

proptest! {
    #[test]
    fn agrees_with_the_naive_policy(capacity in 1..60usize, ops in prop::collection::vec(op(), 1..300)) {
        for kind in KINDS {
            run(kind, capacity, &ops);
        }
    }

    /// B-09: a use hits if and only if fewer different chunks than the buffer holds were used since the last time.
    #[test]
    fn lru_hits_below_its_capacity_in_reuse_distance(capacity in 1..20usize, string in prop::collection::vec(0..30u64, 1..300)) {
        let mut policy = replacement::new(ReplacementKind::Lru, capacity as u64);
        let mut resident = BTreeSet::new();
        for (at, c) in string.iter().enumerate() {
            let last = string[..at].iter().rposition(|earlier| earlier == c);
            let distance = last.map(|last| string[last + 1..at].iter().collect::<BTreeSet<_>>().len());
            prop_assert_eq!(resident.contains(c), distance.is_some_and(|d| d < capacity), "use {} of chunk {}", at, c);
            if !resident.contains(c) && resident.len() == capacity {
                let victim = policy.victim(&mut |_| true).expect("every chunk can go");
                policy.on_evict(victim);
                resident.remove(&victim.index);
            }
            if resident.insert(*c) { policy.on_insert(chunk(*c)) } else { policy.on_access(chunk(*c)) }
        }
    }
}

fn filled(kind: ReplacementKind, chunks: u64) -> Box<dyn Replacement> {
    let mut policy = replacement::new(kind, chunks);
    for index in 0..chunks {
        policy.on_insert(chunk(index));
        for _ in 0..index % 3 {
            policy.on_access(chunk(index));
        }
    }
    policy
}

/// The promise of `Replacement::victim`: one call asks about few chunks, and calls in a row ask about all.
#[test]
fn a_search_among_pinned_chunks_is_bounded_and_goes_on() {
    const PINNED: u64 = 5000;
    for kind in KINDS {
        for free in [0, 1, PINNED / 10, PINNED / 2, PINNED - 1] {
            let mut policy = filled(kind, PINNED);
            let calls_max = PINNED / u64::from(ASKS_BEYOND_MAX) + 2;
            let mut found = None;
            for _ in 0..calls_max {
                let mut asks = 0;
                found = policy.victim(&mut |c| {
                    asks += 1;
                    c.index == free
                });
                let queues = match kind {
                    ReplacementKind::S3Fifo | ReplacementKind::WTinyLfu => 3,
                    ReplacementKind::Arc | ReplacementKind::Lirs => 2,
                    _ => 1,
                };
                assert!(asks <= queues * (ASKS_IN_ORDER_MAX + ASKS_BEYOND_MAX), "{kind:?} asked {asks} times in one call");
                if found.is_some() {
                    break;
                }
            }
            assert_eq!(found, Some(chunk(free)), "{kind:?}, after {calls_max} calls");
            let mut asks = 0;
            let again = policy.victim(&mut |c| {
                asks += 1;
                c.index == free
            });
            assert_eq!(again, found, "{kind:?}: a victim that stays is named again ({asks} asks)");
        }
    }
}

/// Chunks that may go when the front of the queue may not: each call finds the next one without a long walk.
#[test]
fn many_victims_behind_a_pinned_front_cost_a_bounded_walk_each() {
    const CHUNKS: u64 = 4000;
    for kind in KINDS {
        let mut policy = filled(kind, CHUNKS);
        let mut gone = BTreeSet::new();
        let mut calls = 0;
        while gone.len() < 500 {
            calls += 1;
            assert!(calls < 700, "{kind:?}: {calls} calls for {} victims", gone.len());
            if let Some(victim) = policy.victim(&mut |c| c.index >= 2000) {
                assert!(victim.index >= 2000 && gone.insert(victim), "{kind:?} named {victim:?} wrongly");
                policy.on_evict(victim);
            }
        }
        assert_eq!(policy.len() as u64, CHUNKS - 500);
    }
}
