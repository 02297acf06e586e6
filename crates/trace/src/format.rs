//! The formats of traces.

/// A format that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Our own binary format (docs/FORMAT-TRACE.md).
    Fbt,
    /// The text of MUSE: `timestamp duration pid op path offset size`.
    Muse,
    /// A log of Darshan: its extended tracing and heatmap modules.
    Darshan,
    /// fio's iolog, version 2 or 3.
    Fio,
    /// The text of IOSIG.
    Iosig,
    /// The output of `strace -f -ttt -T -y`.
    Strace,
    /// CSV of MSR Cambridge.
    Msr,
    /// CSV of the Storage Performance Council.
    Spc,
    /// What blktrace writes for each processor.
    Blktrace,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// CSV of Recorder's utilities.
    Recorder,
}

impl Format {
    /// All of them.
    pub const ALL: &'static [Format] = &[
        Format::Fbt,
        Format::Muse,
        Format::Darshan,
        Format::Fio,
        Format::Iosig,
        Format::Strace,
        Format::Msr,
        Format::Spc,
        Format::Blktrace,
        Format::OracleGeneral,
        Format::Recorder,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Fbt => "fbt",
            Format::Muse => "muse",
            Format::Darshan => "darshan",
            Format::Fio => "fio",
            Format::Iosig => "iosig",
            Format::Strace => "strace",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Blktrace => "blktrace",
            Format::OracleGeneral => "oraclegeneral",
            Format::Recorder => "recorder",
        }
    }

    /// What a message calls it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Format::Fbt => "a Forebay trace",
            Format::Muse => "MUSE text",
            Format::Darshan => "a Darshan log",
            Format::Fio => "an iolog of fio",
            Format::Iosig => "IOSIG text",
            Format::Strace => "output of strace",
            Format::Msr => "MSR Cambridge CSV",
            Format::Spc => "SPC CSV",
            Format::Blktrace => "binary output of blktrace",
            Format::OracleGeneral => "oracleGeneral",
            Format::Recorder => "Recorder CSV",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// All names, for a message.
    #[must_use]
    pub fn list() -> String {
        Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    }
}
