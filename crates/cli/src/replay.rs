//! `forebay replay`: a recorded run once more through the core, which must decide the same.

use forebay_core::node::Node;
use forebay_core::recovery;
use forebay_host::recorder::{self, ReplayError, ReplayReport, Start};

use crate::args::ReplayArgs;
use crate::console::Console;
use crate::error::Error;

/// The machine of a recording, made as it was.
fn start(start: Start) -> Result<Node, String> {
    match start {
        Start::New { config, now } => Node::new(config, now).map_err(|error| error.to_string()),
        Start::Recovered { config, records, memory_intact, now, checks } => {
            let mut answers = checks.into_iter();
            // A check more than recorded finds the piece damaged; the effects will then differ, and be reported.
            let mut check = |_: &recovery::PieceCheck| answers.next().unwrap_or(false);
            recovery::recover(config, records, memory_intact, now, &mut check, None)
                .map(|recovered| recovered.node)
                .map_err(|error| error.to_string())
        }
    }
}

/// `forebay replay`.
pub(crate) fn command(args: &ReplayArgs, console: Console) -> Result<(), Error> {
    let shown = args.file.display();
    let report: ReplayReport = recorder::replay(&args.file, start).map_err(|error: ReplayError| Error::Data(error.to_string()))?;
    if let Some(difference) = &report.difference {
        console.detail(&format!("the event: {:?}", difference.event));
        console.detail(&format!("the effects now: {:?}", difference.effects));
        return Err(Error::Data(format!(
            "the core decides differently at event {} of {shown}: {} effects with checksum {:08x} were recorded, there are {} with {:08x} now; \
             it was recorded by another version, or this is a bug (-v shows more)",
            difference.step, difference.recorded.0, difference.recorded.1, difference.replayed.0, difference.replayed.1
        )));
    }
    if let Some(at) = report.cut_at {
        console.warn(&format!("the recording {shown} is cut off at byte {at}; up to there it was replayed"));
    }
    console.say(&format!("{shown}: {} events and {} effects, all identical", report.steps, report.effects));
    Ok(())
}
