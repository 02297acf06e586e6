//! What the text formats share: lines with their numbers, fields, and times that keep every digit.

use std::io::BufRead;

use crate::error::Error;
use crate::format::Format;

/// The longest line, bytes: a path of 4 KiB as strace escapes it, several times.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Nanoseconds of a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// The lines of a text, without their ends.
#[derive(Debug)]
pub(crate) struct Lines<R: BufRead> {
    input: R,
    format: Format,
    line: Vec<u8>,
    /// The number of the last line given; the first is 1.
    pub(crate) number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, format: Format) -> Lines<R> {
        Lines { input, format, line: Vec::new(), number: 0 }
    }

    /// Reads the next line into `line()`; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        self.line.clear();
        let read = std::io::Read::take(&mut self.input, LINE_BYTES_MAX).read_until(b'\n', &mut self.line).map_err(Error::Read)?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if read as u64 == LINE_BYTES_MAX {
            return Err(self.wrong(format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        Ok(true)
    }

    /// The line that was read last.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// An error at the line that was read last.
    pub(crate) fn wrong(&self, problem: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::at_line(self.format, self.number, problem)
    }
}

/// The parts of a line between blanks and tabs.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty())
}

/// An unsigned decimal number.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 20 {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    field.iter().try_fold(0u64, |value, byte| value.checked_mul(10)?.checked_add(digit(byte)?))
}

/// Seconds with up to any number of decimals as nanoseconds; what is below a nanosecond is cut off. `1e-05` is understood too.
pub(crate) fn seconds(field: &[u8]) -> Option<u64> {
    if let Some(at) = field.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        return scientific(&field[..at], &field[at + 1..]);
    }
    let (whole, decimals) = match field.iter().position(|byte| *byte == b'.') {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &b""[..]),
    };
    if whole.is_empty() && decimals.is_empty() || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let kept = &decimals[..decimals.len().min(9)];
    let fraction = kept.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')) * 10u64.pow(9 - kept.len() as u32);
    let whole = if whole.is_empty() { 0 } else { number(whole)? };
    whole.checked_mul(SECOND_NS)?.checked_add(fraction)
}

/// A time in seconds, with any number of decimals, as nanoseconds.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<u64> {
    seconds(text.as_bytes())
}

/// `mantissa` e `exponent` seconds as nanoseconds, by moving the point.
fn scientific(mantissa: &[u8], exponent: &[u8]) -> Option<u64> {
    let exponent: i32 = std::str::from_utf8(exponent).ok()?.parse().ok().filter(|exponent| (-400..=30).contains(exponent))?;
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let digits: Vec<u8> = mantissa.iter().copied().filter(|byte| *byte != b'.').collect();
    if digits.is_empty() || digits.len() > 60 || !digits.iter().all(u8::is_ascii_digit) || digits.len() + 1 < mantissa.len() {
        return None;
    }
    // The point of nanoseconds stands nine places to the right.
    let place = point as i32 + exponent + 9;
    let kept: Vec<u8> = (0..place.max(0)).map(|at| digits.get(at as usize).copied().unwrap_or(b'0')).collect();
    let first = kept.iter().position(|digit| *digit != b'0').unwrap_or(kept.len());
    if kept[first..].is_empty() { Some(0) } else { number(&kept[first..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_digits() {
        assert_eq!(seconds(b"1478024308.996711"), Some(1_478_024_308_996_711_000));
        assert_eq!(seconds(b"0.000000001"), Some(1));
        assert_eq!((seconds(b"5"), seconds(b".5"), seconds(b"5.")), (Some(5 * SECOND_NS), Some(SECOND_NS / 2), Some(5 * SECOND_NS)));
        assert_eq!((seconds(b"1e-05"), seconds(b"1.25E2"), seconds(b"9.5e-10")), (Some(10_000), Some(125 * SECOND_NS), Some(0)));
        for wrong in [&b""[..], b".", b"-1", b"1.2.3", b"1e", b"x", b"99999999999999999999", b"1e25", b"1.x"] {
            assert_eq!(seconds(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn lines_have_numbers_and_a_limit() {
        let mut lines = Lines::new(&b"a b\r\n\nc"[..], Format::Muse);
        let mut seen = Vec::new();
        while lines.advance().unwrap() {
            seen.push((lines.number, lines.line().to_vec()));
        }
        assert_eq!(seen, [(1, b"a b".to_vec()), (2, Vec::new()), (3, b"c".to_vec())]);
        let long = vec![b'x'; LINE_BYTES_MAX as usize + 5];
        assert!(Lines::new(&long[..], Format::Muse).advance().is_err());
    }
}
