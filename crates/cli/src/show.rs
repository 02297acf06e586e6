//! `forebay config`: every setting and where it came from.

use crate::config::{Key, Layers, Settings, Source};
use crate::error::Error;
use crate::registry::Tag;
use crate::size;

/// What the default is where it depends on the machine or on the directories.
fn open_default(key: Key) -> &'static str {
    match key {
        Key::Backing => "(must be given, or servers)",
        Key::Secret => "(FOREBAY_KEY)",
        Key::Mount => "(a fresh directory)",
        Key::Buffer => "(a fresh directory on a local disk)",
        Key::Memory => "(a quarter of the memory, at most 1GiB)",
        Key::Capacity => "(4GiB, less if the disk is fuller)",
        Key::MemoryDir => "/dev/shm",
        _ => "(none)",
    }
}

/// For a person: a line for each setting.
pub(crate) fn table(layers: &Layers, settings: &Settings) -> String {
    let mut text = String::new();
    for key in Key::ALL {
        let value = settings.text(key).unwrap_or_else(|| open_default(key).into());
        text += &format!("{:<17} {:<40} {}\n", key.name(), value, layers.source(key));
    }
    text
}

/// As a file: what is given stands as it is, what is not is a comment.
fn file(layers: &Layers, settings: &Settings) -> String {
    let mut text = String::new();
    for key in Key::ALL {
        let given = layers.source(key) != Source::Default;
        let line = match settings.text(key) {
            Some(value) => format!("{} = {}", key.name(), toml::Value::String(value)),
            None => format!("{} = {}", key.name(), toml::Value::String(open_default(key).into())),
        };
        text += &if given { line } else { format!("# {line}") };
        text += "\n";
    }
    text
}

/// What an instance works with, as a file that gives the same.
pub(crate) fn in_use(settings: &Settings, tag: &Tag) -> String {
    let node = &tag.node;
    let segments = |count: u32| size::exact(u64::from(count) * u64::from(node.segment_bytes));
    let mut text = String::new();
    for key in Key::ALL {
        let value = match key {
            Key::Backing => Some(tag.backing.display().to_string()),
            Key::Mount => tag.mount.as_ref().map(|mount| mount.display().to_string()),
            Key::Buffer => Some(tag.buffer.display().to_string()),
            Key::Capacity => Some(segments(node.segments_max)),
            Key::Memory => Some(segments(node.memory_segments_max)),
            key => settings.text(key),
        };
        text.extend(value.map(|value| format!("{} = {}\n", key.name(), toml::Value::String(value))));
    }
    text
}

/// `forebay config`.
pub(crate) fn command(layers: &Layers, settings: &Settings, as_file: bool) -> Result<(), Error> {
    crate::print(&if as_file { file(layers, settings) } else { table(layers, settings) })
}
