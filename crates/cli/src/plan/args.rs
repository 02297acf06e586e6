//! The arguments of `forebay plan`.

use std::path::PathBuf;

use clap::Args;

use crate::trace::ReadArgs;

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// The trace; - is standard input.
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    #[command(flatten)]
    pub(super) read: ReadArgs,
    /// Home: a directory, which is measured, or what it reads and writes in a second.
    #[arg(long, value_name = "DIR|RATE", default_value = "500MB")]
    pub(super) home: String,
    /// The buffer's disk: a directory, which is measured, or what it reads and writes in a second, on each node.
    #[arg(long, value_name = "DIR|RATE", default_value = "5GB")]
    pub(super) buffer: String,
    /// The share of an unlimited buffer's throughput that is asked for, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0)]
    pub(super) target: f64,
    /// The replacement policy; the server's own by default.
    #[arg(long, value_name = "NAME", default_value = "lru")]
    pub(super) policy: String,
    /// When dirty chunks go home: sync or async.
    #[arg(long, value_name = "NAME", default_value = "async")]
    pub(super) write_back: String,
    /// The unit of buffering, a power of two.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = crate::size::parse)]
    pub(super) chunk: u64,
    /// In how many other orders of the parallel parts the trace is tried, too.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(super) variations: u32,
    /// The seed of these orders.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Price of a node for an hour; without it there is no word of money.
    #[arg(long, value_name = "MONEY")]
    pub(super) price: Option<f64>,
    /// Price of a GiB of buffer for an hour.
    #[arg(long, value_name = "MONEY", default_value_t = 0.0, requires = "price")]
    pub(super) buffer_price: f64,
    /// Nodes that compute.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) compute_nodes: u32,
    /// Nodes of the buffer beside them; 0 if it is on the nodes that compute.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) buffer_nodes: u32,
    /// Nodes for metadata beside them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) meta_nodes: u32,
    /// Write a page with plots (.html) or JSON (.json) to this file, too; may be given several times.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Threads at work [default: one for each core].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(super) threads: usize,
}
