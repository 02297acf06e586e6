//! Where figures are made: the applications with their traces, and the simulator.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use forebay_core::config::{ReplacementKind, WriteBack};
use forebay_sim::buffer::{
    BufferConfig, Counting, Formula, Granularity, Infeasible, Outcome, Policy, Rates, Workload, WorkloadBuilder, simulate,
};
use forebay_sim::workload::{
    Btio, Buffered, Class, Direct, MB, Miranda, Montage, Pace, Player, Povray, Program, Recorded, SimilarPages, Varied, Workers,
};
use forebay_trace::statistics::chunks::{Continuation, Touches};
use forebay_trace::statistics::locality::Locality;
use forebay_trace::statistics::reuse::Reuse;
use forebay_trace::{FileId, Op, Source};

use super::args::ReproduceArgs;
use super::recording;
use crate::console::Console;
use crate::error::{Error, Exit};

/// Numbers of nodes of the thesis's figures.
pub(crate) const NODES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Throughput of TSUBAME-KFC as far as the thesis prints it: one I/O server of its buffer gave 5 GiB/s to many clients (its figure 4.7), 7.8
/// times what NFS gave. What one client gets is not printed; 1 GiB/s is our choice.
const BUFFER_BYTES_PER_S_MAX: f64 = 5.0 * (1u64 << 30) as f64;
const BUFFER_BYTES_PER_S_NODE: f64 = (1u64 << 30) as f64;
const HOME_BYTES_PER_S: f64 = BUFFER_BYTES_PER_S_MAX / 7.8;

/// The five applications of the thesis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum App {
    Montage,
    SimilarPages,
    Povray,
    Btio,
    Miranda,
}

/// How an application's trace was made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Run {
    /// On a parallel file system, on so many nodes.
    Fast(u32),
    /// On 16 nodes with Ethernet and NFS (the thesis's Table 5.5), directly.
    Direct,
    /// There, through a buffer of the size of the thesis's Table 5.4.
    Buffered,
}

impl Run {
    fn nodes(self) -> u32 {
        match self {
            Run::Fast(nodes) => nodes,
            Run::Direct | Run::Buffered => 16,
        }
    }
}

impl App {
    pub(crate) const ALL: [App; 5] = [App::Montage, App::SimilarPages, App::Povray, App::Btio, App::Miranda];

    pub(crate) fn name(self) -> &'static str {
        match self {
            App::Montage => "Montage",
            App::SimilarPages => "Similar Pages",
            App::Povray => "POV-Ray",
            App::Btio => "BTIO",
            App::Miranda => "Miranda_IO",
        }
    }

    /// Bytes of a chunk in the thesis.
    fn chunk_bytes(self) -> u32 {
        match self {
            App::SimilarPages | App::Povray => 4 << 10,
            App::Montage | App::Btio | App::Miranda => 1 << 20,
        }
    }

    /// What the thesis says is touched, bytes (its Table 5.2).
    pub(crate) fn printed_space_bytes(self, nodes: u32) -> u64 {
        match self {
            App::Montage => 7500 * MB,
            App::SimilarPages => 63 * MB,
            App::Povray => 25 * MB,
            App::Btio => 6800 * MB,
            App::Miranda => 444 * MB * u64::from(nodes),
        }
    }

    /// The buffer of the run that is traced through one, as a share of what is touched (Table 5.4).
    fn traced_buffer_share(self) -> f64 {
        match self {
            App::Montage => 4096.0 / 7500.0,
            App::SimilarPages => 32.0 / 63.0,
            App::Povray => 12.0 / 24.0,
            App::Btio => 5120.0 / 6800.0,
            App::Miranda => 3072.0 / 7104.0,
        }
    }

    /// Workers of a node: 12 tasks of Montage (thesis, table 4.6), 4 of Miranda's processes, the one of BTIO's that writes for all. With one
    /// job of POV-Ray a node, uses again are about as far apart as the thesis found.
    fn workers_per_node(self) -> u32 {
        match self {
            App::Montage => 12,
            App::Povray | App::SimilarPages | App::Btio => 1,
            App::Miranda => 4,
        }
    }
}

/// A trace that is ready to be simulated, with what is known of it.
pub(crate) struct Traced {
    pub(crate) workload: Workload,
    pub(crate) locality: Locality,
    pub(crate) reuse: Reuse,
    /// Bytes of the files that are read before they are written, as far as they are read: the input.
    pub(crate) input_bytes: u64,
    /// Bytes of all files, up to the last byte that is touched.
    pub(crate) space_bytes: u64,
}

/// What was recorded of an application on this machine, and in what sizes.
struct Recording {
    program: Arc<Recorded>,
    chunk_bytes: u32,
    /// Workers of a node: fewer than in the thesis, as there are fewer tasks.
    workers_per_node: u32,
    note: String,
}

/// Makes figures. What is traced or simulated once is kept for the figures after.
pub(crate) struct Lab<'a> {
    args: &'a ReproduceArgs,
    console: Console,
    rates: Rates,
    traces: RefCell<HashMap<(App, Run), Rc<Traced>>>,
    recordings: RefCell<HashMap<App, Option<Rc<Recording>>>>,
}

fn rates(args: &ReproduceArgs) -> Result<Rates, Error> {
    let Some(path) = &args.rate_table else {
        let line =
            |nodes: u32, level: &str, rate: f64| format!("{nodes},{level},read,1048576,{rate}\n{nodes},{level},write,1048576,{rate}\n");
        let buffer = |nodes: u32| (f64::from(nodes) * BUFFER_BYTES_PER_S_NODE).min(BUFFER_BYTES_PER_S_MAX);
        let table: String =
            NODES.iter().map(|&nodes| line(nodes, "buffer", buffer(nodes)) + &line(nodes, "home", HOME_BYTES_PER_S)).collect();
        return Rates::parse(&table).map_err(|error| Error::Coded { message: error.to_string(), exit: Exit::Internal });
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Coded { message: format!("cannot read the table {}: {error}", path.display()), exit: Exit::Config })?;
    Rates::parse(&text).map_err(|error| Error::Data(format!("{}: {error}", path.display())))
}

impl<'a> Lab<'a> {
    pub(crate) fn new(args: &'a ReproduceArgs, console: Console) -> Result<Lab<'a>, Error> {
        Ok(Lab { args, console, rates: rates(args)?, traces: RefCell::default(), recordings: RefCell::default() })
    }

    /// The seed of what is made up.
    pub(crate) fn seed(&self) -> u64 {
        self.args.seed
    }

    /// What was assumed for all figures.
    pub(crate) fn assumptions(&self) -> String {
        if self.args.rate_table.is_some() {
            return "throughput by the given table".into();
        }
        let gib = |rate: f64| rate / (1u64 << 30) as f64;
        format!(
            "throughput: home {:.2} GiB/s, the buffer {} GiB/s a node up to {} GiB/s (thesis, figure 4.7; of one node: assumed); writing back in \
             the background",
            gib(HOME_BYTES_PER_S),
            gib(BUFFER_BYTES_PER_S_NODE),
            gib(BUFFER_BYTES_PER_S_MAX)
        )
    }

    /// The recording of an application on this machine; none if it is to be generated, or its programs are not there.
    fn recording(&self, app: App) -> Result<Option<Rc<Recording>>, Error> {
        if self.args.generated || !matches!(app, App::Montage | App::Povray) {
            return Ok(None);
        }
        if let Some(known) = self.recordings.borrow().get(&app) {
            return Ok(known.clone());
        }
        let made = match app {
            App::Montage => recording::montage(self.args.images, self.args.keep.as_deref(), self.console)?,
            _ => recording::povray(self.args.keep.as_deref(), self.console)?,
        };
        let made = made.map(|recording::Made { program, chunk_bytes, scale, note }| {
            let workers_per_node = (f64::from(app.workers_per_node()) * scale).round().max(1.0) as u32;
            Rc::new(Recording { program: Arc::new(program), chunk_bytes, workers_per_node, note })
        });
        self.recordings.borrow_mut().insert(app, made.clone());
        Ok(made)
    }

    /// What must be known of an application's trace.
    pub(crate) fn note(&self, app: App) -> Result<String, Error> {
        Ok(match self.recording(app)? {
            Some(recording) => recording.note.clone(),
            None => format!("{}: generated, in the sizes of the thesis", app.name()),
        })
    }

    /// Bytes of an application's input, as far as they are read; of the generated Montage all of it.
    pub(crate) fn input_bytes(&self, app: App, traced: &Traced) -> Result<u64, Error> {
        let is_whole = app == App::Montage && !self.is_recorded(app)?;
        Ok(if is_whole { Montage::default().input_bytes() } else { traced.input_bytes })
    }

    /// Whether the application ran on this machine, in sizes of its own.
    pub(crate) fn is_recorded(&self, app: App) -> Result<bool, Error> {
        Ok(self.recording(app)?.is_some())
    }

    /// The program, bytes of a chunk, and workers of a node.
    fn program(&self, app: App, nodes: u32) -> Result<(Arc<dyn Program>, u32, u32), Error> {
        if let Some(recording) = self.recording(app)? {
            return Ok((recording.program.clone(), recording.chunk_bytes, recording.workers_per_node));
        }
        let program: Arc<dyn Program> = match app {
            App::Montage => Arc::new(Montage::default()),
            App::SimilarPages => Arc::new(SimilarPages::on_nodes(u64::from(nodes))),
            App::Povray => Arc::new(Povray { seed: self.args.seed, ..Povray::default() }),
            App::Btio => Arc::new(Btio { think_ns: btio_think_ns(nodes), ..Btio::full(Class::C, u64::from(nodes)) }),
            App::Miranda => Arc::new(Miranda::on_nodes(u64::from(nodes))),
        };
        Ok((program, app.chunk_bytes(), app.workers_per_node()))
    }

    fn pace(&self, app: App, run: Run, chunk_bytes: u32) -> Result<Box<dyn Pace>, Error> {
        // Gigabit Ethernet, and a server behind it.
        let ethernet = Direct::new(300_000, 110 * MB, 110 * MB);
        Ok(match run {
            Run::Fast(_) => Box::new(Direct::default()),
            Run::Direct => Box::new(Varied::new(ethernet, self.args.seed)),
            Run::Buffered => {
                let space_bytes = self.traced(app, Run::Direct)?.space_bytes;
                let capacity_bytes = (space_bytes as f64 * app.traced_buffer_share()) as u64;
                let buffered = Buffered::new(ethernet, ethernet, u64::from(chunk_bytes), capacity_bytes);
                Box::new(Varied::new(buffered, self.args.seed + 1))
            }
        })
    }

    /// The trace of an application.
    pub(crate) fn traced(&self, app: App, run: Run) -> Result<Rc<Traced>, Error> {
        if let Some(known) = self.traces.borrow().get(&(app, run)) {
            return Ok(known.clone());
        }
        let (program, chunk_bytes, per_node) = self.program(app, run.nodes())?;
        let pace = self.pace(app, run, chunk_bytes)?;
        let workers = Workers::new(run.nodes(), per_node);
        let traced = Rc::new(read(Player::new(program, workers, pace), chunk_bytes)?);
        self.traces.borrow_mut().insert((app, run), traced.clone());
        Ok(traced)
    }

    /// The trace of any program on a parallel file system.
    pub(crate) fn traced_program(&self, program: Arc<dyn Program>, workers: Workers, chunk_bytes: u32) -> Result<Traced, Error> {
        read(Player::new(program, workers, Box::new(Direct::default())), chunk_bytes)
    }

    /// Montage with so many images along a side, and what is known of it.
    pub(crate) fn montage_of(&self, side: u64) -> Result<(Traced, String), Error> {
        let workers = Workers::new(1, App::Montage.workers_per_node());
        if side == self.args.images
            && let Some(known) = self.recording(App::Montage)?
        {
            return Ok((self.traced_program(known.program.clone(), workers, known.chunk_bytes)?, known.note.clone()));
        }
        if !self.args.generated
            && let Some(made) = recording::montage(side, self.args.keep.as_deref(), self.console)?
        {
            return Ok((self.traced_program(Arc::new(made.program), workers, made.chunk_bytes)?, made.note));
        }
        let traced = self.traced_program(Arc::new(Montage { side, ..Montage::default() }), workers, App::Montage.chunk_bytes())?;
        Ok((traced, format!("Montage of {} images: generated, in the sizes of the thesis", side * side)))
    }

    /// Images along a side of the sky, for the thesis's three data sets.
    pub(crate) fn montage_sides(&self) -> [u64; 3] {
        if self.args.generated { [3, 9, 24] } else { [2, 4, self.args.images] }
    }

    /// Simulates a buffer; on so many nodes' throughput.
    pub(crate) fn simulate(
        &self,
        traced: &Traced,
        capacity_bytes: u64,
        policy: Policy,
        granularity: Granularity,
        nodes: u32,
    ) -> Result<Outcome, Infeasible> {
        let (write_back, counting) = (self.args.write_back(), Counting::Bytes);
        let config = BufferConfig { capacity_bytes, policy, granularity, write_back, counting, nodes };
        simulate(&traced.workload, &config, &self.rates)
    }

    /// The share of an unlimited buffer's throughput, percent, by the formula as printed; none if the buffer cannot work.
    pub(crate) fn percent(
        &self,
        traced: &Traced,
        capacity_bytes: u64,
        policy: Policy,
        granularity: Granularity,
        nodes: u32,
    ) -> Option<f64> {
        let outcome = self.simulate(traced, capacity_bytes, policy, granularity, nodes).ok()?;
        Some(100.0 * outcome.throughput(Formula::Paper).ratio())
    }
}

/// BT of class C computes for about 200 ms a step on a node, five steps to a dump; shared by the nodes.
fn btio_think_ns(nodes: u32) -> u64 {
    1_000_000_000 / u64::from(nodes.max(1))
}

/// Reads a trace once, for everything that is asked of it.
fn read(mut player: Player, chunk_bytes: u32) -> Result<Traced, Error> {
    let failed = |error: forebay_trace::Error| Error::Data(format!("a generated trace: {error}"));
    let (mut builder, mut locality, mut reuse) = (WorkloadBuilder::new(chunk_bytes), Locality::default(), Reuse::new());
    let mut touches = Touches::new(chunk_bytes, Continuation::PerProcess);
    let mut ends: HashMap<FileId, (bool, u64)> = HashMap::new();
    while let Some(record) = player.next_record().map_err(failed)? {
        builder.add(&record);
        locality.add(&record);
        touches.of(&record, |touch| reuse.touch(&touch));
        let (_, end) = ends.entry(record.file).or_insert((record.op == Op::Read, 0));
        *end = (*end).max(record.offset + record.size);
    }
    let input_bytes = ends.values().filter(|(is_input, _)| *is_input).map(|(_, end)| end).sum();
    let space_bytes = ends.values().map(|(_, end)| end).sum();
    let workload = builder.finish(player.names().shown_files());
    Ok(Traced { workload, locality, reuse, input_bytes, space_bytes })
}

/// The policies of the thesis, and our choice for the fifth (B-12).
pub(crate) const POLICIES: [(&str, Policy); 5] = [
    ("fifo", Policy::Online(ReplacementKind::Fifo)),
    ("lru", Policy::Online(ReplacementKind::Lru)),
    ("lfu", Policy::Online(ReplacementKind::Lfu)),
    ("lfuda", Policy::Online(ReplacementKind::Lfuda)),
    ("belady", Policy::Belady),
];

impl ReproduceArgs {
    fn write_back(&self) -> WriteBack {
        if self.sync { WriteBack::Sync } else { WriteBack::Async }
    }
}
