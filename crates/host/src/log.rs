//! Messages for whoever runs the program, on standard error.

/// Says that something went wrong which no caller can be told otherwise. `message` says what, to which object, and what to do.
pub fn problem(message: &str) {
    // One write, so that lines of several threads do not mix; nothing is left to do when standard error is closed.
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("forebay: {message}\n").as_bytes());
}
