//! The command line of `forebay trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use forebay_trace::{Format, Layer, Op};

use crate::size;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TraceCommand>,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

/// Making a trace of a command.
#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    /// The directory in which operations are seen: files below of it, at their own paths [default: the working directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Where to write the trace [default: the command's name with .fbt behind it, in the working directory].
    #[arg(short, long, value_name = "FILE.fbt")]
    pub(crate) out: Option<PathBuf>,
    /// Show the command an empty directory that keeps names and sizes and no bytes, instead of what is there: what a mount costs by itself.
    #[arg(long)]
    pub(crate) empty: bool,
    /// Mount, but write nothing down: what recording costs.
    #[arg(long, hide = true, conflicts_with = "out")]
    pub(crate) no_record: bool,
    /// The command and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceCommand {
    /// Read traces of other programs into one file of Forebay, in the order of time.
    Import(ImportArgs),
    /// Show what a trace holds: operations, bytes, files, processes, and what is missing.
    Info(InfoArgs),
    /// Show the first operations of a trace.
    Head(HeadArgs),
    /// Show all operations of a trace, one a line.
    Cat(CatArgs),
    /// Merge the traces of several nodes by time.
    Merge(ImportArgs),
    /// Keep some operations of a trace: all conditions must hold.
    Filter(FilterArgs),
    /// Write a trace in another format.
    Convert(ConvertArgs),
    /// Make up the trace of an application, in the sizes of the papers or in others.
    Generate(super::generate::GenerateArgs),
}

fn format(text: &str) -> Result<Format, String> {
    Format::from_name(text).ok_or_else(|| format!("it is none of {}", names(Format::ALL, |format| format.name())))
}

fn op(text: &str) -> Result<Op, String> {
    Op::from_name(text).ok_or_else(|| format!("it is none of {}", names(Op::ALL, |op| op.name())))
}

fn layer(text: &str) -> Result<Layer, String> {
    Layer::from_name(text).ok_or_else(|| format!("it is none of {}", names(Layer::ALL, |layer| layer.name())))
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ")
}

fn bytes(text: &str) -> Result<u64, String> {
    size::parse(text).map_err(|error| error.to_string())
}

/// Seconds with any number of decimals, as nanoseconds.
fn seconds(text: &str) -> Result<u64, String> {
    forebay_trace::parse_seconds(text).ok_or_else(|| "it is no time in seconds".to_owned())
}

/// `SIZE=BYTES_PER_SECOND`.
fn rate(text: &str) -> Result<(u64, u64), String> {
    let (size, rate) = text.split_once('=').ok_or("write a size and bytes per second, as in 16KiB=100MB")?;
    Ok((bytes(size)?, bytes(rate)?))
}

/// How a trace is read.
#[derive(Args, Debug, Default)]
pub(crate) struct ReadArgs {
    /// The format of what is read [default: what the content says]: fbt, muse, darshan, fio, iosig, strace, msr, spc, blktrace,
    /// oraclegeneral or recorder; also compressed by gzip or bzip2.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) format: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Where to write; - is standard output.
    #[arg(short, long, value_name = "FILE.fbt")]
    pub(crate) out: PathBuf,
    /// The traces; - is standard input.
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) correct: CorrectArgs,
}

/// Taking the overhead of tracing out of the times.
#[derive(Args, Debug, Default)]
pub(crate) struct CorrectArgs {
    /// What the file system that traced can do by itself, at a size: 16KiB=100MB (per second); several with commas. The cost of each
    /// operation, by the nearest size, is taken out of the time before it, for each trace by itself.
    #[arg(long, value_name = "SIZE=RATE", value_delimiter = ',', value_parser = rate)]
    pub(crate) overhead: Vec<(u64, u64)>,
    /// Take out the cost of the operation before, in whose time the overhead lies.
    #[arg(long, requires = "overhead")]
    pub(crate) overhead_previous: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct HeadArgs {
    /// So many operations.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) lines: u64,
    #[command(flatten)]
    pub(crate) cat: CatArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// As JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Where to write; - is standard output.
    #[arg(short, long, value_name = "FILE.fbt")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
}

/// Which operations are kept.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Operations: read, write, open, close, sync, truncate and so on; several with commas.
    #[arg(long, value_name = "OP", value_delimiter = ',', value_parser = op)]
    pub(crate) op: Vec<Op>,
    /// Layers: file, stdio, mpi-io, library, block; several with commas.
    #[arg(long, value_name = "LAYER", value_delimiter = ',', value_parser = layer)]
    pub(crate) layer: Vec<Layer>,
    /// Files whose path, or name if there is no / in it, fits one of these patterns (`*`, `?`, `[a-z]`).
    #[arg(long, value_name = "PATTERN")]
    pub(crate) file: Vec<String>,
    /// Processes; several with commas.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) process: Vec<u64>,
    /// Ranks; several with commas.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub(crate) rank: Vec<u32>,
    /// Machines; several with commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// From so many seconds after the first operation on.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) from: Option<u64>,
    /// Before so many seconds after the first operation.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) until: Option<u64>,
    /// Of at least this size.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) min_size: Option<u64>,
    /// Of at most this size.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) max_size: Option<u64>,
    /// That failed.
    #[arg(long)]
    pub(crate) failed: bool,
}

/// What `convert` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Target {
    /// The format of Forebay.
    Fbt,
    /// The text of MUSE.
    Muse,
    /// An iolog of fio, version 2.
    Fio2,
    /// An iolog of fio, version 3.
    Fio3,
    /// JSON, one object a line.
    Json,
    /// A line of text for each operation, as `cat` shows it.
    Text,
    /// A table of columns, for Arrow and what reads it.
    Parquet,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// The format to write.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Target,
    /// Where to write; - is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) correct: CorrectArgs,
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
}
