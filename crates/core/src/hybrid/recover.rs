//! From what stands on the SSD after a crash to a node (I-11).

use super::*;

/// What was found on the SSD.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Every entry whose bytes are whole, in any order.
    pub entries: Vec<Entry>,
    /// Every note, in any order.
    pub notes: Vec<Note>,
    /// How the SSD was divided when the entries were made; all of those that count were made under the same layout. `None`: as the
    /// configuration says.
    pub layout: Option<Layout>,
}

impl HybridNode {
    /// A node that goes on where one has died. What was not home is in full regions and goes home as the flush policy sees fit.
    pub fn recover(config: HybridConfig, mut found: Recovered) -> HybridNode {
        let mut node = HybridNode::new(config);
        if let Some(layout) = found.layout {
            node.regions.divide(layout);
        }
        let emptied: alloc::collections::BTreeSet<Generation> = found
            .notes
            .iter()
            .filter_map(|note| match note {
                Note::Emptied(generation) => Some(*generation),
                Note::Superseded { .. } => None,
            })
            .collect();
        found.entries.sort_unstable_by_key(|entry| entry.lsn);
        for entry in found.entries.iter().filter(|entry| !emptied.contains(&entry.generation)) {
            node.regions.recover(entry);
        }
        for note in &found.notes {
            if let Note::Superseded { range, lsn } = note {
                node.regions.supersede(*range, *lsn);
                node.lsn = node.lsn.max(*lsn);
            }
        }
        node.lsn = node.lsn.max(found.entries.last().map_or(Lsn(0), |entry| entry.lsn));
        node.regions.skip_generations(emptied.last().copied().unwrap_or_default());
        node.divide_anew();
        node
    }
}
