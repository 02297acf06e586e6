//! Where records come from: every reader gives them one after the other.

use std::fmt;

use crate::error::Error;
use crate::names::Names;
use crate::record::{FileId, ProcessId, Record};

/// What the times of a trace count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// 1970-01-01 00:00 UTC.
    Unix,
    /// The begin of the trace, or another moment that is not known.
    #[default]
    Relative,
}

impl Clock {
    /// Its name in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Clock::Unix => "unix",
            Clock::Relative => "relative",
        }
    }
}

/// What is known of a trace as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// What the times count from.
    pub clock: Clock,
    /// Everything else, as names and values: `source`, `command`, `host` and so on.
    pub facts: Vec<(String, String)>,
}

impl About {
    /// The value of a fact; the last one, if there are several.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same with one more fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> About {
        self.facts.push((name.to_owned(), value.into()));
        self
    }
}

/// Why something is missing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum GapReason {
    /// The recorder could not keep up and let records fall.
    Dropped = 1,
    /// The tool that made the trace ran into a limit of its own and stopped recording (Darshan's "partial data").
    Truncated = 2,
    /// A part of the trace was there and could not be understood.
    Unreadable = 3,
    /// The trace was cut off, by a crash or a copy that did not finish.
    CutOff = 4,
}

impl GapReason {
    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<GapReason> {
        [GapReason::Dropped, GapReason::Truncated, GapReason::Unreadable, GapReason::CutOff].into_iter().find(|one| *one as u8 == number)
    }
}

impl fmt::Display for GapReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            GapReason::Dropped => "dropped",
            GapReason::Truncated => "truncated",
            GapReason::Unreadable => "unreadable",
            GapReason::CutOff => "cut off",
        })
    }
}

/// Something that is known to be missing from a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// How many records are missing; 0 if not known.
    pub count: u64,
    /// Whose records, if of one process.
    pub process: ProcessId,
    /// Which file's records, if of one.
    pub file: FileId,
    /// From when on, nanoseconds.
    pub first_ns: u64,
    /// Until when, nanoseconds.
    pub last_ns: u64,
    /// In words.
    pub note: String,
}

impl Gap {
    /// A gap of the whole trace, in words.
    #[must_use]
    pub fn new(reason: GapReason, note: impl Into<String>) -> Gap {
        Gap { reason, count: 0, process: ProcessId::NONE, file: FileId::NONE, first_ns: 0, last_ns: 0, note: note.into() }
    }
}

/// What a trace tells beside its records, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The names that the records given so far speak of; it grows with them, and no number changes its meaning.
    pub names: Names,
    /// What is known of the whole. Complete at the end.
    pub about: About,
    /// What is known to be missing. Complete at the end.
    pub gaps: Vec<Gap>,
}

impl Tables {
    /// Of a trace of which this much is known before the first record.
    pub(crate) fn of(about: About) -> Tables {
        Tables { about, ..Tables::default() }
    }
}

/// Gives the records of a trace, one after the other.
pub trait Source {
    /// The next record; none at the end.
    ///
    /// # Errors
    /// If the trace cannot be read, or its content is wrong from here on.
    fn next_record(&mut self) -> Result<Option<Record>, Error>;

    /// What is known beside the records.
    fn tables(&self) -> &Tables;

    /// See [`Tables::names`].
    fn names(&self) -> &Names {
        &self.tables().names
    }

    /// See [`Tables::about`].
    fn about(&self) -> &About {
        &self.tables().about
    }

    /// See [`Tables::gaps`].
    fn gaps(&self) -> &[Gap] {
        &self.tables().gaps
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        (**self).next_record()
    }

    fn tables(&self) -> &Tables {
        (**self).tables()
    }
}

/// Records that are in memory already.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    /// What is known beside them.
    pub tables: Tables,
    records: std::collections::VecDeque<Record>,
}

impl MemorySource {
    /// These records with these names.
    #[must_use]
    pub fn new(names: Names, about: About, records: impl IntoIterator<Item = Record>) -> MemorySource {
        MemorySource { tables: Tables { names, ..Tables::of(about) }, records: records.into_iter().collect() }
    }

    /// A copy of all that another source has left.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn of(source: &mut (impl Source + ?Sized)) -> Result<MemorySource, Error> {
        let mut records = std::collections::VecDeque::new();
        while let Some(record) = source.next_record()? {
            records.push_back(record);
        }
        Ok(MemorySource { tables: source.tables().clone(), records })
    }

    /// The records that are left.
    #[must_use]
    pub fn records(&self) -> &std::collections::VecDeque<Record> {
        &self.records
    }
}

impl Source for MemorySource {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        Ok(self.records.pop_front())
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}
