//! A tar archive of small texts (POSIX ustar), written by hand: a header of 512 bytes before each, and zeros to the next 512.

use std::io::{self, Write};

const BLOCK_BYTES: usize = 512;

/// Writes an archive.
pub(crate) struct Archive<W: Write> {
    output: W,
    modified_unix_s: u64,
}

/// Puts `value` as octal digits into a field, with a zero behind.
fn octal(field: &mut [u8], value: u64) -> io::Result<()> {
    let digits = format!("{value:0width$o}", width = field.len() - 1);
    if digits.len() >= field.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a number does not fit into a tar header"));
    }
    field[..digits.len()].copy_from_slice(digits.as_bytes());
    Ok(())
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(output: W, modified_unix_s: u64) -> Archive<W> {
        Archive { output, modified_unix_s }
    }

    /// Adds a file; its name has at most 100 bytes.
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if name.len() > 100 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is too long a name for a tar header")));
        }
        let mut header = [0; BLOCK_BYTES];
        header[..name.len()].copy_from_slice(name.as_bytes());
        octal(&mut header[100..108], 0o600)?;
        octal(&mut header[108..116], 0)?;
        octal(&mut header[116..124], 0)?;
        octal(&mut header[124..136], bytes.len() as u64)?;
        octal(&mut header[136..148], self.modified_unix_s)?;
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        // The sum counts its own field as blanks.
        header[148..156].fill(b' ');
        let sum = header.iter().map(|byte| u64::from(*byte)).sum();
        octal(&mut header[148..155], sum)?;
        self.output.write_all(&header)?;
        self.output.write_all(bytes)?;
        let padding = bytes.len().next_multiple_of(BLOCK_BYTES) - bytes.len();
        self.output.write_all(&[0; BLOCK_BYTES][..padding])
    }

    /// Ends the archive, and gives back what it was written to.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.output.write_all(&[0; 2 * BLOCK_BYTES])?;
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        let mut archive = Archive::new(std::fs::File::create(&path).unwrap(), 1_700_000_000);
        let texts = [("d/empty", vec![]), ("d/one block", vec![b'x'; 512]), ("e", vec![b'y'; 700])];
        for (name, bytes) in &texts {
            archive.add(name, bytes).unwrap();
        }
        assert!(archive.add(&"n".repeat(101), b"").is_err());
        archive.finish().unwrap();
        let status = std::process::Command::new("tar").arg("-xf").arg(&path).arg("-C").arg(folder.path()).status().unwrap();
        assert!(status.success());
        for (name, bytes) in &texts {
            assert_eq!(&std::fs::read(folder.path().join(name)).unwrap(), bytes, "{name}");
        }
    }
}
