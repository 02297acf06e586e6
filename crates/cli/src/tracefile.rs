//! What `forebay analyze` and `forebay sim` share.

use crate::error::Error;

/// A chunk size of the command line.
pub(crate) fn chunk_bytes(size: u64) -> Result<u32, Error> {
    let fits = size.is_power_of_two() && (512..=1 << 30).contains(&size);
    match u32::try_from(size) {
        Ok(bytes) if fits => Ok(bytes),
        _ => Err(Error::usage(format!("--chunk: {size} bytes is no power of two between 512 B and 1 GiB"))),
    }
}
