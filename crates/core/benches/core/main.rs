//! What the decisions themselves cost, on one thread and without any I/O.
//!
//! `cargo bench -p forebay-core --bench core` prints a table; after `--`: `--full` adds 10^7 extents, `--json FILE` writes the figures,
//! `--only TEXT` takes the rows whose name contains TEXT. `cargo test --benches` runs everything once with tiny sizes.

mod detection;
mod extents;
mod harness;
mod node;
mod replacement;

use std::process::ExitCode;

use harness::{Bench, Options};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut bench = Bench::new(options);
    extents::run(&mut bench);
    replacement::run(&mut bench);
    detection::run(&mut bench);
    node::run(&mut bench);
    match bench.finish() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
