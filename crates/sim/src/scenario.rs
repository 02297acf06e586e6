//! What a seed means: the sizes of the node, the clients and what they do, and the faults.

use forebay_core::config::{NodeConfig, ReplacementKind, WriteBack};

use crate::rng::Rng;

/// A family of runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// One client, every operation.
    Mixed,
    /// Several clients in one tree.
    Clients,
    /// Several clients on the same few files.
    SharedFile,
    /// Files larger than the buffer, written and read in order.
    Stream,
    /// The smallest buffer.
    Tiny,
    /// Many small files and directories.
    ManyFiles,
    /// The process is killed, again and again.
    Kill,
    /// The power fails, again and again.
    Power,
    /// Home fails, stalls and lies.
    HomeFaults,
    /// The log and the journal fail.
    LogFaults,
    /// All of it.
    Storm,
    /// One client or several, with holes and extended attributes.
    Complete,
    /// The same, and everything that can go wrong.
    CompleteStorm,
    /// Single files are brought home, and asked where they are, with faults or without.
    Staging,
    /// Next to no inodes are remembered; with crashes now and then.
    FewInodes,
    /// The log has room for few records, and the writes are small; with crashes now and then.
    FewRecords,
    /// The process is killed, and another takes over while the clients wait.
    Takeover,
    /// The buffer's disk is full for a while, again and again; with crashes now and then.
    FullDisk,
    /// The buffer's disk fails at once, or turns read-only.
    BadDisk,
    /// Home refuses every change for a while, or answers nothing for a minute; with crashes now and then.
    HomeSpells,
    /// Somebody removes and changes things at home, which may fail as well.
    HomeChanged,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 21] = [
        Mode::Mixed,
        Mode::Clients,
        Mode::SharedFile,
        Mode::Stream,
        Mode::Tiny,
        Mode::ManyFiles,
        Mode::Kill,
        Mode::Power,
        Mode::HomeFaults,
        Mode::LogFaults,
        Mode::Storm,
        Mode::Complete,
        Mode::CompleteStorm,
        Mode::Staging,
        Mode::FewInodes,
        Mode::FewRecords,
        Mode::Takeover,
        Mode::FullDisk,
        Mode::BadDisk,
        Mode::HomeSpells,
        Mode::HomeChanged,
    ];

    /// The mode's name on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").chars().enumerate().fold(String::new(), |mut name, (at, c)| {
            if c.is_uppercase() && at > 0 {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
            name
        })
    }

    /// Whether its clients use all there is.
    fn is_complete(self) -> bool {
        matches!(self, Mode::Complete | Mode::CompleteStorm | Mode::Staging)
    }

    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The mode that a seed has when none is asked for.
    pub fn of_seed(seed: u64) -> Mode {
        Mode::ALL[(seed % Mode::ALL.len() as u64) as usize]
    }
}

/// What a client can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The requests of these names, and short scripts of them.
pub enum Action {
    Lookup,
    GetAttr,
    Create,
    Open,
    Release,
    Read,
    Write,
    Append,
    Truncate,
    SetAttr,
    MakeDir,
    RemoveDir,
    SymLink,
    ReadLink,
    Link,
    Unlink,
    Rename,
    Swap,
    Save,
    List,
    Sync,
    Drain,
    Forget,
    MakeNode,
    Status,
    Punch,
    Allocate,
    Seek,
    SetXattr,
    GetXattr,
    RemoveXattr,
    BringHome,
    Where,
}

impl Action {
    /// All actions, in the order of [`Workload::weights`].
    pub const ALL: [Action; ACTIONS] = [
        Action::Lookup,
        Action::GetAttr,
        Action::Create,
        Action::Open,
        Action::Release,
        Action::Read,
        Action::Write,
        Action::Append,
        Action::Truncate,
        Action::SetAttr,
        Action::MakeDir,
        Action::RemoveDir,
        Action::SymLink,
        Action::ReadLink,
        Action::Link,
        Action::Unlink,
        Action::Rename,
        Action::Swap,
        Action::Save,
        Action::List,
        Action::Sync,
        Action::Drain,
        Action::Forget,
        Action::MakeNode,
        Action::Status,
        Action::Punch,
        Action::Allocate,
        Action::Seek,
        Action::SetXattr,
        Action::GetXattr,
        Action::RemoveXattr,
        Action::BringHome,
        Action::Where,
    ];
}

/// Kinds of actions.
pub const ACTIONS: usize = 33;

/// What the clients do.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Clients, each with one request at a time.
    pub clients: usize,
    /// Actions in all.
    pub actions: u64,
    /// How likely each of [`Action::ALL`] is.
    pub weights: [u32; ACTIONS],
    /// Names in a directory.
    pub names: u64,
    /// Directories that a client knows, at most.
    pub dirs_max: usize,
    /// Largest offset that is written, in general.
    pub file_bytes_max: u64,
    /// Largest write.
    pub write_bytes_max: u32,
    /// Writes and reads go through the files in order.
    pub sequential: bool,
    /// The longest pause between two requests of a client, ns.
    pub pause_ns_max: u64,
    /// Objects that stand at home at the start.
    pub at_home: u64,
    /// Some of them are names of one file.
    pub links_at_home: bool,
    /// Set-id bits and extended attributes are about.
    pub is_complete: bool,
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Crashes in all.
    pub crashes: u64,
    /// Of a thousand crashes, how many are power losses.
    pub power_loss_per_mille: u64,
    /// A kill is a change of processes that clients do not notice but for a pause.
    pub takeover: bool,
    /// Steps between crashes, at most.
    pub crash_steps_max: u64,
    /// While home is failing: errors in a thousand effects.
    pub home_error_per_mille: u64,
    /// While home is failing: a bit of a thousand writes is turned.
    pub home_flip_per_mille: u64,
    /// In a thousand periods, how many are such that home stalls.
    pub home_stall_per_mille: u64,
    /// In a thousand periods, how many are such that home refuses every change, as a full or read-only one does, or stalls for a minute.
    pub home_spell_per_mille: u64,
    /// In a thousand periods, how many begin with a change at home that the machine knows nothing of.
    pub home_meddled_per_mille: u64,
    /// Errors in a thousand effects of the log.
    pub log_error_per_mille: u64,
    /// What becomes of the buffer's disk.
    pub disk: DiskFault,
}

/// What becomes of the buffer's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DiskFault {
    /// Nothing.
    #[default]
    None,
    /// It is full for a while, again and again.
    Full {
        /// It is full when the clients are done, and until a drain has given up.
        at_the_end: bool,
        /// The journal meets it too, which may have taken its space before.
        journal: bool,
        /// Of a thousand writes and spills, how many find no space.
        per_mille: u64,
        /// And of a thousand syncs.
        syncs_per_mille: u64,
    },
    /// It takes no more changes.
    ReadOnly,
    /// It takes and gives nothing, for a while or for good; what it has refused stays refused.
    Dead,
}

impl Faults {
    /// Whether home ever fails.
    pub fn any_at_home(&self) -> bool {
        let at_times = self.home_stall_per_mille + self.home_spell_per_mille + self.home_meddled_per_mille;
        self.home_error_per_mille + self.home_flip_per_mille + at_times > 0
    }
}

/// One run, but for its chance.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The family.
    pub mode: Mode,
    /// The node.
    pub config: NodeConfig,
    /// The clients.
    pub workload: Workload,
    /// The faults.
    pub faults: Faults,
    /// Bytes that the SSD writes in one piece.
    pub sector_bytes: usize,
    /// Home is another machine's, which keeps its power.
    pub home_is_elsewhere: bool,
    /// How slow effects are: a factor for all delays, in percent.
    pub delay_percent: u64,
}

//                            look attr crea open rele read writ appe trun seta mkdi rmdi syml rdln link unli rena swap save list sync drai forg mkno stat punc allo seek setx getx remx brng wher
const MIXED: [u32; ACTIONS] = [5, 4, 10, 6, 6, 12, 16, 6, 5, 4, 5, 3, 2, 2, 3, 6, 8, 3, 3, 4, 2, 1, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
const DATA: [u32; ACTIONS] = [2, 3, 6, 5, 4, 22, 34, 8, 6, 1, 0, 0, 0, 0, 0, 1, 1, 0, 2, 0, 3, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
const STREAM: [u32; ACTIONS] = [0, 1, 2, 1, 1, 20, 60, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
const NAMES: [u32; ACTIONS] = [6, 3, 14, 2, 8, 3, 5, 1, 1, 4, 10, 7, 4, 2, 6, 10, 16, 8, 4, 5, 1, 1, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const COMPLETE: [[u32; ACTIONS]; 2] = [
    [4, 4, 10, 6, 6, 10, 14, 4, 5, 6, 5, 3, 2, 1, 3, 6, 8, 2, 2, 3, 2, 1, 3, 1, 1, 6, 4, 4, 8, 6, 4, 0, 0],
    [2, 3, 6, 6, 3, 16, 24, 4, 4, 3, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 3, 1, 1, 0, 1, 16, 8, 8, 2, 2, 1, 0, 0],
];
const STAGING: [u32; ACTIONS] = [4, 2, 12, 5, 6, 8, 20, 5, 5, 4, 4, 2, 2, 0, 3, 4, 8, 3, 4, 1, 1, 1, 2, 1, 0, 6, 4, 2, 4, 2, 2, 16, 6];

impl Scenario {
    /// The scenario of a seed.
    pub fn new(mode: Mode, seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5CE7_A210);
        let config = config(mode, seed, &mut rng);
        let workload = workload(mode, &config, &mut rng);
        let faults = faults(mode, &mut rng);
        let sector_bytes = *rng.pick(&[512, 4096]);
        let delay_percent = *rng.pick(&[10, 100, 100, 400]);
        let home_is_elsewhere = rng.chance(300);
        Scenario { seed, mode, config, workload, faults, sector_bytes, home_is_elsewhere, delay_percent }
    }
}

fn config(mode: Mode, seed: u64, rng: &mut Rng) -> NodeConfig {
    let chunk_bytes = *rng.pick(&[4096, 4096, 8192, 16384]);
    let segment_bytes = chunk_bytes * *rng.pick(&[1, 2, 4, 4]);
    let segments_max = match mode {
        Mode::Tiny => *rng.pick(&[8, 8, 9]),
        Mode::Stream => *rng.pick(&[8, 10, 16]),
        _ => *rng.pick(&[8, 12, 16, 24, 64]),
    };
    let memory_segments_max = match mode {
        Mode::Tiny => 2,
        _ => rng.range(2, u64::from(segments_max)) as u32,
    };
    NodeConfig {
        chunk_bytes,
        segment_bytes,
        segments_max,
        memory_segments_max,
        replacement: *rng.pick(&ReplacementKind::ALL),
        write_back: *rng.pick(&[WriteBack::Async, WriteBack::Async, WriteBack::Sync]),
        write_back_delay_ns: *rng.pick(&[0, 1_000_000, 50_000_000, 500_000_000]),
        home_write_bytes_max: chunk_bytes * *rng.pick(&[1, 2, 8]),
        home_transfers_max: *rng.pick(&[1, 2, 4, 8]),
        home_changes_max: *rng.pick(&[1, 2, 8]),
        retry_delay_ns: *rng.pick(&[1_000_000, 200_000_000]),
        drain_tries_max: rng.range(1, 5) as u32,
        journal_records_max: *rng.pick(&[20, 100, 1000, 200_000]),
        records_max: if mode == Mode::FewRecords { *rng.pick(&[1, 200, 500, 2000]) } else { NodeConfig::default().records_max },
        hidden_names_max: if mode == Mode::FewInodes { *rng.pick(&[1, 5, 1 << 20]) } else { NodeConfig::default().hidden_names_max },
        takeover: mode == Mode::Takeover || seed.is_multiple_of(3),
        inodes_max: if mode == Mode::FewInodes || (mode == Mode::Takeover && seed.is_multiple_of(2)) {
            *rng.pick(&[1, 3, 6, 12])
        } else {
            NodeConfig::default().inodes_max
        },
        seed,
        uid: 1000,
        gid: 1000,
    }
}

fn workload(mode: Mode, config: &NodeConfig, rng: &mut Rng) -> Workload {
    let chunk = u64::from(config.chunk_bytes);
    let capacity = u64::from(config.segments_max) * u64::from(config.segment_bytes);
    let kind = match mode {
        Mode::SharedFile | Mode::Tiny => 1,
        Mode::Stream => 2,
        Mode::ManyFiles => 3,
        Mode::FewInodes => *rng.pick(&[0, 3]),
        Mode::Mixed | Mode::Clients => 0,
        Mode::Complete | Mode::CompleteStorm | Mode::FewRecords => rng.below(2) as usize,
        Mode::Staging => rng.below(2) as usize,
        _ => rng.below(4) as usize,
    };
    let clients = match mode {
        Mode::Mixed | Mode::ManyFiles => 1,
        Mode::Clients | Mode::SharedFile => rng.range(2, 4) as usize,
        _ => *rng.pick(&[1, 1, 2, 3]),
    };
    let names = match mode {
        Mode::SharedFile => 1 + rng.below(2),
        Mode::ManyFiles | Mode::FewInodes => *rng.pick(&[4, 30]),
        _ => rng.range(2, 6),
    };
    let takes_all = rng.chance(300);
    Workload {
        clients,
        actions: match mode {
            Mode::Stream => rng.range(60, 300),
            Mode::FewRecords => rng.range(200, 1200),
            _ => rng.range(30, 400),
        },
        weights: match mode {
            Mode::Staging => STAGING,
            // Holes divide pieces, and are bounded like records.
            _ if mode.is_complete() || mode == Mode::FewRecords => COMPLETE[kind % 2],
            Mode::Takeover if takes_all => COMPLETE[kind % 2],
            _ => [MIXED, DATA, STREAM, NAMES][kind],
        },
        names: if kind == 2 { 2 } else { names },
        dirs_max: rng.range(1, 8) as usize,
        file_bytes_max: match kind {
            2 => capacity * rng.range(2, 4),
            3 => 2 * chunk,
            _ => *rng.pick(&[2 * chunk, 6 * chunk, capacity]),
        },
        write_bytes_max: config.segment_bytes.min(match mode {
            Mode::FewRecords => *rng.pick(&[60, 60, 600, 20_000]),
            _ => *rng.pick(&[600, 4096, 20_000, 1 << 20]),
        }),
        sequential: kind == 2,
        pause_ns_max: *rng.pick(&[1_000, 100_000, 20_000_000]),
        at_home: *rng.pick(&[0, 3, 12, 30]),
        links_at_home: false,
        is_complete: mode.is_complete() || (mode == Mode::Takeover && takes_all),
    }
}

fn faults(mode: Mode, rng: &mut Rng) -> Faults {
    let crashes = Faults { crashes: rng.range(1, 6), crash_steps_max: *rng.pick(&[20, 150, 1500]), ..Faults::default() };
    let home = Faults {
        home_error_per_mille: *rng.pick(&[20, 200, 700]),
        home_flip_per_mille: *rng.pick(&[0, 50, 300]),
        home_stall_per_mille: *rng.pick(&[0, 300]),
        ..Faults::default()
    };
    match mode {
        Mode::FewInodes | Mode::FewRecords => match rng.below(4) {
            0 => crashes,
            1 => Faults { power_loss_per_mille: 1000, ..crashes },
            2 => home,
            _ => Faults::default(),
        },
        Mode::Kill => crashes,
        Mode::Takeover => {
            Faults { takeover: true, crashes: rng.range(1, 20), home_error_per_mille: *rng.pick(&[0, 0, 20, 300]), ..crashes }
        }
        Mode::Power => Faults { power_loss_per_mille: *rng.pick(&[500, 1000]), ..crashes },
        Mode::HomeFaults => home,
        Mode::LogFaults => Faults { log_error_per_mille: *rng.pick(&[1, 10, 50]), ..Faults::default() },
        Mode::Storm | Mode::CompleteStorm => {
            let power_loss_per_mille = *rng.pick(&[0, 500, 1000]);
            Faults {
                power_loss_per_mille,
                log_error_per_mille: *rng.pick(&[0, 0, 0, 2]),
                crashes: crashes.crashes,
                crash_steps_max: crashes.crash_steps_max,
                // Bytes that went home behind the last sync are not known to who comes back after a power loss, and are not
                // compared: then nobody could notice that home wrote others.
                home_flip_per_mille: if power_loss_per_mille > 0 { 0 } else { home.home_flip_per_mille },
                ..home
            }
        }
        Mode::FullDisk => {
            let disk = DiskFault::Full {
                at_the_end: rng.chance(300),
                journal: rng.chance(600),
                per_mille: *rng.pick(&[300, 700, 1000]),
                syncs_per_mille: *rng.pick(&[0, 0, 300, 1000]),
            };
            match rng.below(4) {
                0 => Faults { disk, ..crashes },
                1 => Faults { disk, power_loss_per_mille: 1000, ..crashes },
                2 => Faults { disk, home_flip_per_mille: 0, ..home },
                _ => Faults { disk, ..Faults::default() },
            }
        }
        Mode::HomeSpells => {
            let spells = Faults { home_spell_per_mille: *rng.pick(&[300, 700]), ..Faults::default() };
            match rng.below(4) {
                0 => Faults { crashes: crashes.crashes, crash_steps_max: crashes.crash_steps_max, ..spells },
                1 => Faults { power_loss_per_mille: 1000, crashes: crashes.crashes, crash_steps_max: crashes.crash_steps_max, ..spells },
                2 => Faults { home_spell_per_mille: 300, home_flip_per_mille: 0, ..home },
                _ => spells,
            }
        }
        Mode::HomeChanged => match rng.below(3) {
            0 => Faults { home_meddled_per_mille: 300, home_flip_per_mille: 0, ..home },
            _ => Faults { home_meddled_per_mille: *rng.pick(&[100, 500]), ..Faults::default() },
        },
        Mode::BadDisk => Faults { disk: *rng.pick(&[DiskFault::ReadOnly, DiskFault::Dead]), ..Faults::default() },
        Mode::Staging => match rng.below(5) {
            0 => crashes,
            1 => Faults { power_loss_per_mille: 1000, ..crashes },
            2 => home,
            3 => Faults {
                power_loss_per_mille: 500,
                crashes: crashes.crashes,
                crash_steps_max: crashes.crash_steps_max,
                home_flip_per_mille: 0,
                ..home
            },
            _ => Faults::default(),
        },
        _ => Faults::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_found_by_its_name() {
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(&mode.name()), Some(mode));
        }
        assert_eq!(Mode::SharedFile.name(), "shared-file");
    }

    #[test]
    fn every_scenario_is_one_that_a_node_takes() {
        for seed in 0..2000 {
            let scenario = Scenario::new(Mode::of_seed(seed), seed);
            assert_eq!(scenario.config.check(), Ok(()), "seed {seed}");
            assert!(scenario.workload.write_bytes_max <= scenario.config.segment_bytes);
        }
    }
}
