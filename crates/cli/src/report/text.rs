//! What stands in a page: foreign names made harmless, numbers as people read them.

use std::fmt::Write as _;

/// Text for HTML and SVG, also inside of attributes. Names of files come from traces, which anybody may have made: characters that are not
/// to be seen, or that turn the direction of writing, are written out.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ if is_hidden(letter) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(letter));
            }
            _ => safe.push(letter),
        }
    }
    safe
}

fn is_hidden(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The end of a text, with a sign that something is missing: of a path the end says most.
pub(crate) fn shorten(text: &str, letters_max: usize) -> String {
    let letters = text.chars().count();
    if letters <= letters_max {
        return text.to_owned();
    }
    let skipped = letters - letters_max.saturating_sub(1);
    std::iter::once('…').chain(text.chars().skip(skipped)).collect()
}

/// A number with three digits that count, without zeros at the end.
pub(crate) fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "–".into() };
    }
    let power = value.abs().log10().floor() as i32;
    if !(-6..15).contains(&power) {
        return format!("{value:.2e}");
    }
    let decimals = (2 - power).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// What a number counts. It decides how it is written, and where an axis has its ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Bytes, in powers of 1024.
    Bytes,
    /// Bytes a second.
    BytesPerS,
    /// Seconds.
    Seconds,
    /// A share of one, written in percent.
    Share,
    /// How many of something.
    Count,
    /// Any other number, as it is.
    Number,
}

impl Unit {
    /// The value with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "–".into(),
            Unit::Bytes => bytes(value, ""),
            Unit::BytesPerS => bytes(value, "/s"),
            Unit::Seconds => seconds(value),
            Unit::Share => format!("{} %", three_digits(value * 100.0)),
            Unit::Count => count(value),
            Unit::Number => three_digits(value),
        }
    }
}

fn bytes(value: f64, per: &str) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let size = value.abs();
    let mut power = if size < 1024.0 { 0 } else { (size.log2() / 10.0) as usize }.min(UNITS.len() - 1);
    // 1023.9 KiB would be written as 1024 KiB.
    if power + 1 < UNITS.len() && size / 1024f64.powi(power as i32) >= 1023.5 {
        power += 1;
    }
    let number = value / 1024f64.powi(power as i32);
    let number = if number.abs() >= 999.5 { format!("{number:.0}") } else { three_digits(number) };
    format!("{number} {}{per}", UNITS[power])
}

fn seconds(value: f64) -> String {
    let size = value.abs();
    let (number, unit) = match size {
        0.0 => return "0 s".into(),
        _ if size < 1e-6 => (value * 1e9, "ns"),
        _ if size < 1e-3 => (value * 1e6, "µs"),
        _ if size < 1.0 => (value * 1e3, "ms"),
        _ if size < 120.0 => (value, "s"),
        _ if size < 7200.0 => (value / 60.0, "min"),
        _ => (value / 3600.0, "h"),
    };
    format!("{} {unit}", three_digits(number))
}

fn count(value: f64) -> String {
    let size = value.abs();
    if size < 999_999.5 && value.fract() == 0.0 {
        let digits = format!("{size:.0}");
        let mut text = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    match size {
        _ if size >= 1e9 => format!("{} G", three_digits(value / 1e9)),
        _ if size >= 1e6 => format!("{} M", three_digits(value / 1e6)),
        _ if size >= 1e4 => format!("{} k", three_digits(value / 1e3)),
        _ => three_digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_stay_text() {
        assert_eq!(
            escape("<script>alert('x')</script>&\"\n\u{202e}é"),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;\\u{a}\\u{202e}é"
        );
    }

    #[test]
    fn long_paths_keep_their_end() {
        assert_eq!(shorten("/a/b/c.txt", 6), "…c.txt");
        assert_eq!(shorten("éé", 2), "éé");
    }

    #[test]
    fn numbers_are_short() {
        for (unit, value, text) in [
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 1536.0, "1.5 KiB"),
            (Unit::Bytes, 1_048_575.0, "1 MiB"),
            (Unit::Bytes, 1_048_064.0, "1 MiB"),
            (Unit::Bytes, 1_040_000.0, "1016 KiB"),
            (Unit::BytesPerS, 134_217_728.0, "128 MiB/s"),
            (Unit::Seconds, 0.0025, "2.5 ms"),
            (Unit::Seconds, 90.0, "90 s"),
            (Unit::Seconds, 600.0, "10 min"),
            (Unit::Share, 0.912_34, "91.2 %"),
            (Unit::Share, 1.0, "100 %"),
            (Unit::Count, 12_345.0, "12,345"),
            (Unit::Count, 2_500_000.0, "2.5 M"),
            (Unit::Count, 0.5, "0.5"),
            (Unit::Number, 0.000_123_4, "0.000123"),
            (Unit::Number, f64::NAN, "–"),
            (Unit::Number, 12_345.6, "12346"),
        ] {
            assert_eq!(unit.show(value), text, "{unit:?} {value}");
        }
    }
}
