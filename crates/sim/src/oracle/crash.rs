//! What may be left after a crash.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::id::CallId;
use forebay_core::message::Request;
use forebay_core::time::Time;

use super::apply::Call;
use super::state::State;
use super::{Oracle, PossibleWorld, Worlds, push_new};

impl Oracle {
    /// The process was killed: everything acknowledged is there, and what was under way happened or did not.
    pub fn kill(&mut self, now: Time) {
        let worlds = std::mem::take(&mut self.worlds);
        let pending = std::mem::take(&mut self.pending);
        let mut next = Worlds::new();
        after_crash(&worlds, &pending, now, &mut next);
        // Nothing was made durable: a power loss may still go back to before.
        self.begin_again(next);
    }

    /// The power failed: what is there is the state of some moment since the last sync.
    pub fn lose_power(&mut self, now: Time) {
        self.remember();
        let mut next = Worlds::new();
        for moment in std::mem::take(&mut self.history) {
            after_crash(&moment.worlds, &moment.pending, now, &mut next);
        }
        self.begin_again(next);
    }

    fn begin_again(&mut self, worlds: Worlds) {
        self.worlds = worlds;
        self.pending.clear();
        self.read_versions.clear();
        self.references.clear();
        self.syncs.clear();
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
        let open: Vec<CallId> = changes.keys().copied().filter(|id| !world.happened.contains_key(id)).collect();
        in_all_orders(&world.state, &changes, &open, &mut |state| {
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
    }
}

impl State {
    /// A request that was cut off: a write may be there in part, any other request in whole.
    pub(super) fn apply_perhaps(&mut self, call: &Call) {
        let Request::Write { ino, offset, append, .. } = call.request else {
            self.apply(call);
            return;
        };
        let Ok(ino) = self.resolve(ino) else { return };
        let before = self.inode(ino).mtime.clone();
        let inode = self.inode_mut(ino);
        inode.mtime = before.or(&super::state::TimeSpan(vec![call.handled]));
        let data = self.file_mut(ino);
        let offset = if append { data.size } else { offset };
        data.write_perhaps(offset, &Rc::clone(&call.payload));
    }
}
