//! The output of `strace -f -ttt -T -y`, of all calls or of those that concern files.
//!
//! The place of a read or write that has none is followed from open, seeks and earlier calls, through forks and duplicates. What cannot be
//! known (a descriptor from before the trace, an append) is flagged.

mod calls;
mod files;
mod line;

use std::collections::HashMap;
use std::io::BufRead;

use super::text::{Parser, Problem, State, TextReader, no};
use crate::format::Format;
use crate::names::Process;
use crate::record::{FileId, Flags, ProcessId, Record};
use crate::source::{Clock, Gap, GapReason};

use calls::{Call, Done};
use files::Files;
use line::Event;

/// A call whose end is still to come.
#[derive(Debug)]
struct Begun {
    name: Vec<u8>,
    arguments: Vec<u8>,
    start_ns: u64,
}

/// Understands the lines.
#[derive(Debug, Default)]
pub struct Strace {
    files: Files,
    begun: HashMap<u64, Begun>,
    /// Calls whose begin was not seen: strace came to the process in the middle of them.
    without_begin: u64,
}

/// Reads strace's output.
pub type Reader<R> = TextReader<R, Strace>;

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        TextReader::with(input, Strace::default())
    }
}

/// Whether a line looks like strace's.
pub(super) fn is_line(line: &[u8]) -> bool {
    line::parse(line).is_some()
}

impl Strace {
    /// A process that was not seen to be made comes from the one that is in the middle of making one.
    fn acquaint(&mut self, pid: u64) {
        if self.files.knows(pid) {
            return;
        }
        let parents = self.begun.iter().filter(|(parent, begun)| **parent != pid && calls::makes_processes(&begun.name));
        let mut parents: Vec<(u64, bool)> = parents.map(|(parent, begun)| (*parent, calls::shares_files(&begun.arguments))).collect();
        parents.sort_unstable();
        if let Some((parent, shares)) = parents.first() {
            self.files.forked(*parent, pid, *shares);
        }
    }

    fn finished(&mut self, call: &Call<'_>, state: &mut State) -> Result<(), Problem> {
        calls::understand(call, &mut self.files).into_iter().try_for_each(|done| ready(call, done, state))
    }
}

/// Gives what a call did as a record.
fn ready(call: &Call<'_>, done: Done, state: &mut State) -> Result<(), Problem> {
    let Done { op, path, other, offset, size, flags, result } = done;
    let mut record = Record::new(op, call.start_ns);
    record.flags = flags;
    match call.duration_ns {
        Some(duration_ns) => record.duration_ns = duration_ns,
        None => record.flags |= Flags::NO_DURATION,
    }
    record.process = process(call.pid, state)?;
    let mut file = |path: Option<Vec<u8>>| path.map_or(Ok(FileId::NONE), |path| state.tables.names.file(&path));
    (record.file, record.other) = (file(path)?, file(other)?);
    (record.offset, record.size) = (offset, size);
    match result {
        Some(result) => record.result = result,
        None => record.flags |= Flags::NO_RESULT | Flags::UNFINISHED,
    }
    state.ready.push_back(record);
    Ok(())
}

fn process(pid: u64, state: &mut State) -> Result<ProcessId, Problem> {
    Ok(state.tables.names.process(Process { pid, ..Process::default() })?)
}

impl Parser for Strace {
    const FORMAT: Format = Format::Strace;

    fn line(&mut self, text: &[u8], state: &mut State) -> Result<(), Problem> {
        if text.trim_ascii().is_empty() || text.starts_with(b"strace: ") {
            return Ok(());
        }
        let line = line::parse(text).ok_or_else(|| no("line of `strace -ttt`", text))?;
        state.tables.about.clock = Clock::Unix;
        self.acquaint(line.pid);
        let pid = line.pid;
        match line.event {
            Event::Call { name, arguments, result } => {
                let (start_ns, duration_ns) = (line.start_ns, line.duration_ns);
                self.finished(&Call { pid, start_ns, duration_ns, name, arguments, result: Some(result) }, state)
            }
            Event::Unfinished { name, arguments } => {
                let begun = Begun { name: name.to_vec(), arguments: arguments.to_vec(), start_ns: line.start_ns };
                match self.begun.insert(pid, begun) {
                    // What it interrupted never ends.
                    Some(lost) => self.finished(&lost.call(pid), state),
                    None => Ok(()),
                }
            }
            Event::Resumed { name, arguments, result } => {
                let Some(begun) = self.begun.remove(&pid).filter(|begun| begun.name == name) else {
                    self.without_begin += 1;
                    return Ok(());
                };
                let arguments = [&begun.arguments[..], arguments].concat();
                let call = Call { arguments: &arguments, duration_ns: line.duration_ns, result: Some(result), ..begun.call(pid) };
                self.finished(&call, state)
            }
            Event::Exited => match self.begun.remove(&pid) {
                Some(begun) => self.finished(&begun.call(pid), state),
                None => Ok(()),
            },
            Event::Signal => Ok(()),
        }
    }

    fn end(&mut self, state: &mut State) -> Result<(), Problem> {
        let mut begun: Vec<(u64, Begun)> = std::mem::take(&mut self.begun).into_iter().collect();
        begun.sort_by_key(|(pid, begun)| (begun.start_ns, *pid));
        begun.iter().try_for_each(|(pid, begun)| self.finished(&begun.call(*pid), state))?;
        if self.without_begin > 0 {
            let gap = Gap::new(GapReason::Unreadable, "calls were resumed whose begin is not in the trace");
            state.tables.gaps.push(Gap { count: self.without_begin, ..gap });
        }
        Ok(())
    }
}

impl Begun {
    fn call(&self, pid: u64) -> Call<'_> {
        Call { pid, start_ns: self.start_ns, duration_ns: None, name: &self.name, arguments: &self.arguments, result: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::text::testing::all;
    use super::*;
    use crate::record::Op;
    use crate::source::MemorySource;

    const TEXT: &str = "\
10 1700000000.000000 openat(AT_FDCWD</w>, \"in, a\", O_RDONLY|O_CLOEXEC) = 3</w/in, a> <0.000010>
10 1700000000.000100 read(3</w/in, a>, \"abc\"..., 4096) = 4096 <0.000002>
10 1700000000.000200 read(3</w/in, a>, \"\", 4096) = 10 <0.000002>
10 1700000000.000300 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>
11 1700000000.000310 read(3</w/in, a>, \"x\", 5) = 5 <0.000001>
10 1700000000.000320 <... clone resumed>, child_tidptr=0x7f) = 11 <0.000100>
10 1700000000.000400 lseek(3</w/in, a>, 100, SEEK_SET) = 100 <0.000001>
11 1700000000.000500 read(3</w/in, a>, \"x\", 5) = 5 <0.000001>
10 1700000000.000600 openat(AT_FDCWD</w>, \"log\", O_WRONLY|O_CREAT|O_APPEND, 0644) = 4</w/log> <0.000010>
10 1700000000.000700 write(4</w/log>, \"x\", 7) = 7 <0.000001>
10 1700000000.000800 pwrite64(5</w/db>, \"x\", 512, 8192 <unfinished ...>
11 1700000000.000850 +++ exited with 0 +++
10 1700000000.000900 <... pwrite64 resumed>) = -1 ENOSPC (No space left on device) <0.000200>
10 1700000000.001000 rename(\"/w/log\", \"/w/old\") = 0 <0.000010>
10 1700000000.001100 read(0</dev/pts/0>, \"x\", 5) = 5 <0.000001>
10 1700000000.001200 close(3</w/in, a>) = 0 <0.000001>
10 1700000000.001300 write(6<pipe:[77]>, \"x\", 5) = 5 <0.000001>
10 1700000000.001350 copy_file_range(7</w/from>, [4096], 8</w/to>, NULL, 9223372035781033984, 0) = 100 <0.000001>
10 1700000000.001400 fsync(5</w/db> <unfinished ...>
";

    fn source() -> MemorySource {
        all(Reader::new(TEXT.as_bytes())).unwrap()
    }

    #[test]
    fn places_are_followed_through_forks_and_seeks() {
        let source = source();
        let reads: Vec<(u64, u64)> =
            source.records().iter().filter(|record| record.op == Op::Read).map(|record| (record.offset, record.size)).collect();
        assert_eq!(reads[..4], [(0, 4096), (4096, 4096), (4106, 5), (100, 5)], "parent and child share the place");
        assert_eq!(source.tables.names.path(source.records()[0].file), b"/w/in, a");
        assert_eq!(source.records()[0].flags, Flags::FOR_READING);
    }

    #[test]
    fn results_and_flags_say_what_happened() {
        let source = source();
        let find = |op| source.records().iter().find(|record| record.op == op).copied().unwrap();
        let writes: Vec<Record> = source.records().iter().filter(|record| record.op == Op::Write).copied().collect();
        assert!(writes[0].flags.has(Flags::APPEND | Flags::NO_OFFSET));
        assert_eq!((writes[1].offset, writes[1].size, writes[1].result, writes[1].duration_ns), (8192, 512, -28, 200_000));
        assert_eq!(writes.len(), 3, "a pipe is no file");
        let copied = source.records().iter().find(|record| record.offset == 4096 && record.size == 100).unwrap();
        assert_eq!((copied.op, source.tables.names.path(copied.file)), (Op::Read, &b"/w/from"[..]));
        assert_eq!((writes[2].size, writes[2].flags.has(Flags::NO_OFFSET)), (100, true));
        let rename = find(Op::Rename);
        assert_eq!((source.tables.names.path(rename.file), source.tables.names.path(rename.other)), (&b"/w/log"[..], &b"/w/old"[..]));
        assert!(find(Op::Sync).flags.has(Flags::UNFINISHED));
        assert_eq!(source.tables.about.clock, Clock::Unix);
        let late = all(Reader::new(&b"10 1.5 <... read resumed>\"x\", 5) = 5 <0.1>\n10 1.6 close(3</a>) = 0\n"[..])).unwrap();
        assert_eq!((late.records().len(), late.tables.gaps[0].reason, late.tables.gaps[0].count), (1, GapReason::Unreadable, 1));
        let error = all(Reader::new(&b"10 1.5 close(3) = 0\nnonsense\n"[..])).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    proptest! {
        #[test]
        fn changed_lines_are_read_without_a_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20), cut: prop::sample::Index) {
            let mut text = TEXT.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            text.truncate(cut.index(text.len()));
            let _ = all(Reader::new(&text[..]));
            for line in text.split(|byte| *byte == b'\n') {
                let _ = all(Reader::new(line));
            }
        }
    }
}
