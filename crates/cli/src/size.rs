//! Sizes as people write them: `64MiB`, `1G`, `512k`, `1.5GiB`, `10MB`.
//!
//! A letter alone means a power of 1024, as in `dd` and `lvcreate`; with `B` (`10MB`) it means a power of 1000, with `iB` a power of 1024.

use std::fmt;

use thiserror::Error;

/// Why a text is not a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum SizeError {
    #[error("it is empty; write a number and a unit, as in 64MiB")]
    Empty,
    #[error("it does not begin with a number; write a number and a unit, as in 64MiB")]
    NoNumber,
    #[error("its unit is unknown; use B, KiB, MiB, GiB, TiB (or K, M, G, T), or KB, MB, GB, TB for powers of 1000")]
    UnknownUnit,
    #[error("it is no whole number of bytes")]
    NotWhole,
    #[error("it is larger than the 16 EiB that a number of bytes can say")]
    Overflow,
}

/// Bytes of one `unit`, matched without regard to case.
fn unit_bytes(unit: &str) -> Result<u64, SizeError> {
    let lower = unit.to_ascii_lowercase();
    let (letter, base) = match lower.as_str() {
        "" | "b" => return Ok(1),
        two if two.len() == 1 => (two, 1024),
        with => match (with.strip_suffix("ib"), with.strip_suffix('b')) {
            (Some(letter), _) => (letter, 1024),
            (None, Some(letter)) => (letter, 1000),
            (None, None) => return Err(SizeError::UnknownUnit),
        },
    };
    let power = match letter {
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(SizeError::UnknownUnit),
    };
    Ok(u64::pow(base, power))
}

/// The number of bytes that `text` says.
pub(crate) fn parse(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let number_len = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = text.split_at(number_len);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(SizeError::NoNumber);
    }
    let unit = u128::from(unit_bytes(unit.trim())?);
    // 128 bits hold any 64-bit number times any unit; digits beyond that are an overflow whatever the unit.
    let whole: u128 = u128::from(whole.parse::<u64>().map_err(|_| SizeError::Overflow)?);
    let mut bytes = whole * unit;
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        if fraction.len() > 15 {
            return Err(SizeError::NotWhole);
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let part = fraction.parse::<u128>().map_err(|_| SizeError::NoNumber)? * unit;
        if part % scale != 0 {
            return Err(SizeError::NotWhole);
        }
        bytes += part / scale;
    }
    u64::try_from(bytes).map_err(|_| SizeError::Overflow)
}

/// A number of bytes, written for a person: at most one unit, three digits or more of it kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let power = (self.0.ilog2() / 10).min(6);
        let unit = UNITS[power as usize - 1];
        let one = 1u64 << (10 * power);
        if self.0.is_multiple_of(one) {
            return write!(f, "{} {unit}", self.0 / one);
        }
        let value = self.0 as f64 / one as f64;
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// A number of bytes in the form that [`parse`] reads back without loss.
pub(crate) fn exact(bytes: u64) -> String {
    for (power, unit) in [(4u32, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")] {
        let one = 1u64 << (10 * power);
        if bytes >= one && bytes.is_multiple_of(one) {
            return format!("{}{unit}", bytes / one);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("17B", 17),
            ("512k", 512 << 10),
            ("512K", 512 << 10),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1G", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("0.5m", 1 << 19),
            ("10MB", 10_000_000),
            ("1.25KB", 1250),
            ("2T", 2 << 40),
            ("1P", 1 << 50),
            ("1.500G", 3 << 29),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_size() {
        for (text, error) in [
            ("", SizeError::Empty),
            ("  ", SizeError::Empty),
            ("-1", SizeError::NoNumber),
            ("GiB", SizeError::NoNumber),
            (".5G", SizeError::NoNumber),
            ("1.G", SizeError::NoNumber),
            ("1.2.3G", SizeError::NoNumber),
            ("1Q", SizeError::UnknownUnit),
            ("1iB", SizeError::UnknownUnit),
            ("1 KiBs", SizeError::UnknownUnit),
            ("1e9", SizeError::UnknownUnit),
            ("0.3K", SizeError::NotWhole),
            ("1.5", SizeError::NotWhole),
            ("18446744073709551616", SizeError::Overflow),
            ("16384P", SizeError::Overflow),
            ("17179869184G", SizeError::Overflow),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn what_is_written_exactly_is_read_back() {
        let mut bytes = 1u64;
        for step in 1..4000u64 {
            bytes = bytes.wrapping_mul(6364136223846793005).wrapping_add(step) >> (step % 40);
            assert_eq!(parse(&exact(bytes)), Ok(bytes));
        }
        assert_eq!(exact(64 << 20), "64MiB");
        assert_eq!(exact(0), "0B");
    }

    #[test]
    fn is_shown_in_one_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (5 << 20, "5 MiB"),
            ((1 << 30) + (1 << 29), "1.50 GiB"),
            (123 * 1024 + 1, "123 KiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
