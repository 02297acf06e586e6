//! One line of strace's output, taken apart.

use crate::text::{number, seconds};

/// What a line tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Event<'a> {
    /// A whole call.
    Call { name: &'a [u8], arguments: &'a [u8], result: &'a [u8] },
    /// The begin of a call, `<unfinished ...>`.
    Unfinished { name: &'a [u8], arguments: &'a [u8] },
    /// The rest of one.
    Resumed { name: &'a [u8], arguments: &'a [u8], result: &'a [u8] },
    /// The process ended.
    Exited,
    /// A signal.
    Signal,
}

/// A line: who, when, what, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line<'a> {
    pub(super) pid: u64,
    pub(super) start_ns: u64,
    pub(super) event: Event<'a>,
    pub(super) duration_ns: Option<u64>,
}

const UNFINISHED: &[u8] = b"<unfinished ...>";
const RESUMED: &[u8] = b" resumed>";

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The first word of a text, and what is behind the blanks that follow.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

/// Takes a line apart; none if it is no line of `strace -ttt`.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut rest = line.trim_ascii();
    let mut pid = 0;
    if let Some(inner) = rest.strip_prefix(b"[pid ") {
        let end = find(inner, b"]")?;
        pid = number(inner[..end].trim_ascii())?;
        rest = inner[end + 1..].trim_ascii_start();
    } else if let Some((first, behind)) = word(rest)
        && let Some(first) = number(first)
    {
        pid = first;
        rest = behind;
    }
    let (time, rest) = word(rest)?;
    let start_ns = if time.contains(&b'.') { seconds(time)? } else { return None };
    let (body, duration_ns) = duration(rest.trim_ascii_end());
    let event = event(body)?;
    Some(Line { pid, start_ns, event, duration_ns })
}

/// Cuts `<0.000123>` off the end.
fn duration(text: &[u8]) -> (&[u8], Option<u64>) {
    let cut = || {
        let inner = text.strip_suffix(b">")?;
        let begin = inner.iter().rposition(|byte| *byte == b'<')?;
        let digits = &inner[begin + 1..];
        let plain = digits.contains(&b'.') && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        Some((inner[..begin].trim_ascii_end(), plain.then(|| seconds(digits)).flatten()?))
    };
    cut().map_or((text, None), |(body, duration)| (body, Some(duration)))
}

fn event(body: &[u8]) -> Option<Event<'_>> {
    if body.starts_with(b"+++ ") {
        return Some(Event::Exited);
    }
    if body.starts_with(b"--- ") {
        return Some(Event::Signal);
    }
    if let Some(rest) = body.strip_prefix(b"<... ") {
        let end = find(rest, RESUMED)?;
        let (arguments, result) = arguments_and_result(&rest[end + RESUMED.len()..])?;
        return Some(Event::Resumed { name: &rest[..end], arguments, result });
    }
    let open = body.iter().position(|byte| *byte == b'(')?;
    let name = &body[..open];
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return None;
    }
    let rest = &body[open + 1..];
    if let Some(arguments) = rest.strip_suffix(UNFINISHED) {
        return Some(Event::Unfinished { name, arguments: arguments.trim_ascii_end() });
    }
    let (arguments, result) = arguments_and_result(rest)?;
    Some(Event::Call { name, arguments, result })
}

/// `a, b) = result`: the last `) = ` outside of strings counts, which strace pads with blanks.
fn arguments_and_result(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut quoted = false;
    let mut escaped = false;
    let mut close = None;
    for (place, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b')' if !quoted && text[place + 1..].trim_ascii_start().starts_with(b"= ") => close = Some(place),
            _ => {}
        }
    }
    let close = close?;
    let result = text[close + 1..].trim_ascii_start().strip_prefix(b"= ")?;
    Some((&text[..close], result.trim_ascii()))
}

/// The arguments of a call, divided at the commas that are not within strings, brackets or the names of descriptors.
pub(super) fn split(arguments: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (mut quoted, mut escaped, mut named, mut depth, mut begin) = (false, false, false, 0u32, 0);
    for (place, byte) in arguments.iter().enumerate() {
        let before = if place > 0 { arguments[place - 1] } else { 0 };
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if !named => quoted = !quoted,
            _ if quoted => {}
            // The name of a descriptor; a `>` within it is escaped, but for the arrow of a connection.
            b'<' if before.is_ascii_alphanumeric() => named = true,
            b'>' if named => named = before == b'-',
            _ if named => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(arguments[begin..place].trim_ascii());
                begin = place + 1;
            }
            _ => {}
        }
    }
    let last = arguments[begin..].trim_ascii();
    if !last.is_empty() || !parts.is_empty() {
        parts.push(last);
    }
    parts
}

/// A descriptor as `-y` shows it: `3</path>`; the path is empty if it is not shown.
pub(super) fn descriptor(text: &[u8]) -> Option<(i64, Vec<u8>)> {
    let end = text.iter().position(|byte| *byte == b'<').unwrap_or(text.len());
    let fd = match &text[..end] {
        b"AT_FDCWD" => -100,
        digits => i64::try_from(number(digits)?).ok()?,
    };
    let inner = text[end..].strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).unwrap_or(b"");
    let inner = inner.strip_suffix(b" (deleted)").or_else(|| inner.strip_suffix(b">(deleted)")).unwrap_or(inner);
    Some((fd, unescape(inner)))
}

/// A string as strace prints it; none if it is something else. What was cut off (`"..."...`) stays cut off.
pub(super) fn string(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?;
    let inner = inner.strip_suffix(b"...").unwrap_or(inner);
    inner.strip_suffix(b"\"").map(unescape)
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let Some((escape, behind)) = behind.split_first().filter(|_| *first == b'\\') else {
            bytes.push(*first);
            continue;
        };
        rest = behind;
        match escape {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'v' => bytes.push(0x0b),
            b'f' => bytes.push(0x0c),
            b'x' => {
                let (digits, behind) = rest.split_at(rest.len().min(2));
                bytes.extend(std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok()));
                rest = behind;
            }
            b'0'..=b'7' => {
                let length = rest.iter().take(2).take_while(|digit| (b'0'..=b'7').contains(*digit)).count();
                let digits = rest[..length].iter().fold(u32::from(escape - b'0'), |value, digit| value * 8 + u32::from(digit - b'0'));
                bytes.push(digits as u8);
                rest = &rest[length..];
            }
            other => bytes.push(*other),
        }
    }
    bytes
}

/// A number as strace prints it: decimal, negative, octal or hexadecimal.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    if let Some(digits) = text.strip_prefix(b"-") {
        return i64::try_from(number(digits)?).ok().map(|value| -value);
    }
    let radix = |digits: &[u8], radix| i64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok();
    match text {
        [b'0', b'x', digits @ ..] => radix(digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => radix(digits, 8),
        digits => i64::try_from(number(digits)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line = parse(b"4711 1700000000.000123 read(3</a, (b>, \"x) = 1\\\"\"..., 4096) = 100 <0.000010>").unwrap();
        assert_eq!((line.pid, line.start_ns, line.duration_ns), (4711, 1_700_000_000_000_123_000, Some(10_000)));
        let Event::Call { name, arguments, result } = line.event else { panic!("{:?}", line.event) };
        assert_eq!((name, result), (&b"read"[..], &b"100"[..]));
        assert_eq!(split(arguments), [&b"3</a, (b>"[..], b"\"x) = 1\\\"\"...", b"4096"]);
        let line = parse(b"[pid  7] 1.5 close(3) = ?").unwrap();
        assert_eq!((line.pid, line.duration_ns), (7, None));
        assert!(matches!(parse(b"1.5 exit_group(0 <unfinished ...>").unwrap().event, Event::Unfinished { name: b"exit_group", .. }));
        assert!(matches!(parse(b"9 1.5 <... read resumed>\"\", 5) = 0 <0.1>").unwrap().event, Event::Resumed { name: b"read", .. }));
        assert_eq!(parse(b"9 1.5 +++ exited with 0 +++").unwrap().event, Event::Exited);
        assert_eq!(parse(b"9 1.5 --- SIGCHLD {si_signo=SIGCHLD} ---").unwrap().event, Event::Signal);
        for wrong in [&b"no line"[..], b"1 2 3", b"1.5 (x) = 1", b"1.5 f(x", b""] {
            assert_eq!(parse(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn values_are_understood() {
        assert_eq!(descriptor(b"3</tmp/a\\12b\\76>"), Some((3, b"/tmp/a\nb>".to_vec())));
        assert_eq!(descriptor(b"AT_FDCWD</home>"), Some((-100, b"/home".to_vec())));
        assert_eq!(descriptor(b"4"), Some((4, Vec::new())));
        assert_eq!(string(b"\"a\\\"\\x41\"..."), Some(b"a\"A".to_vec()));
        assert_eq!(
            (integer(b"-1"), integer(b"0x10"), integer(b"010"), integer(b"7"), integer(b"x")),
            (Some(-1), Some(16), Some(8), Some(7), None)
        );
    }
}
