//! The space of home, which a home that does not answer must not keep from who asks: then it is what it last was.

use alloc::vec::Vec;

use super::{Node, Pending, errno_of};
use crate::effect::{Effect, Outcome};
use crate::errno::Errno;
use crate::id::CallId;
use crate::message::{Reply, StatFs};
use crate::time::Time;

/// How long home's answer is waited for when an older one is known, ns.
const PATIENCE_NS: u64 = 500_000_000;

/// What is known of home's space.
#[derive(Debug, Default)]
pub(super) struct SpaceBooks {
    /// What home said last.
    known: Option<StatFs>,
    /// Since when home owes an answer.
    asked_at: Option<Time>,
    waiters: Vec<CallId>,
}

impl SpaceBooks {
    /// When the requests that wait are given what is known.
    pub(super) fn due_at(&self) -> Option<Time> {
        let asked_at = self.asked_at.filter(|_| self.known.is_some() && !self.waiters.is_empty())?;
        Some(asked_at + PATIENCE_NS)
    }

    /// Requests that wait for home.
    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }
}

impl Node {
    pub(super) fn stat_fs(&mut self, call: CallId) {
        self.space.waiters.push(call);
        if self.space.asked_at.is_none() {
            self.space.asked_at = Some(self.now);
            let token = self.expect(Pending::StatFs);
            self.emit(Effect::StatFsHome { token });
        }
        self.answer_stat_fs_if_due();
    }

    pub(super) fn stat_fs_done(&mut self, result: Result<Outcome, Errno>) {
        self.space.asked_at = None;
        match result {
            Ok(Outcome::StatFs(stat)) => {
                self.space.known = Some(stat);
                self.answer_stat_fs();
            }
            other => {
                let errno = errno_of(other);
                for call in core::mem::take(&mut self.space.waiters) {
                    self.fail(call, errno);
                }
            }
        }
    }

    /// Home has had its time.
    pub(super) fn answer_stat_fs_if_due(&mut self) {
        if self.space.due_at().is_some_and(|at| at <= self.now) {
            self.answer_stat_fs();
        }
    }

    /// What home has, less what the buffer will bring there.
    fn answer_stat_fs(&mut self) {
        let Some(stat) = self.space.known else { return };
        let free_bytes = stat.free_bytes.saturating_sub(self.io.dirty_bytes);
        let available_bytes = stat.available_bytes.saturating_sub(self.io.dirty_bytes);
        for call in core::mem::take(&mut self.space.waiters) {
            self.reply(call, Reply::StatFs { stat: StatFs { free_bytes, available_bytes, ..stat } });
        }
    }
}
