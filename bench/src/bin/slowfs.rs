//! `slowfs SOURCE MOUNT --bandwidth 50MiB --latency 2ms`: a directory again, but slow, until it is unmounted.
//!
//! It stands for the parallel file system, the NFS server or the disk behind a burst buffer: benchmarks and tests bring their own
//! slow home with them, so that they mean the same on every machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use forebay_bench::limited_home::{LimitedHome, Limits};
use forebay_bench::quantity::{parse_bytes, parse_duration};
use fuser::{Config, MountOption, SessionACL};

#[derive(Parser)]
#[command(about = "Mounts a directory again with limited bandwidth and added latency")]
struct Arguments {
    /// The directory to show.
    source: PathBuf,
    /// Where to mount it.
    mount: PathBuf,
    /// Bytes per second, reads and writes together (see --duplex); without it there is no limit.
    #[arg(long, value_parser = parse_bytes)]
    bandwidth: Option<u64>,
    /// The bandwidth is one of reads and one of writes, as a network has it; else they share it, as a disk does.
    #[arg(long)]
    duplex: bool,
    /// Time added to every operation.
    #[arg(long, value_parser = parse_duration, default_value = "0ms")]
    latency: Duration,
    /// While this file exists, operations fail or wait as it says: `5` (writes of data fail with this error number), `5 changes`, `5 all`, `5 bulk` (large writes), `stall`.
    #[arg(long)]
    faults: Option<PathBuf>,
    /// Operations served at a time.
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// Let other users in (needs root, or user_allow_other in /etc/fuse.conf).
    #[arg(long)]
    allow_other: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { bandwidth: bandwidth_bytes_per_s, duplex: is_duplex, latency, faults, .. } = arguments;
    let limits = Limits { bandwidth_bytes_per_s, is_duplex, latency, faults };
    let home = match LimitedHome::open(&arguments.source, limits) {
        Ok(home) => home,
        Err(error) => {
            eprintln!("slowfs: {}: {error}", arguments.source.display());
            return ExitCode::FAILURE;
        }
    };
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("slowfs".into()), MountOption::Subtype("slowfs".into()), MountOption::DefaultPermissions];
    config.acl = if arguments.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(arguments.threads);
    match fuser::mount(home, &arguments.mount, &config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slowfs: {}: {error}", arguments.mount.display());
            ExitCode::FAILURE
        }
    }
}
