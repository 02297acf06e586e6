//! `forebay bench --profile`: what kind of disk or SSD is there, as a preset for `--disk`.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use forebay_store::device::emulated::{Answers, EmulatedDisk, SystemClock};
use forebay_store::device::model::{self, DeviceSpec, Scheduling};
use forebay_store::device::profile::{BYTES_MIN, Effort, Profile, ProfileError, Real, STEPS, profile};
use forebay_store::device::{Device, FileDevice};

use crate::args::BenchArgs;
use crate::console;
use crate::error::{Error, Exit};
use crate::report;

/// Bytes of a write that makes the file.
const FILL_BYTES: usize = 1 << 20;

pub(crate) fn command(args: &BenchArgs, place: &Path) -> Result<(), Error> {
    if let Some(path) = args.output.iter().find(|path| path.extension().is_none_or(|ending| ending != "toml")) {
        return Err(Error::usage(format!("--output: a profile is a preset; end the name {} in .toml", path.display())));
    }
    let place = place.canonicalize().map_err(Error::io(format!("find {}", place.display())))?;
    let kind = place.metadata().map_err(Error::io(format!("look at {}", place.display())))?.file_type();
    let (found, about) = match &args.disk {
        Some(name) if kind.is_dir() => emulated(args, &place, name)?,
        None if kind.is_dir() => in_directory(args, &place)?,
        None if kind.is_block_device() => of_device(args, &place)?,
        _ => return Err(Error::usage(format!("--profile: {} is neither a directory nor a block device", place.display()))),
    };
    let text = text(&found, &about);
    for path in &args.output {
        report::save(path, text.as_bytes())?;
    }
    if args.output.is_empty() { crate::print(&text) } else { Ok(()) }
}

/// The preset, with where it comes from and what is assumed before it.
fn text(found: &Profile, about: &str) -> String {
    let assumed = found.assumed.iter().map(|line| format!("# assumed: {line}\n"));
    let measured = found.found.iter().map(|line| format!("# {line}\n"));
    format!("# {about}\n{}{}{}", assumed.collect::<String>(), measured.collect::<String>(), model::text(&found.spec))
}

/// A file that has no name while it is used: nothing is left of it, however this ends.
fn nameless(directory: &Path, bytes: u64) -> Result<FileDevice, Error> {
    let path: PathBuf = directory.join(format!(".forebay-profile-{}", std::process::id()));
    let doing = || format!("make {}", path.display());
    OpenOptions::new().write(true).create_new(true).open(&path).and_then(|file| file.set_len(bytes)).map_err(Error::io(doing()))?;
    let device = FileDevice::open_direct(&path);
    std::fs::remove_file(&path).map_err(Error::io(doing()))?;
    device.map_err(Error::io(doing()))
}

fn in_directory(args: &BenchArgs, directory: &Path) -> Result<(Profile, String), Error> {
    let bytes = args.size / BYTES_MIN * BYTES_MIN;
    let device = nameless(directory, bytes)?;
    // What was never written is no place on a disk.
    let mut piece: Vec<u8> = (0..FILL_BYTES as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    let bar = console::steps_bar(bytes / FILL_BYTES as u64, "MiB of the file");
    for number in 0..bytes / FILL_BYTES as u64 {
        piece[..8].copy_from_slice(&number.to_le_bytes());
        let written = device.write_at(number * FILL_BYTES as u64, &piece);
        written.map_err(Error::io(format!("write in {}", directory.display())))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    device.sync().map_err(Error::io(format!("sync a file in {}", directory.display())))?;
    let mut found = measure(args, &device, bytes, true)?;
    found
        .assumed
        .extend((!device.is_direct()).then(|| "nothing: the page cache could not be passed by, and is what was measured".to_owned()));
    Ok((found, format!("{}, a file of {} MiB", directory.display(), bytes >> 20)))
}

fn of_device(args: &BenchArgs, path: &Path) -> Result<(Profile, String), Error> {
    let doing = || format!("open {}", path.display());
    let bytes = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(Error::io(doing()))?;
    let device = FileDevice::open_direct_to_read(path).map_err(Error::io(doing()))?;
    let found = measure(args, &device, bytes, false)?;
    Ok((found, format!("{}, {} MiB", path.display(), bytes >> 20)))
}

/// The profile of an emulated disk is what it was made from, if the directory is fast enough.
fn emulated(args: &BenchArgs, directory: &Path, name: &str) -> Result<(Profile, String), Error> {
    let spec = model::find(name).map_err(|error| Error::usage(format!("--disk: {error}")))?;
    let bytes = match &spec {
        DeviceSpec::Disk(disk) => disk.capacity_bytes,
        DeviceSpec::Ssd(_) | DeviceSpec::Rates(_) => args.size,
    };
    let disk = EmulatedDisk::new(nameless(directory, bytes)?, &spec, Scheduling::FIFO, Answers::Medium);
    let found = measure(args, &disk, bytes, true)?;
    Ok((found, format!("{name}, emulated in {}", directory.display())))
}

fn measure<D: Device>(args: &BenchArgs, device: &D, bytes: u64, may_write: bool) -> Result<Profile, Error> {
    let effort = if args.quick { Effort::QUICK } else { Effort::default() };
    let bar = console::steps_bar(STEPS, "steps");
    let found = profile(&mut Real::new(device, &SystemClock, bytes, may_write), effort, &mut |_| bar.inc(1));
    bar.finish_and_clear();
    found.map_err(|error| match error {
        ProfileError::Io(error) => Error::io("measure")(error),
        ProfileError::Small { .. } => Error::usage(error.to_string()),
        ProfileError::Senseless(_) => Error::Coded { message: error.to_string(), exit: Exit::Unavailable },
    })
}
