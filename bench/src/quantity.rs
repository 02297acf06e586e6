//! Sizes and durations as people write them: `64KiB`, `2ms`.

use std::time::Duration;

/// Bytes: a number with an optional `K`, `M`, `G`, `KiB`, `MiB`, `GiB` (all powers of 1024).
///
/// # Errors
/// A message that names the text when it is no size.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        unit => {
            return Err(format!("`{text}`: `{unit}` is no unit of bytes (KiB, MiB, GiB)"));
        }
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no number of bytes, such as 64KiB"))?;
    number.checked_shl(shift).filter(|bytes| bytes >> shift == number).ok_or_else(|| format!("`{text}` is too large"))
}

/// A duration: a number with `us`, `ms` or `s`.
///
/// # Errors
/// A message that names the text when it is no duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no duration, such as 2ms"))?;
    match &text[digits.len()..] {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        unit => Err(format!("`{text}`: `{unit}` is no unit of time (us, ms, s)")),
    }
}

/// Bytes in the largest unit that divides them.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >> shift > 0 && (bytes >> shift) << shift == bytes {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_and_durations_and_names_what_it_cannot_read() {
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
        assert_eq!(parse_bytes("3M"), Ok(3 << 20));
        assert_eq!(parse_bytes("17"), Ok(17));
        assert_eq!(parse_duration("2ms"), Ok(Duration::from_millis(2)));
        for bad in ["", "x", "4Kib", "99999999999999GiB", "-1"] {
            assert!(parse_bytes(bad).unwrap_err().contains(bad));
        }
        for bad in ["5", "5 ms", "ms"] {
            assert!(parse_duration(bad).unwrap_err().contains(bad));
        }
        assert_eq!(show_bytes(64 << 10), "64 KiB");
        assert_eq!(show_bytes(1025), "1025 B");
    }
}
