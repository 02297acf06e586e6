//! What the readers of line by line formats share.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::BufRead;

use crate::error::Error;
use crate::format::Format;
use crate::record::Record;
use crate::source::{About, Source, Tables};
use crate::text::Lines;

/// What is wrong with a line; the reader adds which one it is.
pub enum Problem {
    Text(Cow<'static, str>),
    Error(Error),
}

impl From<&'static str> for Problem {
    fn from(text: &'static str) -> Problem {
        Problem::Text(text.into())
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::Text(text.into())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Error(error)
    }
}

/// A field that is not what it should be.
pub(super) fn no(what: &str, field: &[u8]) -> Problem {
    Problem::Text(format!("`{}` is no {what}", String::from_utf8_lossy(&field[..field.len().min(80)])).into())
}

/// What was read so far.
#[derive(Debug, Default)]
pub struct State {
    pub(super) tables: Tables,
    /// Records that are to be given, the oldest first.
    pub(super) ready: VecDeque<Record>,
}

/// Understands one format.
pub trait Parser {
    const FORMAT: Format;

    /// Takes a line.
    fn line(&mut self, line: &[u8], state: &mut State) -> Result<(), Problem>;

    /// Gives what was held back until the end.
    fn end(&mut self, _state: &mut State) -> Result<(), Problem> {
        Ok(())
    }
}

/// Reads a text with a parser.
#[derive(Debug)]
pub struct TextReader<R: BufRead, P> {
    lines: Lines<R>,
    parser: P,
    state: State,
    ended: bool,
}

impl<R: BufRead, P: Parser> TextReader<R, P> {
    pub(super) fn with(input: R, parser: P) -> TextReader<R, P> {
        let about = About::default().with("source", P::FORMAT.name());
        TextReader {
            lines: Lines::new(input, P::FORMAT),
            parser,
            state: State { tables: Tables::of(about), ..State::default() },
            ended: false,
        }
    }
}

impl<R: BufRead, P: Parser> Source for TextReader<R, P> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.state.ready.pop_front() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            let result = if self.lines.advance()? {
                self.parser.line(self.lines.line(), &mut self.state)
            } else {
                self.ended = true;
                self.parser.end(&mut self.state)
            };
            result.map_err(|problem| match problem {
                Problem::Text(text) => self.lines.wrong(text),
                Problem::Error(error) => error,
            })?;
        }
    }

    fn tables(&self) -> &Tables {
        &self.state.tables
    }
}

/// The parts of a CSV line; a part in double quotes may hold commas, and a doubled quote means one.
pub(super) fn csv(line: &[u8]) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        let (part, behind) = if rest.first() == Some(&b'"') { quoted(&rest[1..])? } else { plain(rest) };
        parts.push(part);
        match behind.split_first() {
            None => return Some(parts),
            Some((b',', next)) => rest = next,
            Some(_) => return None,
        }
    }
}

fn plain(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let end = text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
    (text[..end].trim_ascii().into(), &text[end..])
}

fn quoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut part = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((place, byte)) = bytes.next() {
        match (byte, text.get(place + 1)) {
            (b'"', Some(b'"')) => {
                part.push(b'"');
                bytes.next();
            }
            (b'"', _) => return Some((part.into(), &text[place + 1..])),
            (byte, _) => part.push(*byte),
        }
    }
    None
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::source::MemorySource;

    /// All that a source gives.
    pub(crate) fn all(mut source: impl Source) -> Result<MemorySource, Error> {
        MemorySource::of(&mut source)
    }

    #[test]
    fn csv_has_quotes() {
        let parts = |line: &str| {
            csv(line.as_bytes()).map(|parts| parts.iter().map(|part| String::from_utf8(part.to_vec()).unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(parts("a, b,,c").unwrap(), ["a", "b", "", "c"]);
        assert_eq!(parts("\"a,\"\"b\",c").unwrap(), ["a,\"b", "c"]);
        assert_eq!(parts("").unwrap(), [""]);
        assert!(parts("\"a").is_none() && parts("\"a\"b").is_none());
    }
}
