//! What was acknowledged survives the death of the process.

use forebay_core::time::Time;

use super::Property;
use crate::oracle::Oracle;

/// The process was killed: what is read back from now on must hold everything that was acknowledged. Gives the promise that a
/// wrong answer breaks.
pub fn after_kill(oracle: &mut Oracle, now: Time) -> Property {
    oracle.kill(now);
    Property::Acknowledged
}
