//! Applications of the tests: they run in the mount, under `forebay run`, and know nothing of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use forebay_tests::listing::{self, Times};
use forebay_tests::operations::{Executor, Mix, Operations};
use forebay_tests::process::is_root;
use forebay_tests::progress::Progress;
use forebay_tests::random::Random;

#[derive(Parser)]
#[command(about = "Applications that the tests run in a mount")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write what a tree holds into a file, as JSON.
    List { tree: PathBuf, into: PathBuf },
    /// Random operations here and in a plain directory; stop at the first difference.
    Compare {
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        steps: u64,
        /// The plain directory.
        #[arg(long)]
        plain: PathBuf,
        /// Compare the whole trees every so many steps.
        #[arg(long, default_value_t = 50)]
        every: u64,
    },
    /// Random operations in a directory, each noted in a file when it begins and when it came back.
    Log {
        #[arg(long)]
        seed: u64,
        /// Stop after so many; without it, when the file system dies.
        #[arg(long)]
        steps: Option<u64>,
        #[arg(long)]
        directory: PathBuf,
        #[arg(long)]
        progress: PathBuf,
        #[arg(long, default_value_t = 2)]
        syncs_percent: u64,
    },
    /// Print the operations of a seed, with what they come to in an empty plain directory.
    Show {
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        steps: u64,
        #[arg(long, default_value_t = 2)]
        syncs_percent: u64,
        /// The plain directory.
        directory: PathBuf,
    },
    /// Write a large file, overwrite parts of it, and read it all back.
    Flow {
        file: PathBuf,
        #[arg(long)]
        blocks: u64,
        #[arg(long)]
        seed: u64,
    },
    /// Read a file to its end, again and again, until the file `until` exists; then print how many bytes were read.
    Reread { file: PathBuf, until: PathBuf },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().what {
        What::List { tree, into } => list(&tree, &into),
        What::Compare { seed, steps, plain, every } => compare(seed, steps, &plain, every),
        What::Log { seed, steps, directory, progress, syncs_percent } => {
            log(seed, steps.unwrap_or(u64::MAX), &directory, &progress, syncs_percent)
        }
        What::Show { seed, steps, syncs_percent, directory } => {
            let mix = Mix { owners: is_root(), syncs_percent, ..Mix::default() };
            let mut executor = Executor::new(&directory);
            for (step, operation) in (1..=steps).zip(Operations::new(seed, mix)) {
                println!("{step} {operation:?}: {:?}", executor.run(&operation));
            }
            Ok(())
        }
        What::Flow { file, blocks, seed } => flow(&file, blocks, seed),
        What::Reread { file, until } => reread(&file, &until),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("exercise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(tree: &Path, into: &Path) -> io::Result<()> {
    let tree = listing::list(tree)?;
    std::fs::write(into, serde_json::to_vec(&tree)?)
}

fn compare(seed: u64, steps: u64, plain: &Path, every: u64) -> io::Result<()> {
    let here = Path::new(".");
    let (mut tested, mut model) = (Executor::new(here), Executor::new(plain));
    // A home without extended attributes has a mount without them.
    let has_xattrs = |root: &Path| rustix::fs::getxattr_query(root, "user.none") != Err(rustix::io::Errno::OPNOTSUPP);
    let mix = Mix { owners: is_root(), ranges: true, xattrs: has_xattrs(plain) && has_xattrs(here), ..Mix::default() };
    let compare_trees = |step| {
        let differences = listing::differences(&listing::list(plain)?, &listing::list(here)?, Times::Set);
        if differences.is_empty() {
            return Ok(());
        }
        Err(io::Error::other(format!("seed {seed}, after step {step}: the trees differ\n{}", differences.join("\n"))))
    };
    for (step, operation) in (1..=steps).zip(Operations::new(seed, mix)) {
        let (expected, found) = (model.run(&operation), tested.run(&operation));
        if expected != found {
            let what = format!("{operation:?}\nplain: {expected:?}\nmount: {found:?}");
            return Err(io::Error::other(format!("seed {seed}, step {step}: {what}")));
        }
        if step % every == 0 {
            compare_trees(step)?;
        }
    }
    // Open files without a name must not be missed by a drain that waits for their end.
    drop(tested);
    compare_trees(steps)
}

/// Errors by which a dead or dying mount answers; no operation of ours is answered so by a living one.
const DEAD: &[i32] = &[5, 19, 30, 103, 107, 108, 116];

fn log(seed: u64, steps: u64, directory: &Path, progress: &Path, syncs_percent: u64) -> io::Result<()> {
    let progress = Progress::create(progress)?;
    std::fs::create_dir_all(directory)?;
    let mut executor = Executor::new(directory);
    let mix = Mix { owners: is_root(), syncs_percent, ..Mix::default() };
    for (count, operation) in (1..=steps).zip(Operations::new(seed, mix)) {
        progress.begin(count)?;
        let seen = executor.run(&operation);
        if seen.as_ref().is_err_and(|errno| DEAD.contains(errno)) || operation.is_cut_short(&seen) {
            break;
        }
        progress.done(count)?;
        if seen.is_ok() && operation.syncs() {
            progress.synced(count)?;
        }
    }
    progress.end()
}

const BLOCK_BYTES: u64 = 256 << 10;

fn flow(path: &Path, blocks: u64, seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let content = |block: u64, edition: u64| Random::bytes(seed ^ (block << 20) ^ edition, BLOCK_BYTES as usize);
    let mut editions = vec![0; blocks as usize];
    for block in 0..blocks {
        file.write_all_at(&content(block, 0), block * BLOCK_BYTES)?;
        // What was written long ago has gone home meanwhile: it is overwritten there, and read from there.
        let other = random.below(block + 1);
        match random.below(4) {
            0 => {
                editions[other as usize] += 1;
                file.write_all_at(&content(other, editions[other as usize]), other * BLOCK_BYTES)?;
            }
            1 => check(&file, other, &content(other, editions[other as usize]))?,
            _ => {}
        }
    }
    for block in 0..blocks {
        check(&file, block, &content(block, editions[block as usize]))?;
    }
    let mut crc = 0;
    for block in 0..blocks {
        crc = crc32c::crc32c_append(crc, &content(block, editions[block as usize]));
    }
    println!("{crc:08x}");
    Ok(())
}

fn check(file: &File, block: u64, expected: &[u8]) -> io::Result<()> {
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, block * BLOCK_BYTES)?;
    match expected.iter().zip(&found).position(|(expected, found)| expected != found) {
        None => Ok(()),
        Some(at) => Err(io::Error::other(format!("block {block}: byte {at} is {} and was written as {}", found[at], expected[at]))),
    }
}

fn reread(path: &Path, until: &Path) -> io::Result<()> {
    let mut bytes = 0;
    loop {
        bytes += std::fs::read(path)?.len();
        if until.exists() {
            println!("{bytes}");
            return Ok(());
        }
    }
}
