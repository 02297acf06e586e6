//! The Python module: a wheel is built and used as a user would, alone, on a Dask cluster and in an array of Slurm jobs.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use forebay_tests::process::{DEADLINE, Ended, Process, eventually, is_root, machine_has, program, python_packages};
use forebay_tests::repository;
use tempfile::TempDir;

/// To build the wheel takes a compiler's time, on a machine that compiles other things as well.
const BUILD_DEADLINE: Duration = Duration::from_secs(900);

/// Where the module and what it needs can be imported from.
struct Module {
    packages: PathBuf,
    installed: PathBuf,
}

impl Module {
    /// Builds the wheel and installs it, once for all tests; none where scripts/setup could not fetch what that needs.
    fn get() -> Option<&'static Module> {
        static MODULE: OnceLock<Option<Module>> = OnceLock::new();
        MODULE.get_or_init(Module::build).as_ref()
    }

    fn build() -> Option<Module> {
        let packages = python_packages()?;
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-module");
        let _ = fs::remove_dir_all(&place);
        let (wheels, installed) = (place.join("wheels"), place.join("installed"));
        fs::create_dir_all(&installed).expect("the target directory takes files");
        let mut build = Command::new(packages.join("bin/maturin"));
        build.args(["build", "--profile", "dev", "--offline", "--locked", "--interpreter", "python3", "--out"]).arg(&wheels);
        build.arg("--manifest-path").arg(repository::root().join("clients/python/Cargo.toml"));
        // The tests' own build: what is there already is not built again.
        build.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder above"));
        Process::start(build, &place, "maturin").wait(BUILD_DEADLINE).expect_code(0);
        let wheel = fs::read_dir(&wheels).expect("wheels").next().expect("a wheel").expect("a wheel").path();
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "--quiet", "install", "--no-index", "--no-deps", "--target"]).arg(&installed).arg(wheel);
        Process::start(install, &place, "pip").wait(DEADLINE).expect_code(0);
        Some(Module { packages, installed })
    }

    fn path(&self) -> String {
        format!("{}:{}", self.installed.display(), self.packages.display())
    }

    fn python(&self, script: &str) -> Command {
        let mut command = Command::new("python3");
        command.arg(repository::root().join(script)).env("PYTHONPATH", self.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// A folder with a trace of four processes that read and write random blocks of a file each.
fn trace() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (mut text, mut state) = (String::new(), 1u64);
    for at in 0..4000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (process, block, us) = (1 + (state >> 33) % 4, (state >> 40) % 64, at * 300);
        let op = if state >> 63 == 0 { 'r' } else { 'w' };
        let _ = writeln!(text, "{}.{:06} 0.000200 {process} {op} /scratch/{process} {} 65536", us / 1_000_000, us % 1_000_000, block << 16);
    }
    let path = folder.path().join("trace.muse");
    fs::write(&path, text).expect("the folder takes files");
    (folder, path)
}

fn end(command: Command, folder: &Path, name: &str) -> Ended {
    Process::start(command, folder, name).wait(DEADLINE).expect_code(0)
}

/// What a command of Forebay says, as a file.
fn told(folder: &Path, name: &str, arguments: &[&str], trace: &Path) -> PathBuf {
    let mut command = Command::new(program("forebay"));
    command.args(arguments).arg(trace);
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, end(command, folder, name).stdout).expect("the folder takes files");
    path
}

#[test]
fn the_module_says_what_the_commands_say() {
    let Some(module) = machine_has(&["python3"]).then(Module::get).flatten() else { return };
    let (folder, trace) = trace();
    let records = told(folder.path(), "records", &["trace", "cat", "--json"], &trace);
    let chunk = ["--chunk", "64KiB", "--json"];
    let all = ["--policy", "lru,belady", "--granularity", "chunk,file", "--write-back", "sync,async", "--nodes", "1,4"];
    let sim = told(folder.path(), "sim", &[&["sim", "--capacity", "1MiB,4MiB,1GiB"], &all[..], &chunk[..]].concat(), &trace);
    let analyze = told(folder.path(), "analyze", &[&["analyze"], &chunk[..]].concat(), &trace);
    let mut command = module.python("tests/programs/python_module.py");
    command.arg(&trace).args([records, sim, analyze]);
    assert!(end(command, folder.path(), "module").stdout.contains("everything agrees"));
}

#[test]
fn a_sweep_on_a_dask_cluster() {
    let Some(module) = machine_has(&["python3"]).then(Module::get).flatten() else { return };
    let (folder, trace) = trace();
    let out = folder.path().join("sweep.parquet");
    let mut command = module.python("clients/python/examples/dask_sweep.py");
    // Workers put their files into the working directory.
    command.arg(&trace).arg(&out).args(["--chunk-bytes", "65536", "--parts", "7"]).current_dir(folder.path());
    assert!(end(command, folder.path(), "dask").stdout.starts_with("960 simulations by 7 tasks"));
    let text = "import pyarrow.parquet, sys; t = pyarrow.parquet.read_table(sys.argv[1]); \
                assert t.num_rows == 960 == len(set(zip(*(t[c].to_pylist() for c in ('capacity_bytes', 'policy', 'write_back', 'nodes'))))); \
                assert min(t['miss_ratio'].to_pylist()) < 0.1";
    let mut check = Command::new("python3");
    check.args(["-c", text]).arg(&out).env("PYTHONPATH", module.path());
    end(check, folder.path(), "check");
}

/// A Slurm of its own: a controller and a node on this machine, until it is dropped.
struct Slurm {
    folder: PathBuf,
    _controller: Process,
    _node: Process,
}

impl Slurm {
    fn start(folder: &Path) -> Slurm {
        // Both ports are free while the sockets stand, and nobody else asks for them at once afterwards.
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [controller, node] = sockets.map(|socket| socket.local_addr().expect("it has an address").port());
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let at = folder.display();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmdPort={node}\nSlurmUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/builtin\nReturnToService=2\nMpiDefault=none\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/node.pid\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2\nPartitionName=all Nodes=ALL Default=YES State=UP\n"
        );
        for name in ["state", "spool"] {
            fs::create_dir(folder.join(name)).expect("the folder takes folders");
        }
        fs::write(folder.join("slurm.conf"), text).expect("the folder takes files");
        let daemon = |name: &str| {
            let mut command = Command::new(format!("/usr/sbin/{name}"));
            command.arg("-D").arg("-f").arg(folder.join("slurm.conf"));
            Process::start(command, folder, name)
        };
        Slurm { folder: folder.to_owned(), _controller: daemon("slurmctld"), _node: daemon("slurmd") }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.folder.join("slurm.conf")).current_dir(repository::root().join("clients/python/examples"));
        command
    }

    /// What one of Slurm's programs says, or that it failed: the daemons come up when they like.
    fn ask(&self, arguments: &[&str]) -> Option<String> {
        let output = self.command(arguments[0]).args(&arguments[1..]).output().expect("Slurm's programs are installed");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[test]
fn a_sweep_as_an_array_of_slurm_jobs() {
    if !machine_has(&["python3", "slurmctld", "slurmd", "sbatch"]) || !is_root() {
        return;
    }
    let Some(module) = Module::get() else { return };
    let (folder, trace) = trace();
    let (slurm_folder, parts) = (folder.path().join("slurm"), folder.path().join("parts"));
    [&slurm_folder, &parts].into_iter().for_each(|path| fs::create_dir(path).expect("the folder takes folders"));
    let slurm = Slurm::start(&slurm_folder);
    let idle = eventually(DEADLINE, || slurm.ask(&["sinfo", "-h", "-o", "%t"]).is_some_and(|states| states.trim() == "idle"));
    assert!(idle, "the node is not ready: {:?}", slurm.ask(&["sinfo"]));
    let mut send = slurm.command("sbatch");
    send.args(["--parsable", "--array=1-5", "--output"]).arg(slurm_folder.join("job-%a.out")).arg("slurm_sweep.sh").arg(&trace).arg(&parts);
    send.env("PYTHONPATH", module.path());
    end(send, folder.path(), "sbatch");
    let outputs =
        || (1..=5).map(|task| fs::read_to_string(slurm_folder.join(format!("job-{task}.out"))).unwrap_or_default()).collect::<String>();
    let is_done = || slurm.ask(&["squeue", "-h"]).is_some_and(|jobs| jobs.trim().is_empty());
    assert!(eventually(DEADLINE, is_done), "the jobs do not end: {:?}\n{}", slurm.ask(&["squeue"]), outputs());
    let mut join = module.python("clients/python/examples/slurm_part.py");
    let joined = end(
        {
            join.arg("--join").arg(&parts).arg(folder.path().join("all.parquet"));
            join
        },
        folder.path(),
        "join",
    );
    assert!(joined.stdout.starts_with("192 simulations by 5 tasks"), "{}\n{}", joined.stdout, outputs());
}
