//! The command line. Values stay texts here; `config` gives them their meaning, together with the other places they may come from.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Key;
use crate::plan::PlanArgs;
use crate::reproduce::ReproduceArgs;
use crate::serve::ServeArgs;
use crate::trace::{ReadArgs, TraceArgs};

/// A burst buffer in front of a directory.
#[derive(Parser, Debug)]
#[command(name = "forebay", version, propagate_version = true, args_override_self = true, max_term_width = 110)]
#[command(
    after_help = "Settings come from the command line, else from FOREBAY_* variables, else from a TOML file, else from defaults; `forebay config` shows each.\n\
    Sizes: 64MiB, 1G (1024-based), 10MB (1000-based). Exit statuses: docs/OPERATIONS.md."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say more.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// This process serves for another one, which keeps it.
    #[arg(long, hide = true)]
    pub(crate) kept: bool,
    /// Say only what went wrong.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a command inside a buffered view of a directory, then bring everything home.
    Run(RunArgs),
    /// Serve a directory with an SSD in front of it to mounts on other machines; or ask such a server.
    Serve(ServeArgs),
    /// Finish what a crash left in a buffer.
    Recover(RecoverArgs),
    /// Mount a buffered view of a directory, until `umount`.
    Mount(MountArgs),
    /// Bring everything home, then unmount.
    Umount(UmountArgs),
    /// Show what instances hold and do.
    Status(StatusArgs),
    /// Bring everything home and compare it there; the instance goes on.
    Drain(TargetArgs),
    /// Bring files and directories from home into the buffer, as far as it holds them.
    StageIn(StageArgs),
    /// Bring files and directories home now, and compare them there.
    StageOut(StageArgs),
    /// Show which ranges of files are in memory, on the SSD, at home, and what is not yet home.
    Where(WhereArgs),
    /// Show every setting and where it came from.
    Config(ConfigArgs),
    /// Replay a recorded run through the core and check that it decides the same.
    Replay(ReplayArgs),
    /// Traces of I/O: make one of a command (`forebay trace -- CMD`), read those of other programs, show, merge, filter and convert them.
    Trace(TraceArgs),
    /// Say what a trace does: how it reads and writes, and how large a buffer it needs.
    Analyze(AnalyzeArgs),
    /// Say how much buffer to ask for, what it brings, and what it costs.
    Plan(PlanArgs),
    /// Simulate buffers of many sizes and policies on a trace.
    Sim(SimArgs),
    /// Measure how fast a directory is, as a table of throughput for `sim`, or what kind of disk there is, as a preset.
    Bench(BenchArgs),
    /// Make figures of papers again, and show what the paper says beside what comes out.
    Reproduce(ReproduceArgs),
    /// Show what this machine lacks, and the command that mends it.
    Doctor(DoctorArgs),
    /// Put what a bug report needs into one archive; no data of files.
    Debug(DebugArgs),
    /// Write the manual pages.
    Man(ManArgs),
    /// Write the completions of a shell to standard output.
    Completions(CompletionsArgs),
    /// Has the kernel hand over what it still holds of a mount. Its own process: see `engine::flush_kernel`.
    #[command(hide = true)]
    FlushKernel { mount: PathBuf },
    /// Tries what `run --over` needs, for `doctor`.
    #[command(hide = true)]
    ProbeOver,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Mount over the backing directory itself, for the command alone: no path in a script changes. It stays where you are.
    #[arg(long, conflicts_with = "mount")]
    pub(crate) over: bool,
    /// The command and its arguments; a relative path is looked up in the mount.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Stay in the foreground instead of going to the background once mounted.
    #[arg(long)]
    pub(crate) foreground: bool,
    /// The process that serves a mount in the background tells its parent through standard output.
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub(crate) background_child: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RecoverArgs {
    /// The buffer directory that a crash left.
    #[arg(long, value_name = "DIR")]
    pub(crate) buffer: PathBuf,
    /// The directory to bring everything to, if it is not where the buffer remembers it.
    #[arg(long, value_name = "DIR")]
    pub(crate) backing: Option<PathBuf>,
    /// The servers to bring everything to, if they listen elsewhere now: the same, in the same order.
    #[arg(long, value_name = "LIST", conflicts_with = "backing", value_parser = crate::servers::parse_whole_list)]
    pub(crate) servers: Option<crate::servers::List>,
    /// The file with the servers' key, if it is a buffer in front of servers [default: what FOREBAY_KEY holds].
    #[arg(long, value_name = "FILE", env = "FOREBAY_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Keep the buffer directory, emptied of what was brought home.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Go on although the buffer's disk failed and home may be newer: that may undo changes there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// Where the instance is mounted; the default is FOREBAY_MOUNT, as a command under `forebay run` has it.
    #[arg(value_name = "MOUNT", conflicts_with = "buffer")]
    pub(crate) mount: Option<PathBuf>,
    /// The buffer directory of the instance, instead of its mount.
    #[arg(long, value_name = "DIR")]
    pub(crate) buffer: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Unmount even if processes use the mount: what they write from then on fails.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Where the instance is mounted; without it, all instances of this user are shown.
    #[arg(value_name = "MOUNT", conflicts_with = "buffer")]
    pub(crate) mount: Option<PathBuf>,
    /// The buffer directory of the instance, instead of its mount.
    #[arg(long, value_name = "DIR")]
    pub(crate) buffer: Option<PathBuf>,
    /// As JSON; with --watch, one line each time.
    #[arg(long)]
    pub(crate) json: bool,
    /// Again and again, every so many seconds [default: 1], until Ctrl-C or until no instance is left.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
    /// With --watch: so many times.
    #[arg(long, value_name = "NUMBER", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) times: Option<u64>,
}

/// Which instance files belong to.
#[derive(Args, Debug)]
pub(crate) struct InstanceArgs {
    /// Where the instance is mounted [default: FOREBAY_MOUNT, else the instance in which the first path lies, else the only one].
    #[arg(long, value_name = "MOUNT", conflicts_with = "buffer")]
    pub(crate) mount: Option<PathBuf>,
    /// The buffer directory of the instance, instead of its mount.
    #[arg(long, value_name = "DIR")]
    pub(crate) buffer: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct StageArgs {
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
    /// Files, directories with all that is in them, or patterns (`*`, `?`, `[a-z]`, `**`): in the mount, in the backing directory, or relative.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// A file with one path a line, or - for standard input; blank lines and lines that begin with # count for nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) list: Option<PathBuf>,
    /// Files at a time.
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub(crate) jobs: u8,
}

#[derive(Args, Debug)]
pub(crate) struct WhereArgs {
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
    /// Files: in the mount, in the backing directory, or relative.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// As a TOML file that gives the same settings.
    #[arg(long)]
    pub(crate) toml: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DebugArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// The archive to write [default: forebay-debug-TIME.tar in the working directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this directory; without it, the main page goes to standard output.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// What `forebay run --record FILE` has written.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// How fast both levels are.
#[derive(Args, Debug)]
pub(crate) struct RateArgs {
    /// What home reads and writes in a second.
    #[arg(long, value_name = "SIZE", default_value = "500MB", value_parser = crate::size::parse)]
    pub(crate) home_rate: u64,
    /// What the buffer reads and writes in a second, on one node.
    #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = crate::size::parse)]
    pub(crate) buffer_rate: u64,
}

#[derive(Args, Debug)]
pub(crate) struct AnalyzeArgs {
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// The unit of buffering, a power of two.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = crate::size::parse)]
    pub(crate) chunk: u64,
    /// The stripe unit that requests are held against.
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = crate::size::parse)]
    pub(crate) stripe: u64,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    /// Write a page with plots (.html) or JSON (.json) to this file, too; may be given several times.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Throughput of this directory by the size of a transfer. A file without a name is written and read there.
    #[arg(long, value_name = "DIR", required_unless_present = "profile")]
    pub(crate) curve: Option<PathBuf>,
    /// What kind of disk or SSD this is, as a preset for --disk: a directory, in which a file without a name is written and read, or a device, which is only read.
    #[arg(long, value_name = "DIR|DEVICE", conflicts_with_all = ["curve", "json"])]
    pub(crate) profile: Option<PathBuf>,
    /// Bytes of the file for --profile DIR; seeks are those within it.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = crate::size::parse)]
    pub(crate) size: u64,
    /// Let --profile DIR measure an emulated disk there instead of what there is: a preset's name or file.
    #[arg(long, value_name = "PRESET", requires = "profile")]
    pub(crate) disk: Option<String>,
    /// Which level of the model it is: home or buffer.
    #[arg(long, value_name = "NAME", default_value = "home")]
    pub(crate) level: String,
    /// For how many nodes this counts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) nodes: u32,
    /// Runs for each size; their median counts.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) runs: u32,
    /// Few sizes and few runs: seconds instead of minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a page with a plot (.html), .csv or .json to this file instead of CSV to standard output; may be given several times. With --profile: the preset (.toml).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Print JSON instead of CSV.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub(crate) struct SimArgs {
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: Option<PathBuf>,
    /// Take options from a file: their long names as keys, and `trace`. What stands here goes before.
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) plan: Option<PathBuf>,
    /// Run the trace of an instance again through the server's own machine, with the configuration that it had, and show what the server
    /// counted beside that.
    #[arg(long, conflicts_with_all = ["plan", "capacity", "results", "output", "rate_table"])]
    pub(crate) as_recorded: bool,
    /// The trace that a plan names.
    #[arg(long, hide = true)]
    pub(crate) trace_of_plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Sizes of the buffer over all nodes: a list of sizes and of ranges like 64MiB..8GiB*2 or 1GiB..4GiB+1GiB
    /// [default: what the trace touches, and seven times half of it].
    #[arg(long, value_name = "SIZES")]
    pub(crate) capacity: Option<String>,
    /// Policies: a list of fifo, lru, lfu, lfuda, s3-fifo, sieve, arc, lirs, w-tinylfu and belady, or all.
    #[arg(long, value_name = "NAMES", default_value = "lru")]
    pub(crate) policy: String,
    /// What is swapped: chunk, file, file-dirty (only the dirty chunks of a file go home), or several.
    #[arg(long, value_name = "NAMES", default_value = "chunk")]
    pub(crate) granularity: String,
    /// When dirty chunks go home: sync, async or both.
    #[arg(long, value_name = "NAMES", default_value = "sync")]
    pub(crate) write_back: String,
    /// Nodes: a list of numbers and of ranges like 1..32 (doubling) or 1..8+1.
    #[arg(long, value_name = "NUMBERS", default_value = "1")]
    pub(crate) nodes: String,
    /// The unit of buffering, a power of two.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = crate::size::parse)]
    pub(crate) chunk: u64,
    /// In what to count: chunks or bytes.
    #[arg(long, value_name = "NAME", default_value = "chunks")]
    pub(crate) count: String,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    /// Throughput by transfer size and nodes, instead of two numbers: lines of nodes,level,op,size,bytes_per_s, or JSON, as `forebay bench`
    /// writes them; several files, with commas between them, are one table.
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with_all = ["home_rate", "buffer_rate"])]
    pub(crate) rate_table: Vec<PathBuf>,
    /// Keep results there as they come; what is there is not done again.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Threads at work [default: one for each core].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Write a page with plots (.html), .csv, .json or .parquet to this file instead of CSV to standard output; may be given several times.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Print JSON instead of CSV.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A switch that a file may have set and the command line can take back: `--keep` or `--keep=false`.
const SWITCH: &str = "true";

/// What can be set in any of the places.
#[derive(Args, Debug, Default)]
pub(crate) struct SettingArgs {
    /// The directory to buffer: everything ends up there.
    #[arg(long, value_name = "DIR")]
    backing: Option<OsString>,
    /// I/O servers instead of a directory, always in the same order: HOST:PORT or unix:/PATH, with commas between them (see `forebay serve`).
    #[arg(long, value_name = "LIST")]
    servers: Option<OsString>,
    /// Bytes of a file that go to one server before the next one has its turn; the same for ever [default: 64 KiB].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    stripe: Option<OsString>,
    /// The file with the servers' key, for its owner alone [default: what FOREBAY_KEY holds].
    #[arg(long, value_name = "FILE")]
    key_file: Option<OsString>,
    /// How long what needs a server that is away waits for it, before it counts as a failure of home [default: 2min].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    server_wait: Option<OsString>,
    /// Where to mount [default: a fresh directory].
    #[arg(long, value_name = "DIR")]
    mount: Option<OsString>,
    /// Where the buffer lies, on a local disk [default: a fresh directory].
    #[arg(long, value_name = "DIR")]
    buffer: Option<OsString>,
    /// How much memory the buffer may take, an eighth of it to remember where its parts are [default: a quarter of the machine's memory, at most 1 GiB].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    memory: Option<OsString>,
    /// How much the buffer may hold, in memory and on disk [default: 4 GiB, less if the disk is fuller].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    capacity: Option<OsString>,
    /// The unit of buffering, a power of two [default: 1 MiB].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    chunk: Option<OsString>,
    /// Which chunk goes when the buffer is full: fifo, lru, lfu, lfuda, s3-fifo, sieve, arc, lirs or w-tinylfu [default: lru].
    #[arg(long, value_name = "NAME")]
    replacement: Option<OsString>,
    /// When bytes go home: async (soon after they were written) or sync (when room is needed, and at the drain) [default: async].
    #[arg(long, value_name = "MODE")]
    write_back: Option<OsString>,
    /// How long written bytes rest before they go home [default: 500ms].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    write_back_delay: Option<OsString>,
    /// write-through, or write-back: faster small writes, safe from fsync or close on only [default: write-through].
    #[arg(long, value_name = "MODE")]
    kernel_cache: Option<OsString>,
    /// Let other users use the mount.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = SWITCH)]
    allow_other: Option<OsString>,
    /// Keep the buffer directory at the end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = SWITCH)]
    keep: Option<OsString>,
    /// Write the summary as JSON, too.
    #[arg(long, value_name = "FILE")]
    report: Option<OsString>,
    /// Record every input of the core, for `forebay replay`.
    #[arg(long, value_name = "FILE")]
    record: Option<OsString>,
    /// Write down every operation of every program in the mount, for `forebay trace`, `analyze` and `sim`. The kernel keeps nothing back then.
    #[arg(long, value_name = "FILE.fbt")]
    trace: Option<OsString>,
    /// Where the memory file lies [default: /dev/shm].
    #[arg(long, value_name = "DIR")]
    memory_dir: Option<OsString>,
    /// Threads that write home and read from there [default: 8].
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    home_threads: Option<OsString>,
    /// Threads that serve the mount [default: 4].
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    mount_threads: Option<OsString>,
    /// How long a command may take to end after a signal, before it is killed [default: 10s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    grace: Option<OsString>,
    /// How long to wait for processes that still use the mount when the command has ended [default: 10s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    busy_wait: Option<OsString>,
    /// Serve counters for Prometheus at this address: a port of this machine (9100), or both (0.0.0.0:9100).
    #[arg(long, value_name = "ADDR:PORT", allow_negative_numbers = true)]
    metrics: Option<OsString>,
    /// The TOML file [default: $XDG_CONFIG_HOME/forebay/config.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SettingArgs {
    /// The file that `--config` names.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.config.clone()
    }

    /// What the command line says of each setting.
    pub(crate) fn given(&self, key: Key) -> Option<OsString> {
        match key {
            Key::Backing => &self.backing,
            Key::Servers => &self.servers,
            Key::Stripe => &self.stripe,
            Key::Secret => &self.key_file,
            Key::ServerWait => &self.server_wait,
            Key::Mount => &self.mount,
            Key::Buffer => &self.buffer,
            Key::Memory => &self.memory,
            Key::Capacity => &self.capacity,
            Key::Chunk => &self.chunk,
            Key::Replacement => &self.replacement,
            Key::WriteBack => &self.write_back,
            Key::WriteBackDelay => &self.write_back_delay,
            Key::KernelCache => &self.kernel_cache,
            Key::AllowOther => &self.allow_other,
            Key::Keep => &self.keep,
            Key::Report => &self.report,
            Key::Record => &self.record,
            Key::Trace => &self.trace,
            Key::MemoryDir => &self.memory_dir,
            Key::HomeThreads => &self.home_threads,
            Key::MountThreads => &self.mount_threads,
            Key::Grace => &self.grace,
            Key::BusyWait => &self.busy_wait,
            Key::Metrics => &self.metrics,
        }
        .clone()
    }
}
