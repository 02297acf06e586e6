//! Bytes of files that are striped over servers.

use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, ServerId};
use forebay_core::message::SeekWhence;
use forebay_core::policy::RequestClass;
use forebay_host::net::Ask;
use forebay_host::net::message::{Bytes, Hint, Reply, Request};
use forebay_host::net::wire::PAYLOAD_BYTES_MAX;

use super::serve::CHECKSUMS_MAX;
use super::striped::ServersHome;

type Result<T> = std::result::Result<T, Errno>;

/// A file and a part of it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) ino: Ino,
    pub(super) path: &'a HomePath,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// What one server has of a range.
struct OnServer {
    index: usize,
    /// Bytes from the start of the server's part.
    offset: u64,
    len: u64,
}

impl ServersHome {
    /// The servers that have bytes of a range, in the order of their numbers. What a server has of it is contiguous there.
    fn on_servers(&self, offset: u64, len: u64) -> Vec<OnServer> {
        let end = offset.saturating_add(len);
        let part = |index: u32| {
            let (start, end) = (self.layout.part_len(index, offset), self.layout.part_len(index, end));
            OnServer { index: index as usize, offset: start, len: end - start }
        };
        (0..self.layout.servers).map(part).filter(|part| part.len > 0).collect()
    }

    /// A range in steps that each server can take as one request.
    fn steps<'a>(&self, place: Place<'a>) -> impl Iterator<Item = Place<'a>> {
        let most = PAYLOAD_BYTES_MAX as u64;
        // Of so much, a server has at most one stripe more than its share.
        let step = most.max(most.saturating_sub(self.layout.stripe_bytes) * u64::from(self.layout.servers));
        let end = place.offset.saturating_add(place.len);
        let mut at = place.offset;
        std::iter::from_fn(move || {
            let len = step.min(end - at);
            at += len;
            (len > 0).then_some(Place { offset: at - len, len, ..place })
        })
    }

    /// The stripes of a range: on which server, and from where to where in the range.
    fn stripes(&self, offset: u64, len: u64) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let (layout, end, mut at) = (self.layout, offset + len, offset);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let start = at;
            at = (start - start % layout.stripe_bytes).saturating_add(layout.stripe_bytes).min(end);
            Some((layout.place(start).0.0 as usize, (start - offset) as usize..(at - offset) as usize))
        })
    }

    fn hint(&self, whole: u64, parts: &[OnServer], part: &OnServer) -> Hint {
        let class = self.rule.class(whole, parts.len(), part.len);
        let siblings = match class {
            RequestClass::Fragment => {
                parts.iter().filter(|other| other.index != part.index).map(|other| ServerId(other.index as u32)).collect()
            }
            _ => Vec::new(),
        };
        Hint { class, siblings }
    }

    pub(super) fn read_bytes(&self, place: Place<'_>, buf: &mut [u8]) -> Result<u32> {
        self.note_request();
        let mut there = 0;
        for step in self.steps(place) {
            let start = (step.offset - place.offset) as usize;
            there = there.max(start as u64 + self.read_step(step, place.len, &mut buf[start..start + step.len as usize])?);
        }
        u32::try_from(there).map_err(|_| Errno::EINVAL)
    }

    /// Reads what one request to each server gives. The bytes up to the last that is there.
    fn read_step(&self, step: Place<'_>, whole: u64, buf: &mut [u8]) -> Result<u64> {
        let parts = self.on_servers(step.offset, step.len);
        let ask = |part: &OnServer| {
            let bytes = Bytes { ino: step.ino, path: step.path.clone(), offset: part.offset, len: part.len };
            (part.index, Ask { request: Request::Read { bytes, hint: self.hint(whole, &parts, part) }, payload: Vec::new() })
        };
        let answers = self.some(parts.iter().map(ask).collect())?;
        let mut rests: Vec<&[u8]> = vec![&[]; self.remotes.len()];
        let mut there = 0;
        for (part, answer) in parts.iter().zip(&answers) {
            if answer.reply != Reply::Read || answer.payload.len() as u64 > part.len {
                return Err(Errno::EIO);
            }
            rests[part.index] = &answer.payload;
            if !answer.payload.is_empty() {
                let end = self.layout.whole_len(part.index as u32, part.offset + answer.payload.len() as u64);
                there = there.max(end.saturating_sub(step.offset));
            }
        }
        for (index, range) in self.stripes(step.offset, step.len) {
            let (now, later) = rests[index].split_at(range.len().min(rests[index].len()));
            let stripe = &mut buf[range];
            stripe[..now.len()].copy_from_slice(now);
            stripe[now.len()..].fill(0);
            rests[index] = later;
        }
        Ok(there)
    }

    pub(super) fn write_bytes(&self, place: Place<'_>, bytes: &[u8]) -> Result<()> {
        self.note_request();
        for step in self.steps(place) {
            let start = (step.offset - place.offset) as usize;
            let bytes = &bytes[start..start + step.len as usize];
            let parts = self.on_servers(step.offset, step.len);
            let mut payloads: Vec<Vec<&[u8]>> = vec![Vec::new(); self.remotes.len()];
            for (index, range) in self.stripes(step.offset, step.len) {
                payloads[index].push(&bytes[range]);
            }
            let asks = parts.iter().map(|part| {
                let bytes = Bytes { ino: step.ino, path: step.path.clone(), offset: part.offset, len: part.len };
                let request = Request::Write { bytes, hint: self.hint(place.len, &parts, part) };
                (part.index, Ask { request, payload: std::mem::take(&mut payloads[part.index]) })
            });
            self.some(asks.collect())?;
        }
        Ok(())
    }

    /// Whether a range has this CRC-32C. Each server gives the sums of its stripes, which are brought together in the order of the file.
    pub(super) fn compare_bytes(&self, place: Place<'_>, crc: u32) -> Result<bool> {
        let step_bytes = CHECKSUMS_MAX.saturating_sub(2).saturating_mul(self.layout.stripe_bytes).max(1);
        let end = place.offset.saturating_add(place.len);
        let (mut at, mut sum, mut is_whole) = (place.offset, 0, true);
        while at < end {
            let len = step_bytes.min(end - at);
            let parts = self.on_servers(at, len);
            let ask = |part: &OnServer| {
                let bytes = Bytes { ino: place.ino, path: place.path.clone(), offset: part.offset, len: part.len };
                (part.index, Ask { request: Request::Checksums { bytes, unit: self.layout.stripe_bytes }, payload: Vec::new() })
            };
            let answers = self.some(parts.iter().map(ask).collect())?;
            let mut sums: Vec<std::vec::IntoIter<u32>> = vec![Vec::new().into_iter(); self.remotes.len()];
            for (part, answer) in parts.iter().zip(answers) {
                let Reply::Checksums { sums: found, there } = answer.reply else { return Err(Errno::EIO) };
                sums[part.index] = found.into_iter();
                is_whole &= there == part.len;
            }
            for (index, range) in self.stripes(at, len) {
                let Some(stripe) = sums[index].next() else { return Ok(false) };
                sum = crc32c::crc32c_combine(sum, stripe, range.len());
            }
            at += len;
        }
        // A part that ends early may be a hole of a file that goes on elsewhere.
        Ok(sum == crc && (is_whole || self.size(place.path)? >= end))
    }

    pub(super) fn compare_zero_bytes(&self, place: Place<'_>) -> Result<bool> {
        let parts = self.on_servers(place.offset, place.len);
        let ask = |part: &OnServer| {
            let bytes = Bytes { ino: place.ino, path: place.path.clone(), offset: part.offset, len: part.len };
            (part.index, Ask { request: Request::CompareZeros { bytes }, payload: Vec::new() })
        };
        let answers = self.some(parts.iter().map(ask).collect())?;
        Ok(answers.iter().all(|answer| answer.reply == Reply::Compared(true)))
    }

    /// The next data or hole. A server that has nothing more there has a hole, as long as the file goes on elsewhere.
    pub(super) fn seek_bytes(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>> {
        let size = self.size(path)?;
        if offset >= size {
            return Ok(None);
        }
        let start = |index: u32| self.layout.part_len(index, offset);
        let ask = |index: u32| {
            let request = Request::Seek { ino, path: path.clone(), offset: start(index), whence };
            (index as usize, Ask { request, payload: Vec::new() })
        };
        let answers = self.some((0..self.layout.servers).map(ask).collect())?;
        let mut nearest: Option<u64> = None;
        for (index, answer) in (0..).zip(answers) {
            let Reply::Found(found) = answer.reply else { return Err(Errno::EIO) };
            let found = match whence {
                SeekWhence::Data => found,
                SeekWhence::Hole => Some(found.unwrap_or_else(|| start(index))),
            };
            let there = found.map(|found| self.layout.whole_offset(index, found).max(offset));
            nearest = [nearest, there].into_iter().flatten().min();
        }
        Ok(match whence {
            SeekWhence::Data => nearest.filter(|there| *there < size),
            SeekWhence::Hole => nearest.map(|there| there.min(size)),
        })
    }

    /// The size of a file.
    fn size(&self, path: &HomePath) -> Result<u64> {
        let request = Request::Stat { path: path.clone() };
        let mut size = 0;
        for (index, answer) in (0..).zip(self.all(&request)?) {
            let Reply::Stat(found) = answer.reply else { return Err(Errno::EIO) };
            size = size.max(self.layout.whole_len(index, found.attr.size));
        }
        Ok(size)
    }
}
