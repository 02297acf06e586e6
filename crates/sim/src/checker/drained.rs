//! Nothing is called drained before its bytes at home were compared, and bytes and names are durable there.

use crate::home::Home;

/// A drain ended without failures, and nothing was changed since it was asked for. Says what it forgot.
pub fn check(home: &Home) -> Result<(), String> {
    let forgotten = home.not_drained();
    if forgotten.is_empty() { Ok(()) } else { Err(format!("a drain without failures forgot: {}", forgotten.join("; "))) }
}
