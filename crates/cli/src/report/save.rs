//! Files of results.

use std::path::Path;

use crate::error::Error;

/// What a file of results has in it: its name says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A page for people.
    Page,
    /// JSON.
    Json,
    /// A table of texts.
    Csv,
    /// A table of columns.
    Parquet,
}

impl Kind {
    fn ending(self) -> &'static str {
        match self {
            Kind::Page => "html",
            Kind::Json => "json",
            Kind::Csv => "csv",
            Kind::Parquet => "parquet",
        }
    }

    /// Which of these a file is.
    pub(crate) fn of(path: &Path, known: &[Kind]) -> Result<Kind, Error> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let found = known.iter().find(|kind| ending.as_deref() == Some(kind.ending()));
        found.copied().ok_or_else(|| {
            let endings = known.iter().map(|kind| format!(".{}", kind.ending())).collect::<Vec<_>>().join(", ");
            Error::usage(format!("--output: the name {} says not what to write; end it in one of {endings}", path.display()))
        })
    }
}

/// Writes a file of results: all of it, or it stays as it was.
pub(crate) fn save(path: &Path, content: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = std::fs::write(&new, content).and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| {
        // What is left of it is of no use; that it cannot be removed either changes nothing.
        let _ = std::fs::remove_file(&new);
        Error::io(format!("write {}", path.display()))(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_it_is() {
        let known = [Kind::Page, Kind::Csv];
        assert_eq!(Kind::of(Path::new("a.b/x.HTML"), &known).unwrap(), Kind::Page);
        for wrong in ["x", "x.json", "html"] {
            assert!(Kind::of(Path::new(wrong), &known).unwrap_err().to_string().ends_with("one of .html, .csv"), "{wrong}");
        }
    }
}
