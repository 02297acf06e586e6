//! An old flush never overwrites newer data: after a drain, home holds exactly what the application wrote.

use crate::home::Home;
use crate::oracle::Oracle;

/// Says what home has that the application did not write, or lacks that it did.
pub fn check(oracle: &Oracle, home: &Home) -> Result<(), String> {
    oracle.check_home(home).map_err(|what| format!("after a drain {what}\nhome:\n{}\nexpected:\n{}", home.describe(), expected(oracle)))
}

fn expected(oracle: &Oracle) -> String {
    oracle.states().next().map(|state| state.describe()).unwrap_or_default()
}
