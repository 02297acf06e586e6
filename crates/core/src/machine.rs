//! The contract between core and host.

use crate::time::Time;

/// A state machine that decides and never does.
///
/// A host hands in what happened (`handle`, `handle_timeout`), and carries out what the machine asks (`poll_effect`).
/// 1. An effect that carries a token is answered once, by an input that carries the token. A machine never blocks.
/// 2. Effects in flight have no order; if B must follow A, B is emitted when A is done. The one exception is the journal,
///    whose records carry consecutive positions and are carried out in that order.
/// 3. Bytes stay with the host; a machine moves names of payloads, extents and checksums.
/// 4. Time, seed and configuration come in; nothing else does. No float decides; maps are ordered; queues are bounded.
/// 5. Same configuration, seed and inputs: same effects.
/// 6. One machine is one shard and one thread at a time: take the waiting inputs, handle them, then poll until `None`.
pub trait Machine {
    /// A request, a peer's message, a finished effect.
    type Input;
    /// What the host must now do.
    type Effect;
    /// Takes one input.
    fn handle(&mut self, now: Time, input: Self::Input);
    /// To be called when the time of [`Machine::poll_timeout`] has come; harmless when called early.
    fn handle_timeout(&mut self, now: Time);
    /// When the machine wants to be woken, if ever.
    fn poll_timeout(&self) -> Option<Time>;
    /// The next thing to do, until `None`.
    fn poll_effect(&mut self) -> Option<Self::Effect>;
}
