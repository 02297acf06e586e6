//! Policies: a question, a view, an answer. A policy sees no machine and emits no effect; `on_*` methods give it feedback.
//!
//! [`detector`] says what the traffic is like, [`admission`] which device a request goes to, [`flush`] when the SSD is emptied,
//! [`replacement`] which chunk leaves a full buffer.

pub mod admission;
mod arrival;
pub mod detector;
pub mod flush;
pub mod replacement;
mod share;

pub use arrival::{Arrival, Operation, RequestClass, Target};
pub use share::Share;
