//! How fast home and buffer are: said, or measured.

use std::path::Path;

use forebay_sim::buffer::Rates;

use crate::console::Console;
use crate::curve::{self, Speed};
use crate::error::Error;
use crate::report::Unit;
use crate::size;

/// Runs for each size; their median counts.
const RUNS: u32 = 5;

/// A level of the model.
pub(super) struct Level {
    /// What the user said.
    pub(super) said: String,
    pub(super) is_measured: bool,
    pub(super) speeds: Vec<Speed>,
}

impl Level {
    /// From what an option says: an existing directory is measured, everything else is bytes a second.
    pub(super) fn new(option: &str, said: &str, console: Console) -> Result<Level, Error> {
        let folder = Path::new(said);
        if !folder.is_dir() {
            let rate = size::parse(said.trim_end_matches("/s")).ok().filter(|rate| *rate > 0);
            let rate =
                rate.ok_or_else(|| Error::usage(format!("{option}: \"{said}\" is no directory and no rate; write it as in 500MB")))? as f64;
            let speed = Speed { size_bytes: 1, read_bytes_per_s: rate, write_bytes_per_s: rate };
            return Ok(Level { said: said.to_owned(), is_measured: false, speeds: vec![speed] });
        }
        console.say(&format!("measuring {said}"));
        let speeds = curve::measure(folder, &curve::few_sizes(), RUNS, || ()).map_err(Error::io(format!("measure {said}")))?;
        Ok(Level { said: said.to_owned(), is_measured: true, speeds })
    }

    /// So many of it side by side.
    pub(super) fn times(mut self, count: u32) -> Level {
        for speed in &mut self.speeds {
            speed.read_bytes_per_s *= f64::from(count);
            speed.write_bytes_per_s *= f64::from(count);
        }
        self
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let rate = |speed: &Speed| {
            format!("reads {}, writes {}", Unit::BytesPerS.show(speed.read_bytes_per_s), Unit::BytesPerS.show(speed.write_bytes_per_s))
        };
        match (&self.speeds[..], self.is_measured) {
            ([.., last], true) => {
                format!("{} ({}, measured with transfers of {})", self.said, rate(last), Unit::Bytes.show(last.size_bytes as f64))
            }
            ([.., last], false) => Unit::BytesPerS.show(last.read_bytes_per_s),
            ([], _) => self.said.clone(),
        }
    }
}

/// Both levels for this number of nodes.
pub(super) fn rates(nodes: u32, home: &Level, buffer: &Level) -> Result<Rates, Error> {
    let table = curve::table(nodes, "home", &home.speeds) + &curve::table(nodes, "buffer", &buffer.speeds);
    Rates::parse(&table).map_err(|error| Error::Data(error.to_string()))
}
