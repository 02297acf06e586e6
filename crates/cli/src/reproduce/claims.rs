//! What the papers say: numbers and sentences in a file beside the repository, one by one with an id.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Exit};

/// Where the file lies, seen from the repository.
const PLACE: &str = "../shared/reference/claims.toml";

/// One statement.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Claim {
    id: String,
    /// Where in the paper it stands.
    #[serde(rename = "where")]
    pub(crate) place: String,
    #[serde(default)]
    unit: String,
    value: toml::Value,
}

impl Claim {
    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match &self.value {
            toml::Value::Integer(number) => Some(*number as f64),
            toml::Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The statement as it is shown.
    pub(crate) fn text(&self) -> String {
        match &self.value {
            toml::Value::String(text) => text.clone(),
            other => format!("{other} {}", self.unit).trim().to_owned(),
        }
    }
}

#[derive(Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// All statements, by id.
#[derive(Debug)]
pub(crate) struct Claims {
    by_id: BTreeMap<String, Claim>,
}

impl Claims {
    pub(crate) fn parse(text: &str) -> Result<Claims, toml::de::Error> {
        let file: File = toml::from_str(text)?;
        Ok(Claims { by_id: file.claim.into_iter().map(|claim| (claim.id.clone(), claim)).collect() })
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Claim> {
        self.by_id.get(id)
    }

    /// The statements of the file that is named, or of the one beside the working directory or a folder above it; none if there is none.
    pub(crate) fn find(named: Option<&Path>) -> Result<Option<Claims>, Error> {
        let path = match named {
            Some(path) => Some(path.to_owned()),
            None => beside(&std::env::current_dir().unwrap_or_default()),
        };
        let Some(path) = path else { return Ok(None) };
        let text = std::fs::read_to_string(&path).map_err(|error| Error::Coded {
            message: format!("cannot read the papers' statements {}: {error}", path.display()),
            exit: Exit::Config,
        })?;
        Claims::parse(&text).map(Some).map_err(|error| Error::Data(format!("{}: {error}", path.display())))
    }
}

fn beside(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().map(|above| above.join(PLACE)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sentences_are_told_apart() {
        let text = "[[claim]]\nid = \"a.b\"\nwhere = \"Fig. 1\"\nunit = \"%\"\nvalue = 90\n[[claim]]\nid = \"a.c\"\nwhere = \"2\"\nvalue = \"It grows.\"\n";
        let claims = Claims::parse(text).unwrap();
        let (number, sentence) = (claims.get("a.b").unwrap(), claims.get("a.c").unwrap());
        assert_eq!((number.number(), number.text()), (Some(90.0), "90 %".to_owned()));
        assert_eq!((sentence.number(), sentence.text()), (None, "It grows.".to_owned()));
        assert!(claims.get("a.d").is_none() && Claims::parse("[[claim]]\nid = 3\n").is_err());
    }
}
