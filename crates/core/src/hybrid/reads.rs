//! The path of a read (S-12): what the regions have, newest first, and the rest from the disk.

use super::*;

impl HybridNode {
    pub(super) fn read(&mut self, call: CallId, access: Access) {
        let Access { range, .. } = access;
        let (mut parts, mut gaps) = (Vec::new(), Vec::new());
        self.regions.look_up(range, &mut parts, &mut gaps);
        self.counters.reads.add(range.len);
        self.counters.read_ssd_bytes += parts.iter().map(|(_, part)| part.len).sum::<u64>();
        self.open.insert(call, Open { effects: (parts.len() + gaps.len()) as u32, result: Ok(()) });
        for (generation, part) in parts {
            // The region is not emptied, nor its bytes overwritten, before the read is done.
            if let Some(region) = self.regions.get_mut(generation) {
                region.reads += 1;
            }
            let purpose = Purpose::Read { call, generation: Some(generation) };
            self.emit(purpose, |token| Effect::ReadSsd { token, call, file: range.file, part });
        }
        for gap in gaps {
            let range = FileRange { file: range.file, offset: gap.start, len: gap.end - gap.start };
            self.disk_begins();
            self.emit(Purpose::Read { call, generation: None }, |token| Effect::ReadDisk { token, call, range });
        }
    }

    pub(super) fn on_read(&mut self, call: CallId, generation: Option<Generation>, result: Result<(), Errno>) {
        match generation {
            Some(generation) => {
                if let Some(region) = self.regions.get_mut(generation) {
                    region.reads -= 1;
                }
                self.empty_if_unread();
            }
            None => self.disk_ends(),
        }
        self.finish_part(call, result);
    }
}
