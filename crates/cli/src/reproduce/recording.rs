//! Applications that run here under a tracer: what they read and write, cut into tasks that can be played on any number of nodes.
//!
//! Each command of a workflow is traced by itself and is one task, so that the tasks can be given to other workers later.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_sim::workload::Recorded;
use forebay_trace::{Format, Op, import};

use super::scenes::SCENES;
use super::sky;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::size::Bytes;

/// A recorded application.
pub(crate) struct Made {
    pub(crate) program: Recorded,
    /// The unit of buffering that fits its files as the thesis's fits the files there.
    pub(crate) chunk_bytes: u32,
    /// Tasks beside those of the thesis's run.
    pub(crate) scale: f64,
    /// What ran, in words.
    pub(crate) note: String,
}

/// Pixels along a side of an image of Montage: a sixteenth of the bytes of the thesis's images, so chunks are a sixteenth of its 1 MiB.
const IMAGE_PIXELS: u64 = 180;
const MONTAGE_CHUNK_BYTES: u32 = 64 << 10;
/// Images of the thesis's largest data set, about: 1200 MB of 2 MB each.
const MONTAGE_IMAGES_THESIS: f64 = 576.0;

/// Where POV-Ray's scenes and what they include lie; the scenes are Debian's package povray-examples.
const POVRAY_PLACES: [&str; 2] = ["/usr/share/povray-3.7/", "/usr/share/doc/povray/"];
const POVRAY_SCENES: &str = "/usr/share/povray-3.7/scenes";
const POVRAY_INCLUDES: &str = "/usr/share/povray-3.7/include";

/// Whether all programs are there; says which are not.
fn all_there(what: &str, programs: &[&str], console: Console) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| crate::doctor::program(program).is_none()).collect();
    if !missing.is_empty() {
        console.warn(&format!("{what} is generated instead of traced: {} not found", missing.join(", ")));
    }
    missing.is_empty()
}

/// A directory with the files of a run, removed at the end unless the user wants it.
struct Place {
    folder: PathBuf,
    keep: bool,
}

impl Place {
    fn new(name: &str, keep: Option<&Path>) -> Result<Place, Error> {
        let parent = keep.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = parent.join(format!("forebay-reproduce-{name}-{}", std::process::id()));
        let fail = Error::io(format!("make {}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(fail)?;
        // Traces name files by where they really are.
        let folder = folder.canonicalize().map_err(Error::io("find the directory of the run"))?;
        Ok(Place { folder, keep: keep.is_some() })
    }

    fn folder(&self, name: &str) -> Result<(), Error> {
        std::fs::create_dir_all(self.folder.join(name)).map_err(Error::io(format!("make {name}")))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // What is left lies in the directory for temporary files.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Runs commands under a tracer, and gathers their tasks.
struct Tracer {
    place: Place,
    program: Recorded,
    commands: u64,
    /// Files elsewhere that count, too.
    outside: &'static [&'static str],
}

impl Tracer {
    /// Runs a command and adds what it read and wrote as a task of the phase. Whether it succeeded.
    fn run(&mut self, command: &[&str]) -> Result<bool, Error> {
        let trace = self.place.folder.join("strace.out");
        let status = Command::new("strace")
            .args(["-f", "-ttt", "-T", "-y", "-e", "trace=file,desc,process", "-o"])
            .arg(&trace)
            .args(command)
            .current_dir(&self.place.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(Error::io(format!("run {}", command.join(" "))))?;
        let failed = |error: forebay_trace::Error| Error::Data(format!("the trace of {}: {error}", command.join(" ")));
        let file = File::open(&trace).map_err(Error::io(format!("read {}", trace.display())))?;
        let (_, mut source) = import::open(Box::new(file), Some(Format::Strace)).map_err(failed)?;
        let (folder, outside) = (format!("{}/", self.place.folder.display()), self.outside);
        let name_of = |path: &str| match path.strip_prefix(&folder) {
            Some(inside) => Some(inside.to_owned()),
            None => outside.iter().any(|place| path.starts_with(place)).then(|| path.to_owned()),
        };
        self.program.add_task(&mut source, name_of).map_err(failed)?;
        self.commands += 1;
        if self.place.keep {
            let kept = self.place.folder.join(format!("task{:05}.strace", self.commands));
            std::fs::rename(&trace, kept).map_err(Error::io("keep a trace"))?;
        }
        Ok(status.success())
    }

    /// A command that must succeed.
    fn must(&mut self, command: &[&str]) -> Result<(), Error> {
        if self.run(command)? {
            return Ok(());
        }
        let message =
            format!("{} failed under strace; run it by hand in {} (--keep DIR keeps it)", command.join(" "), self.place.folder.display());
        Err(Error::Coded { message, exit: Exit::Unavailable })
    }

    fn text(&self, name: &str) -> Result<String, Error> {
        std::fs::read_to_string(self.place.folder.join(name)).map_err(Error::io(format!("read {name}")))
    }

    fn volume(&self) -> String {
        let bytes = |op| Bytes(self.program.bytes(op));
        format!("{} commands, {} read and {} written", self.commands, bytes(Op::Read), bytes(Op::Write))
    }
}

/// The lines of one of Montage's tables, as words, without its head.
fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().filter(|line| !line.starts_with(['|', '\\'])).map(|line| line.split_whitespace().collect())
}

/// Montage on so many images along a side of a made-up sky; none if it is not installed.
pub(crate) fn montage(side: u64, keep: Option<&Path>, console: Console) -> Result<Option<Made>, Error> {
    let programs = ["strace", "mImgtbl", "mMakeHdr", "mProjectPP", "mOverlaps", "mDiff", "mFitExec", "mBgModel", "mBackground", "mAdd"];
    if !all_there("Montage", &programs, console) {
        return Ok(None);
    }
    console.say(&format!("running Montage on {} images under strace", side * side));
    let place = Place::new(&format!("montage{side}"), keep)?;
    let mut tracer = Tracer { place, program: Recorded::new("montage", u64::from(MONTAGE_CHUNK_BYTES)), commands: 0, outside: &[] };
    for folder in ["raw", "projected", "differences", "corrected"] {
        tracer.place.folder(folder)?;
    }
    let names = sky::write(&tracer.place.folder.join("raw"), side, IMAGE_PIXELS).map_err(Error::io("write the images for Montage"))?;
    let header = Command::new("sh")
        .args(["-c", "mImgtbl raw raw.tbl && mMakeHdr raw.tbl mosaic.hdr"])
        .current_dir(&tracer.place.folder)
        .output()
        .map_err(Error::io("run mMakeHdr"))?;
    if !header.status.success() {
        let message = format!("mMakeHdr failed: {}", String::from_utf8_lossy(&header.stdout).trim());
        return Err(Error::Coded { message, exit: Exit::Unavailable });
    }
    for name in &names {
        tracer.must(&["mProjectPP", &format!("raw/{name}"), &format!("projected/{name}"), "mosaic.hdr"])?;
    }
    correct_and_add(&mut tracer)?;
    let note = format!(
        "Montage: ran here under strace on {} images of {} (the thesis: about 576 of 2 MB), {}; chunks of {}",
        names.len(),
        Bytes(4 * IMAGE_PIXELS * IMAGE_PIXELS),
        tracer.volume(),
        Bytes(u64::from(MONTAGE_CHUNK_BYTES))
    );
    let scale = names.len() as f64 / MONTAGE_IMAGES_THESIS;
    Ok(Some(Made { program: tracer.program, chunk_bytes: MONTAGE_CHUNK_BYTES, scale, note }))
}

/// The phases after the projection: overlaps and their planes, corrections, the mosaic.
fn correct_and_add(tracer: &mut Tracer) -> Result<(), Error> {
    tracer.program.begin_phase();
    tracer.must(&["mImgtbl", "projected", "images.tbl"])?;
    tracer.program.begin_phase();
    tracer.must(&["mOverlaps", "images.tbl", "differences.tbl"])?;
    tracer.program.begin_phase();
    let overlaps = tracer.text("differences.tbl")?;
    for row in rows(&overlaps) {
        let [_, _, plus, minus, difference] = row[..] else { continue };
        let (plus, minus) = (format!("projected/{plus}"), format!("projected/{minus}"));
        tracer.must(&["mDiff", &plus, &minus, &format!("differences/{difference}"), "mosaic.hdr"])?;
    }
    for reduce in [&["mFitExec", "differences.tbl", "fits.tbl", "differences"], &["mBgModel", "images.tbl", "fits.tbl", "corrections.tbl"]]
    {
        tracer.program.begin_phase();
        tracer.must(reduce)?;
    }
    tracer.program.begin_phase();
    let (images, corrections) = (tracer.text("images.tbl")?, tracer.text("corrections.tbl")?);
    let planes: std::collections::HashMap<&str, Vec<&str>> = rows(&corrections).filter_map(|row| Some((*row.first()?, row))).collect();
    for row in rows(&images) {
        let (Some(number), Some(name)) = (row.first(), row.last()) else { continue };
        let plane = planes.get(number).map_or(&["0", "0", "0"][..], |row| &row[1..]);
        let [a, b, c] = plane[..] else { continue };
        tracer.must(&["mBackground", &format!("projected/{name}"), &format!("corrected/{name}"), a, b, c])?;
    }
    for reduce in
        [&["mImgtbl", "corrected", "corrected.tbl"][..], &["mAdd", "-p", "corrected", "corrected.tbl", "mosaic.hdr", "mosaic.fits"]]
    {
        tracer.program.begin_phase();
        tracer.must(reduce)?;
    }
    Ok(())
}

/// Renders the scenes of POV-Ray's examples, small; none if they are not installed.
pub(crate) fn povray(keep: Option<&Path>, console: Console) -> Result<Option<Made>, Error> {
    if !all_there("POV-Ray", &["strace", "povray"], console) {
        return Ok(None);
    }
    let scenes: Vec<PathBuf> = SCENES.iter().map(|scene| Path::new(POVRAY_SCENES).join(scene)).filter(|scene| scene.is_file()).collect();
    if scenes.len() < SCENES.len() / 2 {
        console.warn("POV-Ray is generated instead of traced: its examples are not installed (Debian: povray-examples)");
        return Ok(None);
    }
    console.say(&format!("rendering {} scenes of POV-Ray under strace", scenes.len()));
    let program = Recorded::new("povray", 4096);
    let mut tracer = Tracer { place: Place::new("povray", keep)?, program, commands: 0, outside: &POVRAY_PLACES };
    let mut rendered = 0;
    for (number, scene) in scenes.iter().enumerate() {
        let (input, folder) = (format!("+I{}", scene.display()), scene.parent().unwrap_or(Path::new("/")).display().to_string());
        let (output, beside) = (format!("+Oimage{number:03}.png"), format!("+L{folder}"));
        let includes = format!("+L{POVRAY_INCLUDES}");
        let options = ["+W160", "+H120", "-D", "-GA", "+WT1", "+A0.9"];
        let command: Vec<&str> = ["povray", &input, &output, &includes, &beside].into_iter().chain(options).collect();
        // A scene that this version does not render has read its sources all the same.
        rendered += u32::from(tracer.run(&command)?);
    }
    let note = format!(
        "POV-Ray: ran here under strace on {} scenes of its examples, {rendered} rendered at 160x120, {}; chunks of 4 KiB",
        scenes.len(),
        tracer.volume()
    );
    Ok(Some(Made { program: tracer.program, chunk_bytes: 4096, scale: 1.0, note }))
}
