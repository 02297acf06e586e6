//! Policies: a question, a view, an answer. A policy sees no machine and emits no effect; `on_*` methods give it feedback.

pub mod replacement;
