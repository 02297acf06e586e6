//! Core and host keep their contract: tokens are used once, payloads and fetches are used while they live, home is asked for what is there.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::effect::{Effect, Payload};
use forebay_core::errno::Errno;
use forebay_core::id::{CallId, Token};

/// Fetches from home, at most: each holds a buffer of the host.
const FETCHES_MAX: usize = 16;

/// What lives, as the contract has it.
#[derive(Debug, Default)]
pub struct Contract {
    tokens: BTreeSet<Token>,
    open_calls: BTreeSet<CallId>,
    fetches: BTreeMap<u64, u32>,
}

impl Contract {
    /// The process has died.
    pub fn crashed(&mut self) {
        *self = Contract::default();
    }

    /// A client's request begins.
    pub fn asked(&mut self, call: CallId) {
        self.open_calls.insert(call);
    }

    /// An effect begins. Says what it breaks.
    pub fn begin(&mut self, token: Option<Token>, effect: &Effect) -> Result<(), String> {
        if let Some(token) = token
            && !self.tokens.insert(token)
        {
            return Err(format!("{token:?} is used again: {effect:?}"));
        }
        match effect {
            Effect::Reply { call, .. } if !self.open_calls.remove(call) => {
                return Err(format!("{call:?} is answered twice or was never asked: {effect:?}"));
            }
            Effect::ReadHome { fetch, len, .. } => {
                if self.fetches.insert(*fetch, *len).is_some() {
                    return Err(format!("a fetch buffer is made twice: {effect:?}"));
                }
                if self.fetches.len() > FETCHES_MAX {
                    return Err(format!("{} fetch buffers are in use, at most {FETCHES_MAX} may be", self.fetches.len()));
                }
            }
            Effect::DropFetch { fetch } if self.fetches.remove(fetch).is_none() => {
                return Err(format!("a fetch buffer is dropped that is not there: {effect:?}"));
            }
            _ => {}
        }
        payloads_of(effect).into_iter().try_for_each(|payload| self.check_payload(payload, effect))
    }

    fn check_payload(&self, payload: Payload, effect: &Effect) -> Result<(), String> {
        let lives = match payload {
            Payload::Call(call) => self.open_calls.contains(&call),
            Payload::Fetch(fetch) => self.fetches.contains_key(&fetch),
        };
        if lives { Ok(()) } else { Err(format!("{payload:?} does not live any more: {effect:?}")) }
    }

    /// Home refused something although nothing was wrong with it. Says so, for errors that the machine should have known.
    pub fn home_refused(&self, effect: &Effect, errno: Errno) -> Result<(), String> {
        Err(format!("home refused with errno {} what the machine should have known not to ask: {effect:?}", errno.0))
    }
}

fn payloads_of(effect: &Effect) -> Vec<Payload> {
    match effect {
        Effect::WriteLog { payload, .. } | Effect::ReadLog { payload, .. } | Effect::ZeroPayload { payload, .. } => vec![*payload],
        Effect::CopyPayload { from, to, .. } => vec![*from, *to],
        _ => Vec::new(),
    }
}

/// The token of an effect.
pub fn token_of(effect: &Effect) -> Option<Token> {
    use Effect::*;
    match effect {
        WriteLog { token, .. }
        | ReadLog { token, .. }
        | CopyLog { token, .. }
        | Spill { token, .. }
        | SyncLog { token }
        | Journal { token, .. }
        | RotateJournal { token, .. }
        | ListHome { token, .. }
        | StatHome { token, .. }
        | ReadLinkHome { token, .. }
        | StatFsHome { token }
        | ReadHome { token, .. }
        | WriteHome { token, .. }
        | CompareHome { token, .. }
        | CompareZerosHome { token, .. }
        | XattrsHome { token, .. }
        | SeekHome { token, .. }
        | SyncHome { token, .. }
        | ChangeHome { token, .. } => Some(*token),
        Reply { .. }
        | ZeroPayload { .. }
        | CopyPayload { .. }
        | DropOldJournals
        | DropFetch { .. }
        | ForgetHome { .. }
        | PruneClients { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::message::Reply;

    #[test]
    fn a_call_is_answered_once_and_its_payload_dies_with_it() {
        let mut contract = Contract::default();
        let reply = Effect::Reply { call: CallId(1), reply: Reply::Done };
        let zero = Effect::ZeroPayload { payload: Payload::Call(CallId(1)), ranges: vec![] };
        assert!(contract.begin(None, &reply).is_err());
        contract.asked(CallId(1));
        assert!(contract.begin(None, &zero).is_ok());
        assert!(contract.begin(None, &reply).is_ok());
        assert!(contract.begin(None, &zero).is_err());
        assert!(contract.begin(None, &reply).is_err());
    }

    #[test]
    fn a_token_is_used_once() {
        let mut contract = Contract::default();
        let sync = Effect::SyncLog { token: Token(4) };
        assert!(contract.begin(Some(Token(4)), &sync).is_ok());
        assert!(contract.begin(Some(Token(4)), &sync).is_err());
    }
}
