//! What a node is told at its start.

use serde::{Deserialize, Serialize};

/// Which replacement policy chooses the chunk to swap out.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub enum ReplacementKind {
    /// B-08.
    Fifo,
    /// B-09.
    #[default]
    Lru,
    /// B-10.
    Lfu,
    /// B-11.
    Lfuda,
    /// S3-FIFO: three queues.
    S3Fifo,
    /// SIEVE: a FIFO with a hand.
    Sieve,
    /// ARC: two LRU queues with a target between them.
    Arc,
    /// LIRS: by the distance between uses.
    Lirs,
    /// W-TinyLFU: frequency decides who enters.
    WTinyLfu,
}

impl ReplacementKind {
    /// Every kind, under the name that users give it.
    pub const NAMED: [(&str, ReplacementKind); 9] = [
        ("fifo", ReplacementKind::Fifo),
        ("lru", ReplacementKind::Lru),
        ("lfu", ReplacementKind::Lfu),
        ("lfuda", ReplacementKind::Lfuda),
        ("s3-fifo", ReplacementKind::S3Fifo),
        ("sieve", ReplacementKind::Sieve),
        ("arc", ReplacementKind::Arc),
        ("lirs", ReplacementKind::Lirs),
        ("w-tinylfu", ReplacementKind::WTinyLfu),
    ];

    /// Every kind.
    pub const ALL: [ReplacementKind; 9] = {
        let mut all = [ReplacementKind::Fifo; 9];
        let mut at = 0;
        while at < all.len() {
            all[at] = Self::NAMED[at].1;
            at += 1;
        }
        all
    };
}

/// When dirty bytes go home.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub enum WriteBack {
    /// B-05: in the background, as soon as they have rested for `write_back_delay_ns`.
    #[default]
    Async,
    /// B-04: only when their chunk is swapped out, or by a drain.
    Sync,
}

/// Segments beside the capacity that only the cleaner fills: without one it could not empty another, and with them in addition writers
/// have the whole capacity for a burst.
pub const CLEANING_SEGMENTS: u32 = 2;

/// The fewest records that a segment must have room for: with fewer the cleaner could not win anything from what it empties.
pub const SEGMENT_RECORDS_MIN: u32 = 16;

/// What a node is told at its start. All limits are per node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct NodeConfig {
    /// Bytes of a chunk; a power of two.
    pub chunk_bytes: u32,
    /// Bytes of a log segment; a multiple of 4096.
    pub segment_bytes: u32,
    /// Segments that hold what clients write and read, in memory and on the SSD together; at least 8. The log has
    /// [`CLEANING_SEGMENTS`] more.
    pub segments_max: u32,
    /// Of these, segments that may be in memory at a time; at least 2, at most `segments_max`.
    pub memory_segments_max: u32,
    /// The replacement policy.
    pub replacement: ReplacementKind,
    /// When dirty bytes go home.
    pub write_back: WriteBack,
    /// How long dirty bytes rest before background write-back takes them, ns.
    pub write_back_delay_ns: u64,
    /// The largest single write at home, bytes.
    pub home_write_bytes_max: u32,
    /// Home effects of data in flight at a time.
    pub home_transfers_max: u32,
    /// Home changes of names and attributes in flight at a time.
    pub home_changes_max: u32,
    /// Pause before a failed home effect is tried again, ns.
    pub retry_delay_ns: u64,
    /// Tries of one home effect before a drain gives up on it.
    pub drain_tries_max: u32,
    /// Journal records after which a new journal begins, beside the size of the snapshot itself.
    pub journal_records_max: u64,
    /// Inodes known at a time, beside those that clients use: above, what is as home has it is forgotten, and what makes more waits.
    pub inodes_max: u32,
    /// Records of the log that are kept at a time, about: a segment is full when its share of them is used up, too. At least
    /// [`SEGMENT_RECORDS_MIN`] for each segment.
    pub records_max: u32,
    /// Names that are kept as hashes at a time, beside those of the largest directory: above, directories are listed again.
    pub hidden_names_max: u32,
    /// A new process may take over from one that was killed, while clients wait: what they refer to is written down.
    pub takeover: bool,
    /// Seed for every choice that is random.
    pub seed: u64,
    /// The owner of the home directory's files when the host is not root: new files at home cannot have another owner.
    pub uid: u32,
    /// See `uid`.
    pub gid: u32,
}

impl NodeConfig {
    /// Segments that the log on the SSD has room for.
    pub fn ssd_slots(&self) -> u32 {
        self.segments_max.saturating_add(CLEANING_SEGMENTS)
    }

    /// What a record takes of its segment at least, bytes: so the log, when it is full, has about `records_max` of them.
    pub fn record_bytes_min(&self) -> u32 {
        let log_bytes = u64::from(self.ssd_slots()) * u64::from(self.segment_bytes);
        let share_bytes = log_bytes.div_ceil(u64::from(self.records_max.max(1)));
        u32::try_from(share_bytes).unwrap_or(u32::MAX).min(self.segment_bytes / SEGMENT_RECORDS_MIN).max(1)
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            chunk_bytes: 1 << 20,
            segment_bytes: 4 << 20,
            segments_max: 256,
            memory_segments_max: 64,
            replacement: ReplacementKind::Lru,
            write_back: WriteBack::Async,
            write_back_delay_ns: 500_000_000,
            home_write_bytes_max: 8 << 20,
            home_transfers_max: 32,
            home_changes_max: 16,
            retry_delay_ns: 200_000_000,
            drain_tries_max: 5,
            journal_records_max: 200_000,
            inodes_max: 12_000,
            records_max: 1 << 16,
            hidden_names_max: 1 << 20,
            takeover: false,
            seed: 0,
            uid: 0,
            gid: 0,
        }
    }
}
