//! I/O servers of a test: processes of `forebay serve`, started, killed and started again at the same place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::listing::{self, Times, Tree};
use crate::process::{self, DEADLINE, Ended, Process, eventually, program};
use crate::sandbox::{Sandbox, Size};

/// The stripes of all tests: small, so that small files have several.
pub const STRIPE: &str = "4KiB";

struct Server {
    policy: String,
    /// Where it listens, and did the first time.
    listen: String,
    process: Option<Process>,
    starts: u32,
}

/// Some servers in the directories of a sandbox; the first one over TCP, the others over sockets of the file system.
pub struct Servers<'a> {
    sandbox: &'a Sandbox,
    servers: Vec<Server>,
}

impl<'a> Servers<'a> {
    /// Starts a server for each policy, and waits until all listen.
    ///
    /// # Panics
    /// When one does not.
    #[must_use]
    pub fn start(sandbox: &'a Sandbox, policies: &[&str]) -> Servers<'a> {
        let key = sandbox.outside().join("key");
        fs::write(&key, "the key of this test, and of no other\n").expect("room outside");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("our own file");
        let server = |(index, policy): (usize, &&str)| Server {
            policy: (*policy).into(),
            listen: if index == 0 {
                "127.0.0.1:0".into()
            } else {
                format!("unix:{}", sandbox.folder().join(format!("s{index}")).display())
            },
            process: None,
            starts: 0,
        };
        let mut servers = Servers { sandbox, servers: policies.iter().enumerate().map(server).collect() };
        (0..policies.len()).for_each(|index| servers.restart(index));
        servers
    }

    /// The directory that a server serves.
    #[must_use]
    pub fn home(&self, index: usize) -> PathBuf {
        self.sandbox.folder().join(format!("home-{index}"))
    }

    /// The file with the key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.sandbox.outside().join("key")
    }

    /// Where a server listens.
    #[must_use]
    pub fn address(&self, index: usize) -> &str {
        &self.servers[index].listen
    }

    /// All addresses, as `--servers` wants them.
    #[must_use]
    pub fn list(&self) -> String {
        self.servers.iter().map(|server| server.listen.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The command that starts a server.
    #[must_use]
    pub fn command(&self, index: usize, ready: &Path) -> Command {
        let server = &self.servers[index];
        let mut command = self.sandbox.forebay("serve");
        command.arg("--home").arg(self.home(index)).arg("--key-file").arg(self.key()).arg("--ready").arg(ready);
        command.args(["--listen", &server.listen, "--policy", &server.policy]);
        if server.policy != "none" {
            let ssd = self.sandbox.folder().join(format!("ssd-{index}"));
            fs::create_dir_all(&ssd).expect("a directory for an SSD");
            command.args(["--ssd-size", "8MiB"]).arg("--ssd").arg(ssd);
        }
        command
    }

    /// Starts a server that does not run, where it was.
    ///
    /// # Panics
    /// When it does not listen before a deadline.
    pub fn restart(&mut self, index: usize) {
        fs::create_dir_all(self.home(index)).expect("a directory for a home");
        let starts = self.servers[index].starts;
        let ready = self.sandbox.outside().join(format!("ready-{index}-{starts}"));
        let mut process = Process::start(self.command(index, &ready), &self.sandbox.outside(), &format!("serve-{index}-{starts}"));
        assert!(eventually(DEADLINE, || ready.exists() || !process.runs()) && ready.exists(), "server {index}: {}", process.stderr());
        let listen = fs::read_to_string(&ready).expect("it says where it listens").trim().to_owned();
        self.servers[index] = Server { policy: self.servers[index].policy.clone(), listen, process: Some(process), starts: starts + 1 };
    }

    /// Kills a server with a signal, and waits until it has ended.
    ///
    /// # Panics
    /// When it does not run.
    pub fn end(&mut self, index: usize, signal: Signal) -> Ended {
        let process = self.servers[index].process.take().expect("a server that runs");
        process.signal(signal);
        process.wait(DEADLINE)
    }

    /// `forebay run` in front of the servers, without a command yet.
    #[must_use]
    pub fn run_command(&self, size: Size) -> Command {
        self.run_command_in(self.sandbox, size)
    }

    /// The same with mount and buffer in another sandbox.
    #[must_use]
    pub fn run_command_in(&self, sandbox: &Sandbox, size: Size) -> Command {
        let mut command = sandbox.forebay("run");
        command.args(["--servers", &self.list(), "--stripe", STRIPE]).arg("--key-file").arg(self.key());
        sandbox.place_buffer(&mut command, size);
        command
    }

    /// Runs a script in a mount in front of the servers; gives what the mount shows at its end.
    ///
    /// # Panics
    /// When it does not succeed.
    #[track_caller]
    #[must_use]
    pub fn run_script(&self, size: Size, script: &str) -> Tree {
        let shown = self.sandbox.outside().join("shown.json");
        let whole = format!("set -e\n{script}\n\"$EXERCISE\" list . \"$SHOWN\"\n");
        let mut run = self.run_command(size);
        run.args(["--", "sh", "-c", &whole]);
        run.env("EXERCISE", program("exercise")).env("SHOWN", &shown).env("OUTSIDE", self.sandbox.outside());
        Process::start(run, &self.sandbox.outside(), "run").wait(DEADLINE).expect_code(0);
        process::read_json(&shown).expect("the mount was listed")
    }

    /// What the servers hold, seen through a fresh mount.
    ///
    /// # Panics
    /// When it cannot be read.
    #[track_caller]
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.run_script(crate::sandbox::AMPLE, "true")
    }

    /// Runs a script in a plain directory and in front of the servers: what is left must be the same, but for the times of the paths named.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn same_as_plain(&self, size: Size, script: &str, with_times: &[&str]) {
        let plain = self.sandbox.run_plain(script);
        let shown = self.run_script(size, script);
        self.sandbox.assert_clean();
        let kept = self.tree();
        listing::assert_same(&shown, &kept, Times::All, "the servers against what the mount showed before the drain");
        let (plain, kept) = (listing::without(&plain, with_times), listing::without(&kept, with_times));
        listing::assert_same(&plain, &kept, Times::Set, "the servers against a plain directory");
    }

    /// Asks servers by a subcommand of `forebay serve`.
    #[must_use]
    pub fn ask(&self, arguments: &[&str]) -> Ended {
        let mut command = self.sandbox.forebay("serve");
        command.args(arguments).arg("--key-file").arg(self.key());
        Process::start(command, &self.sandbox.outside(), "ask").wait(DEADLINE)
    }

    /// What `forebay serve status` says of a server.
    ///
    /// # Panics
    /// When it says nothing.
    #[track_caller]
    #[must_use]
    pub fn status(&self, index: usize) -> serde_json::Value {
        let told = self.ask(&["status", self.address(index), "--json"]).expect_code(0);
        serde_json::from_str::<serde_json::Value>(&told.stdout).expect("JSON")[0].clone()
    }
}
