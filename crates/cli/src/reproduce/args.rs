//! The command line of `forebay reproduce`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct ReproduceArgs {
    /// Figures and tables, as in thesis.5.8; thesis.5.8..5.14 are all from one to the other, and thesis all of a paper.
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "all"])]
    pub(crate) names: Vec<String>,
    /// List what can be reproduced.
    #[arg(long)]
    pub(crate) list: bool,
    /// Reproduce everything.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with plots, too.
    #[arg(short, long, value_name = "FILE.html")]
    pub(crate) out: Option<PathBuf>,
    /// The papers' statements [default: ../shared/reference/claims.toml, from here or a folder above].
    #[arg(long, value_name = "FILE")]
    pub(crate) claims: Option<PathBuf>,
    /// Make up the traces of Montage and POV-Ray, too, instead of running them here under strace.
    #[arg(long)]
    pub(crate) generated: bool,
    /// Montage's images along a side of the sky, where it runs here.
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=32))]
    pub(crate) images: u64,
    /// Keep what Montage and POV-Ray read and wrote, and their traces, in this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "generated")]
    pub(crate) keep: Option<PathBuf>,
    /// The seed of generated traces.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write back at eviction only, not in the background.
    #[arg(long)]
    pub(crate) sync: bool,
    /// Throughput by transfer size and nodes: lines of nodes,level,op,size,bytes_per_s.
    #[arg(long, value_name = "FILE")]
    pub(crate) rate_table: Option<PathBuf>,
}
