//! What requests wait for, for `status`.

use alloc::vec::Vec;

use super::Node;
use crate::id::Ino;
use crate::master::Need;
use crate::message::{WaitReason, Waiting};

impl Node {
    /// The requests that wait, by their reason; reasons for which none waits are left out.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let mut waiting = Vec::new();
        let mut add = |reason, requests: usize, example: Option<Ino>| {
            if requests > 0 {
                let path = example.and_then(|ino| self.names.current_path(ino));
                waiting.push(Waiting { reason, requests: count(requests), path });
            }
        };
        let leaving = self.chunk_waiters.values().map(Vec::len).sum::<usize>();
        let first = self.room_waiters.front().and_then(|(_, request)| request.file());
        add(WaitReason::Room, self.room_waiters.len() + leaving, first.or(self.chunk_waiters.keys().next().copied()));
        add(WaitReason::Space, self.disk_waiter_count(), None);
        let asked = self.parked.keys().next().map(Need::ino);
        let parked = self.parked.values().map(Vec::len).sum::<usize>();
        add(WaitReason::HomeNames, parked + self.space.waiting(), asked);
        let fetching = self.reads.values().filter(|read| read.waits_for_home());
        add(WaitReason::HomeBytes, fetching.clone().count(), fetching.clone().next().map(|read| read.ino()));
        let turn = self.read_waiters.front().and_then(|call| self.reads.get(call)).map(|read| read.ino());
        add(WaitReason::ReadTurn, self.read_waiters.len(), turn);
        add(WaitReason::OwnWrites, self.idle_waiters.values().map(Vec::len).sum(), self.idle_waiters.keys().next().copied());
        add(WaitReason::Medium, self.sync.waiter_count(), None);
        add(WaitReason::Drain, self.home.drain_count(), None);
        add(WaitReason::BringHome, self.goals.len(), self.goals.inos().first().copied());
        waiting
    }
}
