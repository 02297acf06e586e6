//! Which file a path stands for: a trace speaks of paths, and after a rename another one leads to the same file.

use forebay_trace::{FileId, Op, Record};

const NONE: u32 = u32::MAX;

/// Numbers of files. Without renames they are those of the paths.
#[derive(Default)]
pub(super) struct Identities {
    /// By path.
    file_of: Vec<u32>,
    /// By number: it stands for a file.
    used: Vec<bool>,
}

impl Identities {
    /// The file that a path leads to.
    pub(super) fn of(&mut self, path: FileId) -> FileId {
        let at = path.0 as usize;
        if at >= self.file_of.len() {
            self.file_of.resize(at + 1, NONE);
        }
        if self.file_of[at] == NONE {
            self.file_of[at] = if self.used.get(at).copied().unwrap_or(false) { self.new_number() } else { path.0 };
            self.set_used(self.file_of[at]);
        }
        FileId(self.file_of[at])
    }

    fn set_used(&mut self, number: u32) {
        let at = number as usize;
        if at >= self.used.len() {
            self.used.resize(at + 1, false);
        }
        self.used[at] = true;
    }

    fn new_number(&mut self) -> u32 {
        self.used.push(true);
        self.used.len() as u32 - 1
    }

    /// Follows a rename of a file.
    pub(super) fn follow(&mut self, record: &Record) {
        if record.op != Op::Rename || record.result < 0 || record.file == record.other || record.other == FileId::NONE {
            return;
        }
        let moved = self.of(record.file);
        self.of(record.other);
        self.file_of[record.other.0 as usize] = moved.0;
        // What comes to stand there is another file.
        self.file_of[record.file.0 as usize] = self.new_number();
    }

    /// The paths of the files by their numbers, from those of the paths: the last ones that they had.
    pub(super) fn paths(&self, paths: Vec<String>) -> Vec<String> {
        let mut shown = vec![String::new(); self.used.len().max(paths.len())];
        for (at, path) in paths.into_iter().enumerate() {
            let file = self.file_of.get(at).copied().filter(|file| *file != NONE).unwrap_or(at as u32);
            if shown[file as usize].is_empty() || file != at as u32 {
                shown[file as usize] = path;
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_itself_under_another_name() {
        let mut files = Identities::default();
        let rename = |from, to| Record { file: FileId(from), other: FileId(to), ..Record::new(Op::Rename, 0) };
        assert_eq!([0, 3].map(|path| files.of(FileId(path)).0), [0, 3]);
        files.follow(&rename(0, 1));
        assert_eq!(files.of(FileId(1)).0, 0, "the file has moved");
        let new = files.of(FileId(0)).0;
        assert!(![0, 1, 3].contains(&new), "a new file stands at its old place");
        // A path whose number has been given away gets another.
        assert!(files.of(FileId(new)).0 != new);
        // A replacement: the old file is gone.
        files.follow(&rename(1, 3));
        assert_eq!(files.of(FileId(3)).0, 0);
        files.follow(&Record { result: -2, ..rename(3, 1) });
        assert_eq!(files.of(FileId(3)).0, 0, "it failed");
        let paths = files.paths(["a", "b", "c", "d"].map(String::from).to_vec());
        assert_eq!(paths[0], "d");
    }
}
