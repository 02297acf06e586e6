//! The oracle: every state that the file system may be in, given what was asked and what was answered.
//!
//! A request that is under way may have happened already or not: the oracle follows all orders in which the requests can have
//! happened (each at one moment between its call and its answer), and strikes out those that an answer contradicts. When none is
//! left, the machine has given an answer that no order explains. After a crash the requests under way may have happened or not; after
//! a power loss the state is that of any moment since the last sync. What is then read back must fit one of these states.

pub mod accept;
pub mod apply;
mod crash;
pub mod expected;
pub(crate) mod home;
pub mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_core::errno::Errno;
use forebay_core::id::{CallId, Ino};
use forebay_core::message::{Reply, Request};
use forebay_core::time::Time;

use crate::stamp::Stamp;
use apply::Call;
use expected::Expected;
use state::{Inode, ModelIno, State};

/// States followed at a time; more are a sign that a workload is too wild to check.
const WORLDS_MAX: usize = 4000;

/// Above this, worlds that differ in bytes only are made one.
const WORLDS_EXACT_MAX: usize = 8;

/// One way in which everything so far can have happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PossibleWorld {
    /// The state.
    pub state: State,
    /// Requests that have happened in this world and were not yet answered, with what the answer must be.
    happened: BTreeMap<CallId, Expected>,
}

type Worlds = Vec<Rc<PossibleWorld>>;

/// The worlds of a moment, with the requests that were under way.
#[derive(Clone, Debug)]
struct Moment {
    number: u64,
    worlds: Worlds,
    pending: BTreeMap<CallId, Call>,
}

/// Follows all states that the file system may be in.
#[derive(Debug)]
pub struct Oracle {
    worlds: Worlds,
    pending: BTreeMap<CallId, Call>,
    /// What the files of reads under way were and may have been since these were asked for.
    reads: BTreeMap<CallId, ReadWatch>,
    /// Where each append under way may have its place: the sizes that its file had since it was asked for.
    appends: BTreeMap<CallId, BTreeSet<u64>>,
    /// References that clients hold, of each of the machine's numbers.
    references: BTreeMap<Ino, u64>,
    /// Moments since the last sync, the oldest first; what a power loss may go back to.
    history: Vec<Moment>,
    moments: u64,
    /// Syncs and drains under way, with the moment at which they were asked for.
    syncs: BTreeMap<CallId, u64>,
    /// The moment before the log failed: what was changed since may be seen until the process ends, and be gone then.
    before_failure: Option<Moment>,
    /// Whether a power loss is to be expected: else no history is kept.
    keeps_history: bool,
}

/// An answer that no order of events explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction(pub String);

impl Oracle {
    /// An oracle that knows the state of the start.
    pub fn new(state: State, keeps_history: bool) -> Oracle {
        let worlds = vec![Rc::new(PossibleWorld { state, happened: BTreeMap::new() })];
        let mut oracle = Oracle {
            worlds,
            pending: BTreeMap::new(),
            reads: BTreeMap::new(),
            appends: BTreeMap::new(),
            references: BTreeMap::new(),
            history: Vec::new(),
            moments: 0,
            syncs: BTreeMap::new(),
            before_failure: None,
            keeps_history,
        };
        oracle.remember();
        oracle
    }

    /// A client asks; `payload` are the bytes of a write.
    pub fn ask(&mut self, now: Time, call: CallId, request: Request, payload: Rc<Vec<u8>>) {
        if let Request::Forget { ino, count } = request {
            self.give_back(ino, count);
        }
        if request == Request::Depart {
            self.references.clear();
        }
        if matches!(request, Request::Sync { .. } | Request::Drain | Request::BringHome { .. }) {
            self.remember();
            self.syncs.insert(call, self.moments);
        }
        let now_ns = now.as_nanos() as i64;
        let asked = Call { request, payload, makes: ModelIno(call.0), beside: Vec::new(), handled: (now_ns, now_ns) };
        if asked.reads_file().is_some() {
            self.reads.insert(call, ReadWatch::default());
        }
        if let Request::Write { append: true, .. } = asked.request {
            self.appends.insert(call, BTreeSet::new());
        }
        self.pending.insert(call, asked);
        self.note_versions();
    }

    /// Notes what the files of the reads under way may be now: with each change under way, or without.
    fn note_versions(&mut self) {
        for (append, places) in &mut self.appends {
            let Some(ino) = self.pending[append].changes_bytes_of() else { continue };
            for world in self.worlds.iter().filter(|world| !world.happened.contains_key(append)) {
                let size = world.state.resolve(ino).ok().and_then(|model| world.state.inode(model).file()).map(|data| data.size);
                places.extend(size);
            }
        }
        for (read, watch) in &mut self.reads {
            let Some(ino) = self.pending[read].reads_file() else { continue };
            let changes: Vec<&Call> = self.pending.values().filter(|call| call.changes_bytes_of() == Some(ino)).collect();
            watch.is_disturbed |= !changes.is_empty();
            for world in &self.worlds {
                let Ok(model) = world.state.resolve(ino) else { continue };
                watch.note_settled(world.state.inode(model));
                // What was appended behind a write shows that this has its place, not that its bytes are there.
                if let Some(lacking) = world.lacking_writes(&self.pending, ino, model) {
                    watch.note(&lacking);
                }
                for change in &changes {
                    let mut state = world.state.clone();
                    state.apply(change);
                    watch.note(state.inode(model));
                }
            }
        }
    }

    fn give_back(&mut self, ino: Ino, count: u64) {
        let references = self.references.entry(ino).or_default();
        *references = references.saturating_sub(count);
        if *references == 0 {
            self.references.remove(&ino);
            for world in &mut self.worlds {
                Rc::make_mut(world).state.unbind(ino);
            }
        }
    }

    /// The machine answers; `payload` are the bytes of a read.
    ///
    /// # Errors
    /// When no order of events explains the answer.
    pub fn answer(&mut self, now: Time, call: CallId, reply: &Reply, payload: &[u8]) -> Result<(), Contradiction> {
        for pending in self.pending.values_mut() {
            pending.handled.1 = now.as_nanos() as i64;
        }
        self.extend_times();
        self.note_versions();
        if self.worlds.iter().any(|world| self.pending[&call].set_id_taken_of(&world.state).is_some()) {
            // A power loss may leave of it what it took from the mode, and no more.
            self.remember();
        }
        let watch = self.reads.remove(&call).filter(|watch| watch.is_disturbed);
        let places = self.appends.remove(&call);
        let (mut next, mut reasons): (Worlds, Vec<String>) = (Vec::new(), Vec::new());
        let before = std::mem::take(&mut self.worlds);
        for world in &before {
            self.explain(world, call, &mut |mut world| {
                let expected = world.happened.remove(&call).expect("the request has happened here");
                let unsettled = watch.is_some().then(|| world.clone());
                match world.state.accept(&expected, reply, payload) {
                    Ok(()) => push_new(&mut next, unsettled.unwrap_or(world)),
                    Err(reason) => reasons.push(reason),
                }
            });
            assert!(next.len() <= WORLDS_MAX, "too many possible worlds to follow");
        }
        let asked = self.pending.remove(&call).expect("only open calls are answered");
        if let Some(watch) = watch {
            // It shows what the file was at some moment, or at several. Only what it was at none of those that are over is of now.
            let is_over = ReadWatch::check(&watch.settled, &asked.request, reply, payload).is_ok();
            let (worlds, judged) = match next.is_empty() {
                false if is_over => (before, Ok(())),
                false => (next, Ok(())),
                true => (before, ReadWatch::check(&watch.versions, &asked.request, reply, payload)),
            };
            self.worlds = worlds;
            return judged;
        }
        if let (Reply::Written { offset, .. }, Some(places), true) = (reply, places, next.is_empty())
            && places.contains(offset)
        {
            next = appended_at(&before, call, &asked, *offset);
        }
        self.worlds = next;
        if self.worlds.is_empty() {
            reasons.dedup();
            reasons.truncate(4);
            return Err(Contradiction(format!("{:?}: {}", asked.request, reasons.join("; or "))));
        }
        if let Reply::Entry { ino, .. } | Reply::Created { ino, .. } = reply {
            *self.references.entry(*ino).or_default() += 1;
        }
        if let (Request::Write { ino, .. }, Reply::Written { offset, len, .. }) = (&asked.request, reply) {
            let beside = self.pending.values_mut().filter(|other| other.changes_bytes_of() == Some(*ino));
            beside.for_each(|other| other.beside.push((*offset, offset + u64::from(*len))));
        }
        self.note_sync(call, reply);
        self.note_versions();
        if asked.changes_state() {
            self.remember();
        }
        Ok(())
    }

    /// A write that has happened in a world and is not answered may have given its time as late as now.
    fn extend_times(&mut self) {
        for world in &mut self.worlds {
            let open: Vec<CallId> = world.happened.keys().copied().filter(|call| self.pending[call].changes_bytes_of().is_some()).collect();
            for call in open {
                Rc::make_mut(world).state.extend_time(&self.pending[&call]);
            }
        }
    }

    /// Gives `each` all worlds that follow from `world` and in which the request has happened.
    fn explain(&self, world: &PossibleWorld, call: CallId, each: &mut dyn FnMut(PossibleWorld)) {
        let asked = &self.pending[&call];
        if world.happened.contains_key(&call) {
            each(world.clone());
            return;
        }
        let mut direct = world.clone();
        let expected = direct.state.apply(asked);
        direct.happened.insert(call, expected);
        each(direct);
        // Another one may have happened first, if that makes a difference.
        for (other, pending) in &self.pending {
            // What is read is looked at when it is answered.
            let is_read = pending.reads_file().is_some();
            if *other == call || is_read || world.happened.contains_key(other) || self.all_commute(world, *other) {
                continue;
            }
            let mut before = world.clone();
            let expected = before.state.apply(pending);
            before.happened.insert(*other, expected);
            self.explain(&before, call, each);
        }
    }

    /// Whether a request commutes with all others that are still to happen in a world: then its place does not matter yet.
    fn all_commute(&self, world: &PossibleWorld, call: CallId) -> bool {
        let asked = &self.pending[&call];
        self.pending.iter().all(|(other, pending)| *other == call || world.happened.contains_key(other) || asked.commutes_with(pending))
    }

    fn note_sync(&mut self, call: CallId, reply: &Reply) {
        let Some(asked_at) = self.syncs.remove(&call) else { return };
        let synced = match reply {
            Reply::Done => true,
            Reply::Drained { failures } => failures.is_empty(),
            Reply::BroughtHome { failure } => failure.is_none(),
            _ => false,
        };
        if synced {
            self.history.retain(|moment| moment.number >= asked_at);
        }
    }

    /// A request failed for a reason that is allowed. With `perhaps`, it may have happened all the same.
    pub fn failed(&mut self, now: Time, call: CallId, perhaps: bool) {
        for pending in self.pending.values_mut() {
            pending.handled.1 = now.as_nanos() as i64;
        }
        let asked = self.pending.remove(&call).expect("only open calls are answered");
        self.reads.remove(&call);
        self.appends.remove(&call);
        if perhaps && self.before_failure.is_none() {
            self.before_failure = Some(Moment { number: 0, worlds: self.worlds.clone(), pending: self.pending.clone() });
        }
        self.syncs.remove(&call);
        let mut next = Worlds::new();
        for world in std::mem::take(&mut self.worlds) {
            if !world.happened.contains_key(&call) {
                push_new(&mut next, (*world).clone());
                if perhaps && asked.changes_state() {
                    let mut happened = (*world).clone();
                    happened.state.apply_perhaps(&asked);
                    push_new(&mut next, happened);
                }
            } else if perhaps {
                let mut happened = (*world).clone();
                happened.happened.remove(&call);
                push_new(&mut next, happened);
            }
        }
        self.worlds = next;
        self.remember();
    }

    /// A request was answered, and nobody can say what it should have been.
    pub fn forget(&mut self, call: CallId) {
        self.pending.remove(&call);
        self.reads.remove(&call);
        self.appends.remove(&call);
        self.syncs.remove(&call);
        for world in &mut self.worlds {
            Rc::make_mut(world).happened.remove(&call);
        }
    }

    /// The journal takes no records from now on: what is under way may be seen, and be gone if the process dies before it goes on.
    pub fn journal_halts(&mut self) {
        if self.before_failure.is_none() {
            self.before_failure = Some(Moment { number: 0, worlds: self.worlds.clone(), pending: self.pending.clone() });
        }
    }

    /// The journal has all again that was seen.
    pub fn journal_goes_on(&mut self) {
        self.before_failure = None;
    }

    fn remember(&mut self) {
        if !self.keeps_history {
            return;
        }
        self.moments += 1;
        self.history.push(Moment { number: self.moments, worlds: self.worlds.clone(), pending: self.pending.clone() });
    }

    /// All worlds that are possible now.
    pub fn states(&self) -> impl Iterator<Item = &State> {
        self.worlds.iter().map(|world| &world.state)
    }

    /// How many worlds are possible now.
    pub fn world_count(&self) -> usize {
        self.worlds.len()
    }

    /// Whether a request that changes the state is under way.
    pub fn is_changing(&self) -> bool {
        self.pending.values().any(Call::changes_state)
    }
}

/// What the file of a read under way was, and may have been, since it was asked for.
#[derive(Clone, Debug, Default)]
struct ReadWatch {
    /// What it may have been, with any one of the changes under way.
    versions: Vec<Rc<Inode>>,
    /// What it may have been without these.
    settled: Vec<Rc<Inode>>,
    /// A change of the file was under way at the same time.
    is_disturbed: bool,
}

impl ReadWatch {
    fn note(&mut self, inode: &Rc<Inode>) {
        note_new(&mut self.versions, inode);
    }

    fn note_settled(&mut self, inode: &Rc<Inode>) {
        note_new(&mut self.settled, inode);
        self.note(inode);
    }

    /// A read beside a change of its file need not be atomic: each of its bytes may be of before or after.
    fn check(versions: &[Rc<Inode>], request: &Request, reply: &Reply, payload: &[u8]) -> Result<(), Contradiction> {
        if matches!((request, reply), (Request::Seek { .. }, Reply::Offset { .. } | Reply::Error { errno: Errno::ENXIO })) {
            // It looks at one part after the other.
            return Ok(());
        }
        let (Request::Read { offset, len, .. }, Reply::Read { len: got }) = (request, reply) else {
            return Err(Contradiction(format!("{request:?} was answered with {reply:?}")));
        };
        let judged = accept::check_read_of_any(versions, *offset, *len, &payload[..*got as usize]);
        judged.map_err(|what| Contradiction(format!("{request:?} beside changes of the file: {what}")))
    }
}

fn note_new(versions: &mut Vec<Rc<Inode>>, inode: &Rc<Inode>) {
    if !versions.iter().any(|version| Rc::ptr_eq(version, inode) || version.body == inode.body) {
        versions.push(Rc::clone(inode));
    }
}

/// The worlds in which an append has happened at the place that it was given when it was admitted, behind what the file was then: what
/// was written there meanwhile without appending may be seen before it, and lie over it.
fn appended_at(worlds: &Worlds, call: CallId, asked: &Call, offset: u64) -> Worlds {
    let Request::Write { ino, len, drops_set_id, .. } = asked.request else { return Worlds::new() };
    let placed = Call { request: Request::Write { ino, offset, len, append: false, drops_set_id }, ..asked.clone() };
    let mut next = Worlds::new();
    for world in worlds.iter().filter(|world| !world.happened.contains_key(&call)) {
        let mut world = (**world).clone();
        world.state.apply(&placed);
        push_new(&mut next, world);
    }
    next
}

/// Adds a world if it is not among them. Worlds that differ in times only become one: which of two changes of a directory came last
/// is seldom ever seen, and there are many.
fn push_new(worlds: &mut Worlds, world: PossibleWorld) {
    if let Some(like) = worlds.iter_mut().find(|other| other.is_like(&world)) {
        return Rc::make_mut(like).merge_times(&world);
    }
    if worlds.len() >= WORLDS_EXACT_MAX {
        // Writes beside each other that nobody reads: from here on it is left open, byte by byte, which one came last.
        if let Some(like) = worlds.iter_mut().find(|other| other.has_same_shape(&world)) {
            let like = Rc::make_mut(like);
            like.merge_times(&world);
            return like.state.merge_bytes(&world.state);
        }
    }
    worlds.push(Rc::new(world));
}

impl PossibleWorld {
    /// A file without the bytes of writes that have happened and are not answered.
    fn lacking_writes(&self, pending: &BTreeMap<CallId, Call>, ino: Ino, model: ModelIno) -> Option<Rc<Inode>> {
        let written = self.open_writes(pending).filter(|(of, ..)| *of == ino).collect::<Vec<_>>();
        if written.is_empty() {
            return None;
        }
        let mut state = self.state.clone();
        for (_, offset, len, before) in written {
            if let Some(before) = before.file() {
                state.file_mut(model).may_lack(offset, len as usize, before);
            }
        }
        Some(Rc::clone(state.inode(model)))
    }

    /// Writes (file, offset, length, the file before) that have made a file longer in this world and are not answered.
    fn open_writes<'a>(&'a self, pending: &'a BTreeMap<CallId, Call>) -> impl Iterator<Item = (Ino, u64, u32, &'a Inode)> + 'a {
        self.happened.iter().filter_map(|(call, expected)| match (&pending.get(call)?.request, expected) {
            (Request::Write { ino, .. }, Expected::Written { offset, len, before })
                if before.file().is_some_and(|data| offset + u64::from(*len) > data.size) =>
            {
                Some((*ino, *offset, *len, &**before))
            }
            _ => None,
        })
    }

    fn is_like(&self, other: &PossibleWorld) -> bool {
        self.happened.len() == other.happened.len()
            && self.happened.iter().zip(&other.happened).all(|((a_call, a), (b_call, b))| a_call == b_call && a.is_like(b))
            && self.state.is_like(&other.state)
    }

    /// Whether the two differ in times and in files' bytes at most, and the same answers are expected.
    fn has_same_shape(&self, other: &PossibleWorld) -> bool {
        self.happened.len() == other.happened.len()
            && self.happened.iter().zip(&other.happened).all(|((a_call, a), (b_call, b))| a_call == b_call && a.has_same_shape(b))
            && self.state.has_same_shape(&other.state)
    }

    fn merge_times(&mut self, other: &PossibleWorld) {
        self.state.merge_times(&other.state);
        for (into, other) in self.happened.values_mut().zip(other.happened.values()) {
            into.merge_times(other);
        }
    }
}

/// The payload of a write.
pub fn payload_of(stamp: Stamp, len: u32) -> Rc<Vec<u8>> {
    Rc::new(crate::stamp::payload(stamp, len as usize))
}

#[cfg(test)]
mod tests;
