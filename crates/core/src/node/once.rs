//! Requests that happen once, also if they are asked again because the process that had done them was killed before it answered.
//!
//! The last record of a change says whose request it was and what the answer is, so that both are there or neither. A client asks the
//! requests of a lane one after the other; so of each lane the last answer is enough. Who takes over cannot know the lanes of who comes
//! after: it keeps the answers that it finds apart, for those that are asked again.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use super::Node;
use crate::effect::Once;
use crate::errno::Errno;
use crate::id::{CallId, Ino};
use crate::message::{Reply, Request};
use crate::record::Record;

/// Answers of before that are kept: more than clients have lanes, several times.
const PAST_MAX: usize = 1024;
/// The lane that answers of before have in a snapshot.
const PAST: u32 = u32::MAX;

/// What was asked once and what was answered.
#[derive(Debug, Default)]
pub(crate) struct OnceBooks {
    /// Calls under way that are to happen once.
    open: BTreeMap<CallId, Once>,
    /// The last change of each lane.
    lanes: BTreeMap<u32, (u64, Reply)>,
    /// The last changes of lanes of before, the newest last.
    past: VecDeque<(u64, Reply)>,
}

impl OnceBooks {
    /// For recovery: what a record says.
    pub(crate) fn replay(&mut self, lane: u32, request: u64, reply: &Reply) {
        if lane == PAST {
            self.past.push_back((request, reply.clone()));
        } else {
            self.lanes.insert(lane, (request, reply.clone()));
        }
    }

    /// For recovery: the lanes begin anew.
    pub(crate) fn take_over(&mut self) {
        self.past.extend(core::mem::take(&mut self.lanes).into_values());
        self.past.drain(..self.past.len().saturating_sub(PAST_MAX));
    }

    /// For recovery: nobody will ask again.
    pub(crate) fn clear(&mut self) {
        *self = OnceBooks::default();
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let record = |lane, (request, reply): &(u64, Reply)| Record::Answered {
            lane,
            request: *request,
            reply: Box::new(reply.clone()),
            record: None,
        };
        let past = self.past.iter().map(move |answer| record(PAST, answer));
        past.chain(self.lanes.iter().map(move |(lane, answer)| record(*lane, answer)))
    }
}

impl Node {
    /// A request that is to happen once arrives. True if it has happened before, and was answered now.
    pub(super) fn begin_once(&mut self, call: CallId, request: &Request, once: Once) -> bool {
        if !super::changes_state(request) || matches!(request, Request::Sync { .. }) {
            return false;
        }
        let done = if once.again { self.once.past.iter().rev().find(|(request, _)| *request == once.request) } else { None };
        let Some((_, reply)) = done else {
            self.once.open.insert(call, once);
            return false;
        };
        let reply = reply.clone();
        self.answer_again(call, reply);
        true
    }

    fn answer_again(&mut self, call: CallId, reply: Reply) {
        // What a client gets with the answer, it did not get before.
        let (got, opens) = match &reply {
            Reply::Entry { ino, .. } => (Some(*ino), 0),
            Reply::Created { ino, .. } => (Some(*ino), 1),
            _ => (None, 0),
        };
        let Some(ino) = got else { return self.reply(call, reply) };
        match self.names.inode_mut(ino) {
            Ok(inode) => {
                inode.lookups += 1;
                inode.opens += opens;
                self.note_and_reply(ino, call, reply);
            }
            // Its last name was taken away before anybody could know it.
            Err(_) => self.fail(call, Errno::ESTALE),
        }
    }

    /// The record of a call's last change, with the answer if it is to happen once.
    pub(super) fn answered_by(&mut self, record: Record, call: CallId, reply: &Reply) -> Record {
        let Some(once) = self.once.open.remove(&call).filter(|_| self.config.takeover) else { return record };
        self.once.lanes.insert(once.lane, (once.request, reply.clone()));
        Record::Answered { lane: once.lane, request: once.request, reply: Box::new(reply.clone()), record: Some(Box::new(record)) }
    }

    /// A call ends.
    pub(super) fn end_once(&mut self, call: CallId) {
        self.once.open.remove(&call);
    }

    /// Answers with a reference on an inode, when the journal knows its number: who takes over must know what the client speaks of.
    pub(super) fn note_and_reply(&mut self, ino: Ino, call: CallId, reply: Reply) {
        match self.note(ino) {
            Some(record) => self.record_note(record, call, reply),
            None => self.reply(call, reply),
        }
    }

    /// Journals the numbers of directories above an inode as far as that is not done, and gives the record of its own.
    pub(super) fn note(&mut self, ino: Ino) -> Option<Record> {
        if !self.config.takeover || self.journal.failed.is_some() {
            return None;
        }
        let mut chain = alloc::vec::Vec::new();
        let mut wanted = alloc::vec::Vec::from([ino]);
        while let Some(ino) = wanted.pop() {
            let Some(inode) = self.names.inodes.get_mut(&ino).filter(|i| i.attr_loaded && !i.journaled && !i.noted) else { continue };
            inode.noted = true;
            chain.push(ino);
            wanted.extend(inode.home_names.iter().map(|(parent, _)| *parent));
        }
        let mut last = None;
        for ino in chain.into_iter().rev() {
            if let Some(record) = self.noted_record(ino)
                && let Some(before) = last.replace(record)
            {
                self.record(before);
            }
        }
        last
    }

    pub(super) fn noted_record(&self, ino: Ino) -> Option<Record> {
        match self.names.inode_record(ino, self.home_valid_of(ino))? {
            Record::Inode(inode) => Some(Record::Noted(inode)),
            _ => None,
        }
    }
}
