//! Makes logs as Darshan's runtime writes them, in every version, compression and byte order.

use std::io::Write;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    Zlib,
    Bzip2,
    None,
}

/// One operation: offset, length, start and end in seconds.
pub type Segment = (i64, i64, f64, f64);

#[derive(Clone, Debug)]
pub struct File {
    pub id: u64,
    pub rank: i64,
    pub host: &'static str,
    pub writes: Vec<Segment>,
    pub reads: Vec<Segment>,
}

#[derive(Clone, Debug)]
pub struct Heatmap {
    pub id: u64,
    pub rank: i64,
    pub width_s: f64,
    pub writes: Vec<i64>,
    pub reads: Vec<i64>,
}

#[derive(Clone, Debug)]
pub struct Log {
    pub version: &'static str,
    pub compression: Compression,
    pub big_endian: bool,
    pub names: Vec<(u64, &'static str)>,
    pub posix: Vec<File>,
    pub mpiio: Vec<File>,
    pub mpiio_version: u32,
    pub heatmaps: Vec<Heatmap>,
    /// DXT_POSIX says that it is not complete.
    pub partial: bool,
}

impl Log {
    fn u64(&self, value: u64) -> [u8; 8] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn i64(&self, value: i64) -> [u8; 8] {
        self.u64(value as u64)
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        match self.compression {
            Compression::None => bytes.to_vec(),
            Compression::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    fn file(&self, file: &File) -> Vec<u8> {
        let mut host = [0; 64];
        host[..file.host.len()].copy_from_slice(file.host.as_bytes());
        let mut bytes = [self.u64(file.id), self.i64(file.rank), self.i64(-1)].concat();
        bytes.extend_from_slice(&host);
        bytes.extend_from_slice(&self.u64(file.writes.len() as u64));
        bytes.extend_from_slice(&self.u64(file.reads.len() as u64));
        for (offset, length, start, end) in file.writes.iter().chain(&file.reads) {
            let numbers = [*offset as u64, *length as u64, start.to_bits(), end.to_bits()];
            bytes.extend(numbers.iter().flat_map(|number| self.u64(*number)));
        }
        bytes
    }

    fn heatmap(&self, heatmap: &Heatmap) -> Vec<u8> {
        let bins = heatmap.writes.len() as u64;
        let head = [heatmap.id, heatmap.rank as u64, heatmap.width_s.to_bits(), bins, 0, 0];
        let bins = heatmap.writes.iter().chain(&heatmap.reads).map(|bin| *bin as u64);
        head.into_iter().chain(bins).flat_map(|number| self.u64(number)).collect()
    }

    fn job(&self) -> Vec<u8> {
        let times: &[i64] =
            if self.version == "3.41" { &[1_600_000_000, 250_000_000, 1_600_000_100, 0] } else { &[1_600_000_000, 1_600_000_100] };
        let fields = std::iter::once(1000).chain(times.iter().copied()).chain([8, 4711]);
        let mut bytes: Vec<u8> = fields.flat_map(|field| self.i64(field)).collect();
        bytes.extend_from_slice(b"lib_ver=3.x\n");
        bytes.resize(bytes.len() + 1024 - 12, 0);
        bytes.extend_from_slice(b"./app --in a b\next4\t/\n");
        bytes.resize(4096, 0);
        bytes
    }

    fn names(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (id, name) in &self.names {
            bytes.extend_from_slice(&self.u64(*id));
            if self.version == "3.00" {
                bytes.extend_from_slice(&self.u32(name.len() as u32));
                bytes.extend_from_slice(name.as_bytes());
            } else {
                bytes.extend_from_slice(name.as_bytes());
                bytes.push(0);
            }
        }
        bytes
    }

    /// The log; each file's records are a compressed stream of their own, as each process writes one.
    pub fn bytes(&self) -> Vec<u8> {
        let (modules, places) = match self.version {
            "3.00" | "3.10" => (16, [8, 9, 15]),
            "3.20" | "3.21" => (16, [9, 10, 14]),
            _ => (64, [10, 11, 15]),
        };
        let head_bytes = if modules == 64 { 1328 } else { 360 };
        let mut body = self.pack(&self.job());
        let mut region = |bytes: Vec<u8>| {
            let map = (head_bytes + body.len() as u64, bytes.len() as u64);
            body.extend_from_slice(&bytes);
            if map.1 == 0 { (0, 0) } else { map }
        };
        let names = region(self.pack(&self.names()));
        let mut maps = vec![(0, 0); modules];
        let streams = |files: &[File]| files.iter().flat_map(|file| self.pack(&self.file(file))).collect::<Vec<u8>>();
        maps[places[0]] = region(streams(&self.posix));
        maps[places[1]] = region(streams(&self.mpiio));
        if modules == 64 || places[2] == 14 {
            maps[places[2]] = region(self.heatmaps.iter().flat_map(|heatmap| self.pack(&self.heatmap(heatmap))).collect());
        }
        let mut bytes = self.version.as_bytes().to_vec();
        bytes.resize(8, 0);
        bytes.extend_from_slice(&self.u64(6_567_223));
        bytes.push(self.compression as u8);
        let flags = if self.partial { 1 << places[0] } else { 0 };
        if modules == 64 {
            bytes.resize(24, 0);
            bytes.extend_from_slice(&self.u64(flags));
        } else {
            bytes.resize(20, 0);
            bytes.extend_from_slice(&self.u32(flags as u32));
        }
        for (offset, length) in std::iter::once(names).chain(maps) {
            bytes.extend_from_slice(&self.u64(offset));
            bytes.extend_from_slice(&self.u64(length));
        }
        for place in 0..modules {
            let version =
                [1, self.mpiio_version, 1].into_iter().zip(places).find(|(_, own)| *own == place).map_or(0, |(version, _)| version);
            bytes.extend_from_slice(&self.u32(version));
        }
        assert_eq!(bytes.len() as u64, head_bytes);
        bytes.extend_from_slice(&body);
        bytes
    }
}
