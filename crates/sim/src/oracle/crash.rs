//! What may be left after a crash.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::id::CallId;
use forebay_core::message::Request;
use forebay_core::time::Time;

use super::apply::Call;
use super::state::{Inode, ModelIno, State, TimeSpan};
use super::{Oracle, PossibleWorld, Worlds, push_new};

impl Oracle {
    /// The process was killed: everything acknowledged is there, and what was under way happened or did not.
    pub fn kill(&mut self, now: Time) {
        let worlds = std::mem::take(&mut self.worlds);
        let pending = std::mem::take(&mut self.pending);
        let mut next = Worlds::new();
        after_crash(&worlds, &pending, now, &mut next);
        if let Some(moment) = self.before_failure.take() {
            after_crash(&moment.worlds, &moment.pending, now, &mut next);
        }
        // Nothing was made durable: a power loss may still go back to before.
        self.begin_again(next);
    }

    /// The process was killed and another has taken over: what is under way goes on. Snapshots of directories are lost.
    pub fn taken_over(&mut self) {
        for world in &mut self.worlds {
            for handle in Rc::make_mut(world).state.handles.values_mut() {
                handle.lost = true;
            }
        }
        self.remember();
    }

    /// The power failed: what is there is the state of some moment since the last sync. Home may have bytes of files that are newer:
    /// they are written there before the journal is on the medium.
    pub fn lose_power(&mut self, now: Time) {
        self.remember();
        let mut next = Worlds::new();
        let mut newer = Newer::default();
        for moment in std::mem::take(&mut self.history).into_iter().rev() {
            for world in &moment.worlds {
                newer.add(&world.state, &moment.pending);
            }
            let mut worlds = Worlds::new();
            after_crash(&moment.worlds, &moment.pending, now, &mut worlds);
            for world in worlds {
                let mut world = Rc::unwrap_or_clone(world);
                newer.open(&mut world.state, now);
                push_new(&mut next, world);
            }
        }
        self.begin_again(next);
    }

    fn begin_again(&mut self, worlds: Worlds) {
        self.worlds = worlds;
        self.pending.clear();
        self.reads.clear();
        self.appends.clear();
        self.references.clear();
        self.syncs.clear();
        self.before_failure = None;
        self.remember();
    }

    /// What was read back after a power loss is on the medium: history begins anew.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.remember();
    }
}

/// All worlds in which some of the requests under way have happened, in some order, and then the process ended.
fn after_crash(worlds: &Worlds, pending: &BTreeMap<CallId, Call>, now: Time, next: &mut Worlds) {
    let mut changes: BTreeMap<CallId, Call> =
        pending.iter().filter(|(_, call)| call.changes_state()).map(|(id, call)| (*id, call.clone())).collect();
    for call in changes.values_mut() {
        call.handled.1 = now.as_nanos() as i64;
    }
    for world in worlds {
        let mut state = world.state.clone();
        for (ino, offset, len, before) in world.open_writes(pending) {
            if let (Ok(model), Some(before)) = (state.resolve(ino), before.file()) {
                state.file_mut(model).may_lack(offset, len as usize, before);
            }
        }
        let open: Vec<CallId> = changes.keys().copied().filter(|id| !world.happened.contains_key(id)).collect();
        in_all_orders(&state, &changes, &open, &mut |state| {
            let mut state = state.clone();
            state.forget_process();
            push_new(next, PossibleWorld { state, happened: BTreeMap::new() });
        });
    }
}

fn in_all_orders(state: &State, calls: &BTreeMap<CallId, Call>, open: &[CallId], each: &mut dyn FnMut(&State)) {
    each(state);
    for (at, id) in open.iter().enumerate() {
        let mut happened = state.clone();
        happened.apply_perhaps(&calls[id]);
        let mut rest = open.to_vec();
        rest.remove(at);
        in_all_orders(&happened, calls, &rest, each);
        // What it takes from the mode goes ahead of all else, as on any file system: that may be all that is there of it.
        if let Some(ino) = calls[id].set_id_taken_of(state) {
            let mut begun = state.clone();
            begun.inode_mut(ino).drop_set_id(true);
            in_all_orders(&begun, calls, &rest, each);
        }
    }
}

/// Of each file, all that it has been since a moment.
#[derive(Default)]
struct Newer {
    files: BTreeMap<ModelIno, (Rc<Inode>, bool)>,
}

impl Newer {
    /// Goes back to an older moment.
    fn add(&mut self, state: &State, pending: &BTreeMap<CallId, Call>) {
        let mut state = state.clone();
        for call in pending.values().filter(|call| call.changes_bytes_of().is_some()) {
            state.apply_perhaps(call);
        }
        for (ino, inode) in state.inodes.iter().filter(|(_, inode)| inode.file().is_some()) {
            let (file, has_changed) = self.files.entry(*ino).or_insert_with(|| (Rc::clone(inode), false));
            if !Rc::ptr_eq(file, inode) && file.body != inode.body {
                *has_changed = true;
                Rc::make_mut(file).merge_bytes(inode);
            }
        }
    }

    /// Lets the bytes of each file be as they were at any moment since.
    fn open(&self, state: &mut State, now: Time) {
        let changed: Vec<ModelIno> =
            state.inodes.keys().copied().filter(|ino| self.files.get(ino).is_some_and(|(_, changed)| *changed)).collect();
        for ino in changed {
            let inode = state.inode_mut(ino);
            inode.merge_bytes(&self.files[&ino].0);
            // Home gives a file the time of a write until its own time comes home.
            let first = inode.mtime.0.iter().map(|(first, _)| *first).min().unwrap_or(0);
            inode.mtime = inode.mtime.or(&TimeSpan(vec![(first, now.as_nanos() as i64)]));
        }
    }
}

impl State {
    /// A request that was cut off: a write may be there in part, any other request in whole.
    pub(super) fn apply_perhaps(&mut self, call: &Call) {
        let Request::Write { ino, offset, len, append, drops_set_id } = call.request else {
            self.apply(call);
            return;
        };
        let Ok(ino) = self.resolve(ino) else { return };
        let before = self.inode(ino).mtime.clone();
        let inode = self.inode_mut(ino);
        inode.mtime = before.or(&TimeSpan(vec![call.handled]));
        inode.drop_set_id(drops_set_id && len > 0);
        let data = self.file_mut(ino);
        let offset = if append { data.size } else { offset };
        data.write_perhaps(offset, &Rc::clone(&call.payload));
    }
}
