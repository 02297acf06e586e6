//! `forebay trace generate`: traces of applications that did not run, from what papers say of them.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use forebay_sim::workload::{
    Btio, Class, Direct, Himeno, Miranda, Montage, Player, Povray, Program, Scan, SimilarPages, Supernovae, Workers,
};

use super::output;
use crate::console::Console;
use crate::error::Error;

/// The applications.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Application {
    /// BTIO: all dumps into one file, each process its rows of cells; then all is read.
    Btio,
    /// BTIO with collective I/O: one process of each node writes for the others.
    BtioFull,
    /// Miranda_IO: each process writes its file and reads a neighbour's.
    Miranda,
    /// Montage: a mosaic of the sky from overlapping images, in five phases.
    Montage,
    /// Supernovae: three stages over the images of a telescope.
    Supernovae,
    /// Himeno with a checkpoint every ten iterations.
    Himeno,
    /// POV-Ray: images from thousands of small sources.
    Povray,
    /// Similar Pages: pages of text compared, which are read together.
    SimilarPages,
    /// Similar Pages, each comparison with reads of its own.
    SimilarPagesAllPairs,
}

/// The size of BTIO's problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BtioClass {
    A,
    B,
    C,
    D,
    E,
}

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// Which application.
    #[arg(value_name = "APPLICATION")]
    application: Application,
    /// Where to write; - is standard output.
    #[arg(short, long, value_name = "FILE.fbt")]
    out: PathBuf,
    /// Nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    nodes: u32,
    /// Processes of a node [default: 12 of workflows, 4 of Miranda_IO, 1 of Himeno and BTIO].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: Option<u32>,
    /// BTIO's class.
    #[arg(long, value_name = "CLASS", default_value = "c", ignore_case = true)]
    class: BtioClass,
    /// Divide the size by so much: fewer images, pages and dumps, smaller files.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    divide: u64,
    /// The seed of what is left to chance.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The most that all processes read and write in a second, which gives the operations their times.
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = crate::size::parse)]
    rate: u64,
    /// The most of one process.
    #[arg(long, value_name = "SIZE", default_value = "500MB", value_parser = crate::size::parse)]
    process_rate: u64,
}

impl GenerateArgs {
    /// The program and how many processes a node has.
    fn program(&self) -> Result<(Arc<dyn Program>, u32), Error> {
        let (nodes, divide) = (u64::from(self.nodes), self.divide);
        let smaller = |number: u64| (number / divide).max(1);
        let per_node = |usual: u32| self.processes.unwrap_or(usual);
        let class = match self.class {
            BtioClass::A => Class::A,
            BtioClass::B => Class::B,
            BtioClass::C => Class::C,
            BtioClass::D => Class::D,
            BtioClass::E => Class::E,
        };
        Ok(match self.application {
            Application::Btio => {
                let processes = nodes * u64::from(per_node(1));
                if processes.isqrt().pow(2) != processes {
                    return Err(Error::usage(format!("BTIO runs on a square number of processes, and {processes} is none")));
                }
                let btio = Btio::simple(class, processes);
                (Arc::new(Btio { dumps: smaller(btio.dumps), ..btio }), per_node(1))
            }
            Application::BtioFull => {
                let btio = Btio::full(class, nodes * u64::from(per_node(1)));
                (Arc::new(Btio { dumps: smaller(btio.dumps), ..btio }), per_node(1))
            }
            Application::Miranda => {
                let (usual, processes) = (Miranda::on_nodes(nodes), nodes * u64::from(per_node(4)));
                (Arc::new(Miranda { processes, file_bytes: smaller(usual.file_bytes), ..usual }), per_node(4))
            }
            Application::Montage => {
                let usual = Montage::default();
                (Arc::new(Montage { side: smaller(usual.side.pow(2)).isqrt().max(2), ..usual }), per_node(12))
            }
            Application::Supernovae => {
                let usual = Supernovae::default();
                (Arc::new(Supernovae { images: smaller(usual.images), ..usual }), per_node(12))
            }
            Application::Himeno => {
                let usual = Himeno::on_nodes(nodes * u64::from(per_node(1)));
                (Arc::new(Himeno { checkpoint_bytes: smaller(usual.checkpoint_bytes), ..usual }), per_node(1))
            }
            Application::Povray => {
                let usual = Povray::default();
                let (input_bytes, output_bytes) = (smaller(usual.input_bytes), smaller(usual.output_bytes));
                let (images, total_bytes) = (smaller(usual.images), smaller(usual.total_bytes));
                (Arc::new(Povray { images, input_bytes, output_bytes, total_bytes, seed: self.seed, ..usual }), per_node(12))
            }
            Application::SimilarPages | Application::SimilarPagesAllPairs => {
                let scan = if self.application == Application::SimilarPages { Scan::Shared } else { Scan::AllPairs };
                let usual = SimilarPages::on_nodes(nodes * u64::from(per_node(1)));
                let (pages, results) = (smaller(usual.pages), smaller(usual.results));
                (Arc::new(SimilarPages { pages, results, scan, seed: self.seed, ..usual }), per_node(1))
            }
        })
    }
}

/// `forebay trace generate`.
pub(super) fn command(args: &GenerateArgs, console: Console) -> Result<(), Error> {
    let (program, per_node) = args.program()?;
    let pace = Direct::new(200_000, args.process_rate.max(1), args.rate.max(1));
    let mut player = Player::new(program, Workers::new(args.nodes, per_node), Box::new(pace));
    let records = output::write_fbt(&mut player, &args.out)?;
    console.say(&format!("wrote {}: {records} operations", args.out.display()));
    Ok(())
}
