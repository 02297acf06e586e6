//! The key of an instance: whoever has it may ask its servers for everything.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;

/// What the bytes that users keep are turned into a key with: no other program makes the same of them.
const CONTEXT: &str = "forebay 2026-11-22 key of an instance";
/// Shorter texts can be guessed.
const TEXT_BYTES_MIN: usize = 16;
/// No key is longer.
const TEXT_BYTES_MAX: u64 = 4096;

/// A key. It is never shown.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Why there is no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or made.
    #[error("the key file {} cannot be used: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Others may read the file.
    #[error("the key file {} can be read by others (mode {mode:03o}, owner {uid}); give it to its owner alone: chmod 600", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Its owner.
        uid: u32,
    },
    /// Not enough to be a secret.
    #[error("{place} holds {len} bytes; a key has at least {TEXT_BYTES_MIN}, as `head -c 32 /dev/urandom | base64` makes one")]
    Short {
        /// Where it was found.
        place: String,
        /// Bytes.
        len: usize,
    },
}

impl Key {
    /// The key that a text makes; white space around it counts for nothing.
    ///
    /// # Errors
    /// If it is too short; `place` says where it was found.
    pub fn from_text(text: &[u8], place: &str) -> Result<Key, KeyError> {
        let text = text.trim_ascii();
        if text.len() < TEXT_BYTES_MIN {
            return Err(KeyError::Short { place: place.into(), len: text.len() });
        }
        Ok(Key(blake3::derive_key(CONTEXT, text)))
    }

    /// The key in a file, which nobody but its owner, this user or root, may read.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn from_file(path: &Path) -> Result<Key, KeyError> {
        let failed = |error| KeyError::Io { path: path.into(), error };
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        let own = rustix::process::geteuid().as_raw();
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 || (meta.uid() != own && meta.uid() != 0) {
            return Err(KeyError::Open { path: path.into(), mode, uid: meta.uid() });
        }
        let mut text = Vec::new();
        file.take(TEXT_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
        Key::from_text(&text, &format!("the key file {}", path.display()))
    }

    /// The key in a file, which is made with a new one if it is not there. True if it was made.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn from_file_or_new(path: &Path) -> Result<(Key, bool), KeyError> {
        let failed = |error| KeyError::Io { path: path.into(), error };
        match File::options().write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let text: String = random::<32>().map_err(failed)?.iter().map(|byte| format!("{byte:02x}")).collect();
                file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
                Ok((Key::from_text(text.as_bytes(), "")?, true))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok((Key::from_file(path)?, false)),
            Err(error) => Err(failed(error)),
        }
    }

    /// What only who has the key can make of `parts`, for this purpose.
    pub(super) fn proof(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(purpose.len() as u64).to_le_bytes());
        hasher.update(purpose.as_bytes());
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

/// Whether two proofs are the same, in a time that does not say where they differ.
pub(super) fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    blake3::Hash::from_bytes(*a) == blake3::Hash::from_bytes(*b)
}

/// Bytes that nobody can guess.
///
/// # Errors
/// The system's, if it has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let (made, is_new) = Key::from_file_or_new(&path).unwrap();
        assert!(is_new && std::fs::metadata(&path).unwrap().permissions().mode() & 0o777 == 0o600);
        let (again, is_new) = Key::from_file_or_new(&path).unwrap();
        assert!(!is_new && again.0 == made.0);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Key::from_file(&path), Err(KeyError::Open { mode: 0o640, .. })));
        assert!(matches!(Key::from_file(&folder.path().join("none")), Err(KeyError::Io { .. })));
    }

    #[test]
    fn a_key_is_no_short_text_and_no_text_itself() {
        assert!(matches!(Key::from_text(b"  secret \n", "it"), Err(KeyError::Short { len: 6, .. })));
        let key = Key::from_text(b"0123456789abcdef\n", "it").unwrap();
        assert_eq!(key.0, Key::from_text(b" 0123456789abcdef", "it").unwrap().0);
        assert_ne!(key.0[..16], b"0123456789abcdef"[..]);
        assert_eq!(format!("{key:?}"), "Key");
        assert_ne!(key.proof("a", &[b"b"]), key.proof("a", &[b"", b"b"]));
    }
}
