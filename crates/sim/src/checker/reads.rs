//! Answers are those of POSIX; a wrong byte is traced to the write that it comes from.

use crate::oracle::Contradiction;
use crate::stamp::Stamps;

/// A contradiction in words, its bytes explained.
pub fn explain(contradiction: &Contradiction, stamps: &Stamps) -> String {
    let mut text = String::new();
    let mut rest = contradiction.0.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}').and_then(|(inside, rest)| Some((from_hex(inside)?, rest))) {
            Some((bytes, after)) => {
                text.push_str(&stamps.describe(&bytes));
                rest = after;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_explained_and_the_rest_stays() {
        let contradiction = Contradiction("Read { ino: 5 }: byte 3: seen {00000000}".into());
        assert_eq!(explain(&contradiction, &Stamps::default()), "Read { ino: 5 }: byte 3: seen zeros (a hole)");
    }
}
