//! `forebay trace`: traces of I/O, read, shown, merged, filtered and written.

mod args;
mod columns;
mod filter;
mod generate;
mod info;
mod input;
mod line;
mod output;
mod record;

use std::path::Path;

use forebay_trace::{About, Names, Record, Source};

use args::{CatArgs, ConvertArgs, FilterArgs, ImportArgs, InfoArgs, Target, TraceCommand};
pub(crate) use args::{ReadArgs, TraceArgs};

use crate::console::Console;
use crate::error::Error;

/// `forebay trace`.
pub(crate) fn command(args: &TraceArgs, console: Console) -> Result<u8, Error> {
    let Some(command) = &args.command else { return record::command(&args.record, console) };
    match command {
        TraceCommand::Import(args) | TraceCommand::Merge(args) => import(args, console),
        TraceCommand::Info(args) => show_info(args),
        TraceCommand::Head(args) => cat(&args.cat, args.lines, console),
        TraceCommand::Cat(args) => cat(args, u64::MAX, console),
        TraceCommand::Filter(args) => filter(args, console),
        TraceCommand::Convert(args) => convert(args, console),
        TraceCommand::Generate(args) => generate::command(args, console),
    }?;
    Ok(0)
}

/// Gives every operation of a trace to `each`, by time, and says what is missing from it. The paths of its files.
pub(crate) fn read_sorted(path: &Path, read: &ReadArgs, console: Console, each: impl FnMut(&Record)) -> Result<Vec<String>, Error> {
    let names = read_named(path, read, console, each)?;
    Ok(names.shown_files())
}

/// The same; gives all names of the trace.
pub(crate) fn read_named(path: &Path, read: &ReadArgs, console: Console, mut each: impl FnMut(&Record)) -> Result<Names, Error> {
    let mut source = input::sorted(path, read, &args::CorrectArgs::default(), &std::env::temp_dir(), 1)?;
    while let Some(record) = source.next_record().map_err(input::failed(path))? {
        each(&record);
    }
    input::tell_gaps(&source, console);
    Ok(source.names().clone())
}

/// Every operation of a trace, by time, with its names and what is known of it.
pub(crate) fn read_whole(path: &Path, read: &ReadArgs, console: Console) -> Result<(Vec<Record>, Names, About), Error> {
    let mut source = input::sorted(path, read, &args::CorrectArgs::default(), &std::env::temp_dir(), 1)?;
    let mut records = Vec::new();
    while let Some(record) = source.next_record().map_err(input::failed(path))? {
        records.push(record);
    }
    input::tell_gaps(&source, console);
    Ok((records, source.names().clone(), source.about().clone()))
}

fn import(args: &ImportArgs, console: Console) -> Result<(), Error> {
    let mut source = input::merged(&args.traces, &args.read, &args.correct, &output::Output::folder(&args.out))?;
    let records = output::write_fbt(&mut source, &args.out)?;
    input::tell_gaps(&source, console);
    console.say(&format!("wrote {}: {records} operations on {} files", args.out.display(), source.names().files().len()));
    Ok(())
}

fn show_info(args: &InfoArgs) -> Result<(), Error> {
    let (format, mut source) = input::open(&args.trace, &args.read)?;
    let info = info::Info::of(&mut source).map_err(input::failed(&args.trace))?;
    crate::print(&if args.json { info.json(format.name()) } else { info.text(format.name()) })
}

/// Whether whoever reads the output has seen enough.
fn seen_enough(error: &forebay_trace::Error) -> bool {
    matches!(error, forebay_trace::Error::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn cat(args: &CatArgs, records_max: u64, console: Console) -> Result<(), Error> {
    let (_, mut source) = input::open(&args.trace, &args.read)?;
    let mut writer = line::Writer::new(std::io::BufWriter::new(std::io::stdout()), args.json);
    let mut shown = 0;
    let mut copy = || -> Result<(), forebay_trace::Error> {
        while shown < records_max
            && let Some(record) = source.next_record()?
        {
            writer.push(source.names(), &record)?;
            shown += 1;
        }
        Ok(())
    };
    match copy().and_then(|()| writer.finish().map(drop)) {
        Err(error) if !seen_enough(&error) => return Err(input::failed(&args.trace)(error)),
        _ => {}
    }
    input::tell_gaps(&source, console);
    Ok(())
}

fn filter(args: &FilterArgs, console: Console) -> Result<(), Error> {
    let FilterArgs { read, out, wanted, trace } = args;
    let mut source: input::AnySource = match input::open_indexed(trace, read)? {
        // The index leads past the blocks that cannot hold anything; a rename's second name is not in it.
        Some(mut reader) => {
            let begin_ns = reader.entries().iter().filter(|entry| entry.has_records()).map(|entry| entry.first_ns).min();
            let mut selection = filter::selection(wanted, begin_ns.unwrap_or(0), reader.names());
            let moves_data = !wanted.op.is_empty() && wanted.op.iter().all(|op| op.moves_data());
            selection.files = selection.files.filter(|_| moves_data);
            reader.select(selection);
            Box::new(filter::Filtered::new(reader, wanted.clone(), begin_ns))
        }
        None => Box::new(filter::Filtered::new(input::open(trace, read)?.1, wanted.clone(), None)),
    };
    let records = output::write_fbt(&mut source, out)?;
    input::tell_gaps(&source, console);
    console.say(&format!("wrote {}: {records} operations", out.display()));
    Ok(())
}

fn convert(args: &ConvertArgs, console: Console) -> Result<(), Error> {
    let folder = output::Output::folder(&args.out);
    let mut source = input::sorted(&args.trace, &args.read, &args.correct, &folder, 1)?;
    let (records, left_out) = output::write(&mut source, args.to, &args.out)?;
    input::tell_gaps(&source, console);
    if left_out > 0 {
        let target = match args.to {
            Target::Muse => "MUSE text",
            Target::Fio2 | Target::Fio3 => "an iolog",
            Target::Fbt | Target::Json | Target::Text | Target::Parquet => "this format",
        };
        console.warn(&format!("{left_out} of {records} operations cannot be said in {target} and were left out"));
    }
    if args.out != Path::new("-") {
        console.say(&format!("wrote {}: {} operations", args.out.display(), records - left_out));
    }
    Ok(())
}
