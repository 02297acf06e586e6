//! What clients ask for, and what they are told.

use super::*;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(super) struct Call {
    client: u64,
    start: u64,
    kind: Kind,
    pub(super) range: FileRange,
    pub(super) stamp: Stamp,
    /// It was asked while the policy was to put nothing on the SSD.
    pub(super) is_for_disk: bool,
    /// What a read was shown of each byte.
    pub(super) shown: Vec<Option<Stamp>>,
}

impl Call {
    /// Whether it asks for a drain.
    pub(super) fn is_drain(&self) -> bool {
        self.kind == Kind::Drain
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Write,
    Read,
    Sync,
    Drain,
    Change,
}

impl World {
    /// A client asks for the next thing, or the run comes to its end.
    pub(super) fn client(&mut self, client: u64) -> Result<(), String> {
        if self.requests_left == 0 {
            return if self.calls.is_empty() && self.final_drain.is_none() { self.finish() } else { Ok(()) };
        }
        self.requests_left -= 1;
        if self.rng.chance(self.scenario.policy_changes_per_mille) {
            self.configure()?;
        }
        let kind = match self.rng.weighted(&[57, 32, 5, 3, 3]) {
            0 => Kind::Write,
            1 => Kind::Read,
            2 => Kind::Sync,
            3 => Kind::Drain,
            _ => Kind::Change,
        };
        if self.rng.chance(100) {
            // A second request beside the first.
            self.after(1_000, Event::Client(client));
        }
        self.ask(client, kind)
    }

    /// The node is to go by any other policy from now on.
    fn configure(&mut self) -> Result<(), String> {
        let config = config(&mut self.rng, self.scenario.request_bytes_max);
        self.config = HybridConfig { ssd_bytes: self.config.ssd_bytes, ..config };
        if self.scenario.canary == Some(Canary::PolicyIsKept) {
            return Ok(());
        }
        self.handle(Input::Configure(Box::new(self.config.clone())))
    }

    fn ask(&mut self, client: u64, kind: Kind) -> Result<(), String> {
        self.last_call += 1;
        let call = CallId(self.last_call);
        let range = self.range();
        let class = *self.rng.pick(&RequestClass::ALL);
        self.stamp += 1;
        let stamp = self.stamp;
        let shown = vec![None; range.len as usize];
        let is_for_disk = self.config.admission == AdmissionConfig::None;
        self.calls.insert(call, Call { client, start: self.now, kind, range, stamp, is_for_disk, shown });
        let access = Access { range, class, siblings: Vec::new(), place: range.file.0 * self.scenario.file_bytes + range.offset };
        let request = match kind {
            Kind::Write => {
                self.oracle.write_begins(self.now, stamp, range.file.0, range.offsets());
                Request::Write(access)
            }
            Kind::Read => Request::Read(access),
            Kind::Sync => Request::Sync,
            Kind::Drain => Request::Drain,
            Kind::Change => {
                self.oracle.write_begins(self.now, stamp, range.file.0, range.offsets());
                // To the end of the file, wherever that is, if this reaches it.
                let len = if range.end() == self.scenario.file_bytes { u64::MAX - range.offset } else { range.len };
                Request::Change(FileRange { len, ..range })
            }
        };
        self.handle(Input::Request { call, request })
    }

    fn range(&mut self) -> FileRange {
        let file = Ino(1 + self.rng.below(self.scenario.files));
        let len = self.rng.range(1, self.scenario.request_bytes_max.min(self.scenario.file_bytes));
        // Half of the requests stand on a grid, so that they continue each other.
        let end = self.scenario.file_bytes - len;
        let offset = if self.rng.chance(500) { self.rng.below(end / len + 1) * len } else { self.rng.below(end + 1) };
        FileRange { file, offset, len }
    }

    /// Nobody asks any more: everything is brought home and looked at.
    fn finish(&mut self) -> Result<(), String> {
        self.final_drain = Some(CallId(self.last_call + 1));
        self.ask(0, Kind::Drain)
    }

    pub(super) fn on_reply(&mut self, id: CallId, result: Result<(), Errno>) -> Result<(), String> {
        let call = self.calls.remove(&id).ok_or(format!("{id:?} was not asked or is answered a second time"))?;
        self.summary.answered += 1;
        let FileRange { file, offset, .. } = call.range;
        match (call.kind, result) {
            (Kind::Write | Kind::Change, result) => {
                self.oracle.write_ends(self.now, call.stamp, result.is_ok(), file.0, call.range.offsets())
            }
            (Kind::Read, Ok(())) => {
                let shown: Option<Vec<Stamp>> = call.shown.iter().copied().collect();
                let shown = shown.ok_or(format!("{id:?}: not every byte was read: {call:?}"))?;
                self.oracle.read_ends(call.start, self.now, file.0, offset, &shown)?;
            }
            (Kind::Sync, Ok(())) => self.oracle.sync_ends(call.start),
            (Kind::Drain, Ok(())) => {
                self.check_drained(call.start)?;
                self.oracle.sync_ends(call.start);
            }
            (_, Err(_)) => {}
        }
        if self.scenario.errors_per_mille == 0 && result.is_err() {
            return Err(format!("{id:?} failed although nothing did: {call:?}"));
        }
        if self.final_drain == Some(id) {
            return self.check_end(result);
        }
        self.after(self.scenario.pause_ns_max, Event::Client(call.client));
        Ok(())
    }

    /// What is home is not older than what was answered before the drain was asked for.
    fn check_drained(&mut self, start: u64) -> Result<(), String> {
        for file in 1..=self.scenario.files {
            for offset in 0..self.scenario.file_bytes {
                let shown = self.disk.read(file, offset, 1)[0];
                self.oracle.check(start, self.now, file, offset, shown).map_err(|fault| format!("after a drain: {fault}"))?;
            }
        }
        Ok(())
    }

    fn check_end(&mut self, result: Result<(), Errno>) -> Result<(), String> {
        self.is_over = true;
        if result.is_err() || !self.calls.is_empty() || !self.node.is_idle() {
            return Err(format!("the last drain ended with {result:?}, open: {:?}", self.calls));
        }
        if let Some(region) = self.node.regions().iter().find(|region| region.state() != RegionState::Empty) {
            return Err(format!("after the last drain {:?} is not empty", region.generation()));
        }
        for file in 1..=self.scenario.files {
            for offset in 0..self.scenario.file_bytes {
                self.disk.durable(file, offset).map_err(|left| format!("byte {offset} of file {file} is not durable: {left:?}"))?;
            }
        }
        Ok(())
    }
}
