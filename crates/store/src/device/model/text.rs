//! Devices as text: what `forebay bench --profile` writes and `--disk` takes.
//!
//! A file has one table, `[disk]`, `[ssd]` or `[rates]`, with the fields of [`DiskSpec`], [`SsdSpec`] or [`RateSpec`] by their names.

use std::path::Path;

use thiserror::Error;

use super::{DeviceSpec, DiskSpec, PRESETS, RateSpec, SsdSpec, preset};

/// A name or a file says nothing of a device.
#[derive(Debug, Error)]
pub enum PresetError {
    /// Neither a name of ours nor a file.
    #[error("there is no disk \"{name}\": neither a file nor one of {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read the disk's file {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The text is not understood.
    #[error("a device's text has one table, [disk], [ssd] or [rates]: {0}")]
    Syntax(String),
    /// A value that no device has.
    #[error("{field} is {value}: {rule}")]
    Value {
        /// The field's name.
        field: &'static str,
        /// What it says.
        value: u64,
        /// What it should be.
        rule: &'static str,
    },
}

fn names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}

/// The device of a preset's name, or of a file.
pub fn find(name: &str) -> Result<DeviceSpec, PresetError> {
    if let Some(spec) = preset(name) {
        return Ok(spec);
    }
    if !Path::new(name).exists() {
        return Err(PresetError::Unknown { name: name.to_owned() });
    }
    let unreadable = |error: std::io::Error| PresetError::Unreadable { path: name.to_owned(), reason: error.to_string() };
    parse(&std::fs::read_to_string(name).map_err(unreadable)?)
}

/// The device that a text describes.
pub fn parse(text: &str) -> Result<DeviceSpec, PresetError> {
    let spec: DeviceSpec = toml::from_str(text).map_err(|error| PresetError::Syntax(error.to_string()))?;
    check(&spec)?;
    Ok(spec)
}

/// A device as text; [`parse`] gives it back.
pub fn text(spec: &DeviceSpec) -> String {
    toml::to_string(spec).expect("a device's fields are numbers")
}

/// No model divides by zero, turns for ever, or seeks faster over a longer way.
fn check(spec: &DeviceSpec) -> Result<(), PresetError> {
    const TIME_NS_MAX: u64 = 60_000_000_000;
    let positive = |field, value| match value {
        0 => Err(PresetError::Value { field, value, rule: "it must be more than 0" }),
        _ => Ok(()),
    };
    let short = |field, value| match value {
        ..=TIME_NS_MAX => Ok(()),
        _ => Err(PresetError::Value { field, value, rule: "it must be a minute at most" }),
    };
    match spec {
        DeviceSpec::Disk(disk) => check_disk(disk, positive, short),
        DeviceSpec::Ssd(SsdSpec { read_ns, write_ns, read_bytes_per_s, write_bytes_per_s, channels, .. }) => {
            short("read_ns", *read_ns)?;
            short("write_ns", *write_ns)?;
            positive("read_bytes_per_s", *read_bytes_per_s)?;
            positive("write_bytes_per_s", *write_bytes_per_s)?;
            match channels {
                1..=65_536 => Ok(()),
                _ => Err(PresetError::Value { field: "channels", value: u64::from(*channels), rule: "it must be between 1 and 65536" }),
            }
        }
        DeviceSpec::Rates(RateSpec { sequential_read, random_read, sequential_write, random_write, request_bytes }) => {
            positive("sequential_read", *sequential_read)?;
            positive("random_read", *random_read)?;
            positive("sequential_write", *sequential_write)?;
            positive("random_write", *random_write)?;
            positive("request_bytes", *request_bytes)
        }
    }
}

fn check_disk(
    disk: &DiskSpec,
    positive: impl Fn(&'static str, u64) -> Result<(), PresetError>,
    short: impl Fn(&'static str, u64) -> Result<(), PresetError>,
) -> Result<(), PresetError> {
    const HEADS_MAX: u32 = 1024;
    for (field, value) in [
        ("capacity_bytes", disk.capacity_bytes),
        ("rotation_ns", disk.rotation_ns),
        ("outer_bytes_per_s", disk.outer_bytes_per_s),
        ("inner_bytes_per_s", disk.inner_bytes_per_s),
        ("interface_bytes_per_s", disk.interface_bytes_per_s),
        ("heads", u64::from(disk.heads)),
    ] {
        positive(field, value)?;
    }
    for (field, value) in [
        ("rotation_ns", disk.rotation_ns),
        ("command_ns", disk.command_ns),
        ("head_switch_ns", disk.head_switch_ns),
        ("cylinder_switch_ns", disk.cylinder_switch_ns),
        ("seek_read.full_ns", disk.seek_read.full_ns),
        ("seek_write.full_ns", disk.seek_write.full_ns),
    ] {
        short(field, value)?;
    }
    if disk.heads > HEADS_MAX {
        return Err(PresetError::Value { field: "heads", value: u64::from(disk.heads), rule: "it must be 1024 at most" });
    }
    for (field, seek) in [("seek_read", disk.seek_read), ("seek_write", disk.seek_write)] {
        if seek.track_ns > seek.average_ns || seek.average_ns > seek.full_ns {
            let rule = "track_ns, average_ns and full_ns must rise";
            return Err(PresetError::Value { field, value: seek.average_ns, rule });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_survives_its_text() {
        for preset in PRESETS {
            assert_eq!(parse(&text(&preset.spec)).unwrap(), preset.spec, "{}", text(&preset.spec));
        }
    }

    #[test]
    fn a_file_is_found_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        let spec = preset("savvio-300g").unwrap();
        std::fs::write(&path, text(&spec)).unwrap();
        assert_eq!(find(path.to_str().unwrap()).unwrap(), spec);
        assert_eq!(find("savvio-300g").unwrap(), spec);
        let error = find("floppy").unwrap_err().to_string();
        assert!(error.contains("floppy") && error.contains("savvio-300g"), "{error}");
    }

    #[test]
    fn what_no_device_has_is_refused() {
        let good = text(&preset("savvio-300g").unwrap());
        let cases = [
            (good.replace("heads = 4", "heads = 0"), "heads"),
            (good.replace("outer_bytes_per_s = 124000000", "outer_bytes_per_s = 0"), "outer_bytes_per_s"),
            (good.replace("rotation_ns = 5985037", "rotation_ns = 99000000000"), "rotation_ns"),
            (good.replace("average_ns = 4100000", "average_ns = 1"), "seek_read"),
            (good.replace("heads = 4", "heads = 4\nwings = 2"), "wings"),
            (good.replace("[disk]", "[drum]"), "drum"),
            (String::new(), "[disk]"),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
