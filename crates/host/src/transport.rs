//! The way of a request from a client to a server.

use forebay_core::effect::Once;
use forebay_core::message::{Reply, Request};

/// The bytes that travel beside a request.
#[derive(Debug, Default)]
pub enum CallPayload<'a> {
    /// None: the request is neither a read nor a write.
    #[default]
    None,
    /// The bytes of a `Request::Write`; as many as its `len`.
    Write(&'a [u8]),
    /// The space for the answer to a `Request::Read`: made at least `len` bytes long, never shortened. Of a `Reply::Read { len }`, the
    /// first `len` bytes are the answer; what stands behind them has no meaning.
    Read(&'a mut Vec<u8>),
}

/// Carries requests to a server.
///
/// Within one process it is a function call on the caller's thread; the call returns when the reply is there.
pub trait Transport: Send + Sync {
    /// Asks and waits for the answer. A server that is gone answers with an error.
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply;

    /// As [`Transport::call`], and calls `waits` once before this thread begins to wait for others, if it has to. Whoever has few threads
    /// can put another one to work then. With `once` a change that has been made and was not answered is not made again.
    fn call_telling(&self, request: Request, payload: CallPayload<'_>, _once: Option<Once>, waits: &(dyn Fn() + Sync)) -> Reply {
        // Not known here whether it will: it may.
        waits();
        self.call(request, payload)
    }
}

impl<T: Transport + ?Sized> Transport for std::sync::Arc<T> {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        (**self).call(request, payload)
    }

    fn call_telling(&self, request: Request, payload: CallPayload<'_>, once: Option<Once>, waits: &(dyn Fn() + Sync)) -> Reply {
        (**self).call_telling(request, payload, once, waits)
    }
}
