//! Counters of a run (B-02) and what they say of throughput (B-03).

use super::workload::Reference;
use super::{BufferConfig, Counting, Level, Rates, Workload};

/// What happened, in chunks, touches of chunks, and bytes that were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// IS: chunks that were read from home for the first time.
    pub first_read_chunks: u64,
    /// Touches that read what had never been in the buffer, and their bytes.
    pub first_read_references: u64,
    /// See [`Counters::first_read_references`].
    pub first_read_bytes: u64,
    /// RHS: touches that read what was in the buffer.
    pub read_hit_chunks: u64,
    /// Their bytes.
    pub read_hit_bytes: u64,
    /// RMS: chunks that were read from home after they had been swapped out.
    pub read_again_chunks: u64,
    /// Touches that read what had been swapped out, and their bytes.
    pub read_again_references: u64,
    /// See [`Counters::read_again_references`].
    pub read_again_bytes: u64,
    /// WS: touches that wrote.
    pub write_chunks: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Of them, those that found their chunk in the buffer.
    pub write_hits: u64,
    /// WBS: chunks that were written home to make room.
    pub write_back_chunks: u64,
    /// Chunks that went home in the background.
    pub background_chunks: u64,
    /// Chunks that were swapped out, clean or dirty.
    pub evicted_chunks: u64,
    /// Chunks that were dirty at the end: a drain would bring them home. No formula counts them.
    pub dirty_chunks_left: u64,
}

impl Counters {
    /// Counts a touch of what is in the buffer or not, and was there once or not; a read brings so many chunks of it in.
    #[inline]
    pub(super) fn count(&mut self, reference: Reference, is_hit: bool, was_seen: bool, loaded_chunks: u64) {
        let bytes = u64::from(reference.bytes);
        if reference.is_write() {
            self.write_chunks += 1;
            self.write_bytes += bytes;
            self.write_hits += u64::from(is_hit);
        } else if is_hit {
            self.read_hit_chunks += 1;
            self.read_hit_bytes += bytes;
        } else if was_seen {
            self.read_again_chunks += loaded_chunks;
            self.read_again_references += 1;
            self.read_again_bytes += bytes;
        } else {
            self.first_read_chunks += loaded_chunks;
            self.first_read_references += 1;
            self.first_read_bytes += bytes;
        }
    }

    /// Touches that did not find their chunk in the buffer, as a share of all.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        let hits = self.read_hit_chunks + self.write_hits;
        let all = self.first_read_references + self.read_again_references + self.read_hit_chunks + self.write_chunks;
        if all == 0 { 0.0 } else { 1.0 - hits as f64 / all as f64 }
    }
}

/// Which reading of B-03: whether reads of what was swapped out belong to what the application moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formula {
    /// As printed: the total is IS + RHS + WS, and shrinks with the buffer.
    Paper,
    /// The total is IS + RHS + WS + RMS, the same for every buffer.
    Full,
}

/// Throughput by one reading, bytes a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Bytes that the application moved.
    pub total_bytes: f64,
    /// With an unlimited buffer.
    pub max: f64,
    /// With this one.
    pub actual: f64,
}

impl Throughput {
    /// Which share of the best this buffer reaches.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.max == 0.0 { 1.0 } else { self.actual / self.max }
    }
}

/// Bytes and seconds of the five counters at their levels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// IS from home.
    pub first_read_s: f64,
    /// RMS from home.
    pub read_again_s: f64,
    /// WBS to home.
    pub write_back_s: f64,
    /// All that the application moved, at the buffer.
    pub buffer_s: f64,
    /// The part of it that is RMS.
    pub buffer_read_again_s: f64,
}

/// What a run gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The configuration.
    pub config: BufferConfig,
    /// What happened.
    pub counters: Counters,
    /// IS, RHS, RMS, WS and WBS in bytes, as the configuration counts.
    pub bytes: [f64; 5],
    /// IS and RMS as the application's side has them, in bytes: by files, more comes in than it asked for.
    pub asked: [f64; 2],
    /// How long all this takes.
    pub times: Times,
}

/// The names of the five counters.
pub const COUNTER_NAMES: [&str; 5] = ["IS", "RHS", "RMS", "WS", "WBS"];

impl Outcome {
    pub(super) fn new(counters: Counters, workload: &Workload, config: &BufferConfig, rates: &Rates) -> Outcome {
        let chunk = f64::from(workload.chunk_bytes());
        let chunks = |count: u64| count as f64 * chunk;
        let (hits, writes) = match config.counting {
            Counting::Chunks => (chunks(counters.read_hit_chunks), chunks(counters.write_chunks)),
            Counting::Bytes => (counters.read_hit_bytes as f64, counters.write_bytes as f64),
        };
        let seconds = |level, bytes: f64, transfers: u64| {
            let size = if transfers == 0 { chunk } else { bytes / transfers as f64 };
            bytes / rates.of(config.nodes, level, size.round() as u64)
        };
        let home = |level, count| seconds(level, chunks(count), count);
        let buffer_read_again_s = seconds(Level::BufferRead, chunks(counters.read_again_references), counters.read_again_references);
        let times = Times {
            first_read_s: home(Level::HomeRead, counters.first_read_chunks),
            read_again_s: home(Level::HomeRead, counters.read_again_chunks),
            write_back_s: home(Level::HomeWrite, counters.write_back_chunks),
            buffer_s: seconds(Level::BufferRead, chunks(counters.first_read_references), counters.first_read_references)
                + seconds(Level::BufferRead, hits, counters.read_hit_chunks)
                + seconds(Level::BufferWrite, writes, counters.write_chunks)
                + buffer_read_again_s,
            buffer_read_again_s,
        };
        let bytes =
            [chunks(counters.first_read_chunks), hits, chunks(counters.read_again_chunks), writes, chunks(counters.write_back_chunks)];
        let asked = [chunks(counters.first_read_references), chunks(counters.read_again_references)];
        Outcome { config: *config, counters, bytes, asked, times }
    }

    /// Formulas 5.1 to 5.5: Max = Total / (IS/home + Total/buffer), Actual = Total / ((IS + RMS + WBS)/home + Total/buffer).
    #[must_use]
    pub fn throughput(&self, formula: Formula) -> Throughput {
        let [_, hits, _, writes, _] = self.bytes;
        let [first, again] = self.asked;
        let times = &self.times;
        let (total_bytes, buffer_s) = match formula {
            Formula::Paper => (first + hits + writes, times.buffer_s - times.buffer_read_again_s),
            Formula::Full => (first + hits + writes + again, times.buffer_s),
        };
        let per_second = |seconds: f64| if total_bytes == 0.0 { 0.0 } else { total_bytes / seconds };
        let max = per_second(times.first_read_s + buffer_s);
        let actual = per_second(times.first_read_s + times.read_again_s + times.write_back_s + buffer_s);
        Throughput { total_bytes, max, actual }
    }

    /// The shares of the five counters (B-15); they sum to 1, unless nothing happened.
    #[must_use]
    pub fn shares(&self) -> [f64; 5] {
        let sum: f64 = self.bytes.iter().sum();
        self.bytes.map(|bytes| if sum == 0.0 { 0.0 } else { bytes / sum })
    }
}
