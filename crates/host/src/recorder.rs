//! Keeps what a machine was given and a checksum of what it asked for, so that a real run can be replayed through the core.
//!
//! A recording is a file of frames, each `length (u32, little-endian), CRC-32C of the body (u32), body (postcard)`, behind eight bytes that
//! name the format. The first frame says how the machine was made. A recording whose end is missing, as after a kill, is valid up to there.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use forebay_core::config::NodeConfig;
use forebay_core::effect::{Effect, Input};
use forebay_core::id::Position;
use forebay_core::machine::Machine;
use forebay_core::node::Node;
use forebay_core::record::Record;
use forebay_core::recovery::recover;
use forebay_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::log;

const MAGIC: &[u8; 8] = b"FBREC\0\0\x02";
/// Records of a start in one frame; keeps frames small.
const FRAME_RECORDS_MAX: usize = 4096;
/// Longest body that a reader accepts, so that a damaged length does not ask for all memory.
const FRAME_BYTES_MAX: u32 = 1 << 30;

/// One thing that happens to a machine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Event {
    /// Nothing yet: the machine is asked what it wants to do first.
    Start,
    /// An input.
    Input(Input),
    /// Its timeout came.
    Timeout,
}

/// How the machine of a recording was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Start {
    /// With nothing.
    New {
        /// The configuration.
        config: NodeConfig,
        /// The time given.
        now: Time,
    },
    /// From a journal.
    Recovered {
        /// The configuration.
        config: NodeConfig,
        /// The journal's records.
        records: Vec<(Position, Record)>,
        /// Whether the memory file had survived.
        memory_intact: bool,
        /// The time given.
        now: Time,
        /// The answers to the payload checks, in the order in which they were asked.
        checks: Vec<bool>,
    },
}

#[derive(Serialize, Deserialize)]
enum Frame {
    Start { start: Start, records: u64 },
    Records(Vec<(Position, Record)>),
    Step { now: Time, event: Event, effects: u32, crc: u32 },
}

/// Borrowed form of [`Frame::Step`], written before the event is moved into the machine.
#[derive(Serialize)]
enum StepFrame<'a> {
    #[allow(dead_code)] // Keeps the variant numbers of `Frame`.
    Start,
    #[allow(dead_code)]
    Records,
    Step {
        now: Time,
        event: &'a Event,
        effects: u32,
        crc: u32,
    },
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    out: Option<BufWriter<File>>,
    step: Vec<u8>,
    scratch: Vec<u8>,
    effects: u32,
    crc: u32,
}

impl Recorder {
    /// Starts a recording in a new file at `path`, replacing what is there.
    pub fn create(path: &Path, start: Start) -> io::Result<Recorder> {
        let mut out = BufWriter::with_capacity(1 << 18, File::create(path)?);
        out.write_all(MAGIC)?;
        let (start, records) = match start {
            Start::Recovered { config, records, memory_intact, now, checks } => {
                (Start::Recovered { config, records: Vec::new(), memory_intact, now, checks }, records)
            }
            new => (new, Vec::new()),
        };
        write_frame(&mut out, &encode(&Frame::Start { start, records: records.len() as u64 })?)?;
        for part in records.chunks(FRAME_RECORDS_MAX) {
            write_frame(&mut out, &encode(&Frame::Records(part.to_vec()))?)?;
        }
        out.flush()?;
        Ok(Recorder { path: path.to_path_buf(), out: Some(out), step: Vec::new(), scratch: Vec::new(), effects: 0, crc: 0 })
    }

    /// An event is about to be handed in.
    pub fn begin(&mut self, now: Time, event: &Event) {
        self.effects = 0;
        self.crc = 0;
        self.step.clear();
        // The two zeros, a byte each, hold the place of values that are known only at the end of the step.
        match postcard::to_extend(&StepFrame::Step { now, event, effects: 0, crc: 0 }, std::mem::take(&mut self.step)) {
            Ok(step) => self.step = step,
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// The machine asked for this.
    pub fn effect(&mut self, effect: &Effect) {
        self.scratch.clear();
        match checksum(self.crc, effect, std::mem::take(&mut self.scratch)) {
            Ok((crc, scratch)) => (self.crc, self.scratch) = (crc, scratch),
            Err(error) => self.give_up(&error.to_string()),
        }
        self.effects += 1;
    }

    /// The machine asks for nothing more.
    pub fn end(&mut self) {
        let Some(out) = &mut self.out else { return };
        // The two place holders go; see `begin`.
        self.step.truncate(self.step.len().saturating_sub(2));
        let tail = encode(&(self.effects, self.crc));
        let written = tail.and_then(|tail| {
            self.step.extend_from_slice(&tail);
            write_frame(out, &self.step)
        });
        if let Err(error) = written {
            self.give_up(&error.to_string());
        }
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) {
        if let Some(Err(error)) = self.out.as_mut().map(Write::flush) {
            self.give_up(&error.to_string());
        }
    }

    /// A recording with a gap is worth nothing: it ends here, and the server goes on.
    fn give_up(&mut self, error: &str) {
        if self.out.take().is_some() {
            log::problem(&format!("the recording {} ends here: {error}", self.path.display()));
        }
    }
}

fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

fn write_frame(out: &mut impl Write, body: &[u8]) -> io::Result<()> {
    let len = u32::try_from(body.len()).ok().filter(|len| *len <= FRAME_BYTES_MAX);
    let len = len.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"))?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(&crc32c::crc32c(body).to_le_bytes())?;
    out.write_all(body)
}

fn checksum(crc: u32, effect: &Effect, scratch: Vec<u8>) -> postcard::Result<(u32, Vec<u8>)> {
    let bytes = postcard::to_extend(effect, scratch)?;
    Ok((crc32c::crc32c_append(crc, &bytes), bytes))
}

/// Why a recording could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("the recording {} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a recording, or one of another version.
    #[error("{} is not a recording that this version of forebay can read: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The machine could not be made again as it was.
    #[error("the machine of the recording {} could not be made again: {reason}", path.display())]
    Start {
        /// The file.
        path: PathBuf,
        /// What the machine said.
        reason: String,
    },
}

/// What a replay found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplayReport {
    /// Events replayed.
    pub steps: u64,
    /// Effects compared.
    pub effects: u64,
    /// The first event after which the effects were not those of the recording; the replay stops there.
    pub difference: Option<Difference>,
    /// The recording's last frame was cut off or damaged, at this byte.
    pub cut_at: Option<u64>,
}

/// Effects that differ from the recorded ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Which event, from 0.
    pub step: u64,
    /// Its time.
    pub now: Time,
    /// The event.
    pub event: Event,
    /// The number of effects and their checksum in the recording.
    pub recorded: (u32, u32),
    /// The same in the replay.
    pub replayed: (u32, u32),
    /// The effects of the replay.
    pub effects: Vec<Effect>,
}

/// Makes the machine of a recording again with `start`, hands in what was handed in, and compares what the machine asks for.
pub fn replay<M>(path: &Path, start: impl FnOnce(Start) -> Result<M, String>) -> Result<ReplayReport, ReplayError>
where
    M: Machine<Input = Input, Effect = Effect>,
{
    let mut frames = Frames::open(path)?;
    let Some(Frame::Start { start: mut how, records: count }) = frames.next()? else {
        return Err(ReplayError::Format { path: path.into(), reason: "it does not begin with the start of a machine".into() });
    };
    if let Start::Recovered { records, .. } = &mut how {
        while (records.len() as u64) < count {
            let Some(Frame::Records(part)) = frames.next()? else {
                return Err(ReplayError::Format { path: path.into(), reason: "the records of its start are not whole".into() });
            };
            records.extend(part);
        }
    }
    let mut machine = start(how).map_err(|reason| ReplayError::Start { path: path.into(), reason })?;
    let mut report = ReplayReport::default();
    while let Some(frame) = frames.next()? {
        let Frame::Step { now, event, effects: count, crc } = frame else {
            return Err(ReplayError::Format { path: path.into(), reason: "a frame is not where it belongs".into() });
        };
        let effects = run_step(&mut machine, now, event.clone());
        let replayed =
            (effects.len() as u32, effects.iter().try_fold(0, |crc, effect| checksum(crc, effect, Vec::new()).map(|(crc, _)| crc)));
        let replayed = (replayed.0, replayed.1.map_err(|error| ReplayError::Format { path: path.into(), reason: error.to_string() })?);
        if replayed != (count, crc) {
            report.difference = Some(Difference { step: report.steps, now, event, recorded: (count, crc), replayed, effects });
            break;
        }
        report.steps += 1;
        report.effects += u64::from(count);
    }
    report.cut_at = frames.cut_at;
    Ok(report)
}

/// [`replay`] of a node.
pub fn replay_node(path: &Path) -> Result<ReplayReport, ReplayError> {
    replay(path, |start| match start {
        Start::New { config, now } => Node::new(config, now).map_err(|error| error.to_string()),
        Start::Recovered { config, records, memory_intact, now, checks } => {
            let mut checks = checks.into_iter();
            // An answer too few would be another question than in the run: the replay will show the difference.
            let recovered = recover(config, records, memory_intact, now, &mut |_| checks.next().unwrap_or(false), None);
            recovered.map(|recovered| recovered.node).map_err(|error| error.to_string())
        }
    })
}

fn run_step<M: Machine<Input = Input, Effect = Effect>>(machine: &mut M, now: Time, event: Event) -> Vec<Effect> {
    match event {
        Event::Start => {}
        Event::Input(input) => machine.handle(now, input),
        Event::Timeout => machine.handle_timeout(now),
    }
    std::iter::from_fn(|| machine.poll_effect()).collect()
}

struct Frames {
    path: PathBuf,
    reader: BufReader<File>,
    at: u64,
    cut_at: Option<u64>,
}

impl Frames {
    fn open(path: &Path) -> Result<Frames, ReplayError> {
        let read_error = |source| ReplayError::Read { path: path.into(), source };
        let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(read_error)?);
        let mut magic = Vec::new();
        reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(read_error)?;
        if magic != MAGIC {
            return Err(ReplayError::Format { path: path.into(), reason: "its first bytes are not those of one".into() });
        }
        Ok(Frames { path: path.into(), reader, at: MAGIC.len() as u64, cut_at: None })
    }

    /// The next frame; `None` at the end, be it clean or cut off.
    fn next(&mut self) -> Result<Option<Frame>, ReplayError> {
        let read_error = |source| ReplayError::Read { path: self.path.clone(), source };
        let mut head = Vec::new();
        self.reader.by_ref().take(8).read_to_end(&mut head).map_err(read_error)?;
        if head.is_empty() {
            return Ok(None);
        }
        let word = |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let (Some(len), Some(crc)) = (word(0), word(4)) else { return Ok(self.cut()) };
        if len > FRAME_BYTES_MAX {
            return Ok(self.cut());
        }
        let mut body = Vec::new();
        self.reader.by_ref().take(u64::from(len)).read_to_end(&mut body).map_err(read_error)?;
        if body.len() != len as usize || crc32c::crc32c(&body) != crc {
            return Ok(self.cut());
        }
        self.at += 8 + u64::from(len);
        let frame = postcard::from_bytes(&body);
        frame.map(Some).map_err(|error| ReplayError::Format { path: self.path.clone(), reason: format!("byte {}: {error}", self.at) })
    }

    fn cut(&mut self) -> Option<Frame> {
        self.cut_at = Some(self.at);
        None
    }
}
