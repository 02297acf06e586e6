//! What was synced survives a power loss, and what survives is a prefix of history.

use forebay_core::time::Time;

use super::Property;
use crate::oracle::Oracle;

/// The power failed: what is read back from now on must be the state of one moment since the last sync. Gives the promise that a
/// wrong answer breaks.
pub fn after_power_loss(oracle: &mut Oracle, now: Time) -> Property {
    oracle.lose_power(now);
    Property::Synced
}
