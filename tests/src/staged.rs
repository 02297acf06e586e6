//! A run whose script stops at points of its own, so that a test can act there.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::process::{DEADLINE, Ended, Process, eventually};
use crate::sandbox::{Sandbox, Size};

/// What a script can call: `reach NAME` tells the test that it has come there, `pass NAME` waits for the test.
const STAGES: &str = r#"
reach() { : >"$OUTSIDE/reached-$1"; }
pass() { until [ -e "$OUTSIDE/pass-$1" ]; do sleep 0.02; done; }
"#;

/// A run with such a script.
pub struct Staged {
    /// The run.
    pub run: Process,
    outside: PathBuf,
}

impl Staged {
    /// Starts a script under `forebay run`.
    #[must_use]
    pub fn start(sandbox: &Sandbox, size: Size, options: &[&str], script: &str) -> Staged {
        let mut command = sandbox.run_command(size);
        command.args(options);
        Staged::of(sandbox, command, script)
    }

    /// Starts a script under `forebay run` with arguments of the caller's own.
    #[must_use]
    pub fn of(sandbox: &Sandbox, mut command: Command, script: &str) -> Staged {
        command.args(["--", "sh", "-c", &format!("{STAGES}{script}")]).env("OUTSIDE", sandbox.outside());
        Staged { run: Process::start(command, &sandbox.outside(), "run"), outside: sandbox.outside() }
    }

    /// Waits until the script has come there.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn reached(&mut self, name: &str) {
        let file = self.outside.join(format!("reached-{name}"));
        let there = eventually(DEADLINE, || file.exists() || !self.run.runs()) && file.exists();
        assert!(there, "the command did not reach `{name}`: {}", self.run.stderr());
    }

    /// Lets the script go on from there.
    ///
    /// # Panics
    /// When the sandbox takes no file.
    pub fn pass(&self, name: &str) {
        fs::write(self.outside.join(format!("pass-{name}")), "").expect("room outside");
    }

    /// Waits for the end of the run, with this exit code.
    ///
    /// # Panics
    /// When it ends otherwise, or not at all.
    #[track_caller]
    pub fn end(self, code: i32) -> Ended {
        self.run.wait(DEADLINE).expect_code(code)
    }
}
