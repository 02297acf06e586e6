//! Settings: command line over `FOREBAY_*` variables over a TOML file over defaults, and where each value came from.
//!
//! Every layer gives texts; [`Settings::read`] gives them a type, once, and an error there names the layer.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use forebay_core::config::{ReplacementKind, WriteBack};
use forebay_host::net::Address;
use thiserror::Error;

use crate::metrics;
use crate::servers;
use crate::size::{self, SizeError};

/// A setting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Backing,
    Servers,
    Stripe,
    Secret,
    ServerWait,
    Mount,
    Buffer,
    Memory,
    Capacity,
    Chunk,
    Replacement,
    WriteBack,
    WriteBackDelay,
    KernelCache,
    AllowOther,
    Keep,
    Report,
    Record,
    Trace,
    MemoryDir,
    HomeThreads,
    MountThreads,
    Grace,
    BusyWait,
    Metrics,
}

impl Key {
    pub(crate) const ALL: [Key; 25] = [
        Key::Backing,
        Key::Servers,
        Key::Stripe,
        Key::Secret,
        Key::ServerWait,
        Key::Mount,
        Key::Buffer,
        Key::Memory,
        Key::Capacity,
        Key::Chunk,
        Key::Replacement,
        Key::WriteBack,
        Key::WriteBackDelay,
        Key::KernelCache,
        Key::AllowOther,
        Key::Keep,
        Key::Report,
        Key::Record,
        Key::Trace,
        Key::MemoryDir,
        Key::HomeThreads,
        Key::MountThreads,
        Key::Grace,
        Key::BusyWait,
        Key::Metrics,
    ];

    /// Its name in the file, and after `--`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Key::Backing => "backing",
            Key::Servers => "servers",
            Key::Stripe => "stripe",
            Key::Secret => "key-file",
            Key::ServerWait => "server-wait",
            Key::Mount => "mount",
            Key::Buffer => "buffer",
            Key::Memory => "memory",
            Key::Capacity => "capacity",
            Key::Chunk => "chunk",
            Key::Replacement => "replacement",
            Key::WriteBack => "write-back",
            Key::WriteBackDelay => "write-back-delay",
            Key::KernelCache => "kernel-cache",
            Key::AllowOther => "allow-other",
            Key::Keep => "keep",
            Key::Report => "report",
            Key::Record => "record",
            Key::Trace => "trace",
            Key::MemoryDir => "memory-dir",
            Key::HomeThreads => "home-threads",
            Key::MountThreads => "mount-threads",
            Key::Grace => "grace",
            Key::BusyWait => "busy-wait",
            Key::Metrics => "metrics",
        }
    }

    /// Its variable. `--mount` has none: `FOREBAY_MOUNT` tells a command where the surrounding run is mounted, and a nested run must not
    /// take that for its own mount.
    pub(crate) fn variable(self) -> Option<String> {
        (self != Key::Mount).then(|| format!("FOREBAY_{}", self.name().replace('-', "_").to_ascii_uppercase()))
    }
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Flag(Key),
    Variable(String),
    File { path: PathBuf, line: usize },
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(key) => write!(f, "--{}", key.name()),
            Source::Variable(name) => write!(f, "{name}"),
            Source::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Source::Default => write!(f, "default"),
        }
    }
}

/// Why settings cannot be read.
#[derive(Debug, Error)]
pub(crate) enum SettingError {
    #[error("{source_of_value}: {text:?} is no {what}: {reason}")]
    Value { source_of_value: Source, text: String, what: &'static str, reason: String },
    #[error("cannot read the configuration file {} ({named_by}): {error}", .path.display())]
    FileUnreadable { path: PathBuf, named_by: &'static str, error: std::io::Error },
    #[error("{}: {message}", .path.display())]
    FileSyntax { path: PathBuf, message: String },
    #[error("{}, line {line}: there is no setting {key:?}; known are {}", .path.display(), Key::ALL.map(Key::name).join(", "))]
    FileUnknownKey { path: PathBuf, line: usize, key: String },
    #[error("{}, line {line}: {key} cannot be {found}; give a text, a whole number, true or false", .path.display())]
    FileType { path: PathBuf, line: usize, key: &'static str, found: &'static str },
    #[error(
        "no backing directory is given; say which directory to buffer with --backing DIR, FOREBAY_BACKING or `backing = \"DIR\"` in the file, or which servers with --servers"
    )]
    NoBacking,
    #[error("both a backing directory ({0}) and servers ({1}) are given; leave one of the two out")]
    TwoHomes(Source, Source),
    #[error("no place to mount is given; say where with --mount DIR")]
    NoMount,
}

impl SettingError {
    /// The command line is at fault, not a variable or a file.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            SettingError::Value { source_of_value: Source::Flag(_), .. }
                | SettingError::NoBacking
                | SettingError::TwoHomes(..)
                | SettingError::NoMount
        )
    }
}

/// A value and where it came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    pub(crate) text: OsString,
    pub(crate) source: Source,
}

/// The layers laid over each other: of every setting that is given at all, the text that counts.
#[derive(Clone, Default, Debug)]
pub(crate) struct Layers {
    given: BTreeMap<Key, Given>,
    /// Variables that look like settings and are none.
    pub(crate) unknown_variables: Vec<String>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// What it said.
    pub(crate) file_text: Option<String>,
}

/// Where a configuration file is named, in the order of precedence.
fn choose_file(flag: Option<PathBuf>, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<(PathBuf, &'static str, bool)> {
    let from = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = flag {
        return Some((path, "--config", true));
    }
    if let Some(path) = from("FOREBAY_CONFIG") {
        return Some((path, "FOREBAY_CONFIG", true));
    }
    let folder = from("XDG_CONFIG_HOME").or_else(|| from("HOME").map(|home| home.join(".config")))?;
    Some((folder.join("forebay/config.toml"), "the default place", false))
}

impl Layers {
    /// Reads all layers: `flag` says what the command line gives, `variables` is the environment, `read` gives the text of a file.
    pub(crate) fn load(
        flag: &dyn Fn(Key) -> Option<OsString>,
        file_flag: Option<PathBuf>,
        variables: &[(OsString, OsString)],
        read: &dyn Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Layers, SettingError> {
        let variable = |name: &str| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let mut layers = Layers::default();
        if let Some((path, named_by, must_exist)) = choose_file(file_flag, &variable) {
            match read(&path) {
                Ok(text) => {
                    layers.read_file(&path, &text)?;
                    layers.file_text = Some(text);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {}
                Err(error) => return Err(SettingError::FileUnreadable { path, named_by, error }),
            }
        }
        for key in Key::ALL {
            let named = key.variable().and_then(|name| variable(&name).map(|text| (name, text)));
            if let Some((name, text)) = named {
                layers.given.insert(key, Given { text, source: Source::Variable(name) });
            }
            if let Some(text) = flag(key) {
                layers.given.insert(key, Given { text, source: Source::Flag(key) });
            }
        }
        let known: Vec<String> = Key::ALL
            .into_iter()
            .filter_map(Key::variable)
            .chain(["FOREBAY_MOUNT", "FOREBAY_CONFIG", crate::servers::KEY_VARIABLE].map(String::from))
            .collect();
        layers.unknown_variables = variables
            .iter()
            .filter_map(|(name, _)| name.to_str())
            .filter(|name| name.starts_with("FOREBAY_") && !name.starts_with("FOREBAY_TEST") && !known.iter().any(|known| known == name))
            .map(String::from)
            .collect();
        Ok(layers)
    }

    fn read_file(&mut self, path: &Path, text: &str) -> Result<(), SettingError> {
        let table = toml::de::DeTable::parse(text)
            .map_err(|error| SettingError::FileSyntax { path: path.into(), message: error.to_string().trim_end().into() })?;
        for (name, value) in table.get_ref() {
            let line = text[..name.span().start].matches('\n').count() + 1;
            let Some(key) = Key::ALL.into_iter().find(|key| key.name() == name.get_ref()) else {
                return Err(SettingError::FileUnknownKey { path: path.into(), line, key: name.get_ref().to_string() });
            };
            let refuse = |found| Err(SettingError::FileType { path: path.into(), line, key: key.name(), found });
            use toml::de::DeValue;
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_string(),
                DeValue::Integer(_) => return refuse("a number that is not decimal"),
                DeValue::Boolean(switch) => switch.to_string(),
                DeValue::Float(_) => return refuse("a number with a fraction"),
                DeValue::Datetime(_) => return refuse("a date"),
                DeValue::Array(_) => return refuse("a list"),
                DeValue::Table(_) => return refuse("a table"),
            };
            self.given.insert(key, Given { text: text.into(), source: Source::File { path: path.into(), line } });
        }
        self.file = Some(path.into());
        Ok(())
    }

    /// Where the value of `key` comes from.
    pub(crate) fn source(&self, key: Key) -> Source {
        self.given.get(&key).map_or(Source::Default, |given| given.source.clone())
    }

    /// The value of `key`, made by `read`; an error says that the text is no `what`.
    fn value<T>(&self, key: Key, what: &'static str, read: impl FnOnce(&OsStr) -> Result<T, String>) -> Result<Option<T>, SettingError> {
        let Some(given) = self.given.get(&key) else { return Ok(None) };
        read(&given.text).map(Some).map_err(|reason| SettingError::Value {
            source_of_value: given.source.clone(),
            text: given.text.to_string_lossy().into_owned(),
            what,
            reason,
        })
    }

    fn size(&self, key: Key) -> Result<Option<u64>, SettingError> {
        self.value(key, "size", |text| size::parse(utf8(text)?).map_err(|error: SizeError| error.to_string()))
    }

    fn path(&self, key: Key) -> Result<Option<PathBuf>, SettingError> {
        let from_file = matches!(self.source(key), Source::File { .. });
        self.value(key, "path", |text| match Path::new(text) {
            path if path.as_os_str().is_empty() => Err("it is empty".into()),
            path if from_file && path.is_relative() => {
                Err("a path in the file is absolute, so that it means the same wherever it is used".into())
            }
            path => Ok(path.into()),
        })
    }

    fn switch(&self, key: Key) -> Result<Option<bool>, SettingError> {
        self.value(key, "switch", |text| match utf8(text)? {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err("write true or false".into()),
        })
    }

    fn duration_ns(&self, key: Key) -> Result<Option<u64>, SettingError> {
        self.value(key, "time", |text| duration_ns(utf8(text)?))
    }

    fn address(&self, key: Key) -> Result<Option<SocketAddr>, SettingError> {
        self.value(key, "address", |text| metrics::parse(utf8(text)?))
    }

    fn servers(&self, key: Key) -> Result<Option<Vec<Address>>, SettingError> {
        self.value(key, "list of servers", |text| servers::parse_list(utf8(text)?))
    }

    fn threads(&self, key: Key, least: usize) -> Result<Option<usize>, SettingError> {
        self.value(key, "number of threads", |text| match utf8(text)?.parse() {
            Ok(number) if (least..=256).contains(&number) => Ok(number),
            _ => Err(format!("give a number from {least} to 256")),
        })
    }

    fn choice<T: Copy>(&self, key: Key, names: &[(&'static str, T)]) -> Result<Option<T>, SettingError> {
        self.value(key, "known name", |text| {
            let found = names.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
            found.ok_or_else(|| format!("choose one of {}", names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")))
        })
    }
}

fn utf8(text: &OsStr) -> Result<&str, String> {
    text.to_str().ok_or_else(|| "it is not UTF-8".into())
}

/// The nanoseconds that `500ms`, `10s` or `2min` say.
fn duration_ns(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ns: u64 = match unit.trim() {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "" if number == "0" => 1,
        _ => return Err("write a whole number and ms, s or min, as in 500ms".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write a whole number and ms, s or min, as in 500ms".to_string())?;
    number.checked_mul(unit_ns).ok_or_else(|| "it is too long".into())
}

/// Replacement policies by name.
pub(crate) const REPLACEMENTS: [(&str, ReplacementKind); 9] = ReplacementKind::NAMED;

/// Times of write-back by name.
pub(crate) const WRITE_BACKS: [(&str, WriteBack); 2] = [("async", WriteBack::Async), ("sync", WriteBack::Sync)];

/// Modes of the kernel's cache by name; true where the kernel may hold written bytes back.
pub(crate) const KERNEL_CACHES: [(&str, bool); 2] = [("write-through", false), ("write-back", true)];

/// The name of `value` among `names`.
pub(crate) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, named)| named == value).map_or("?", |(name, _)| name)
}

/// All settings, with their types; `None` where the default depends on the machine or on the directories.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) backing: Option<PathBuf>,
    /// I/O servers in its place.
    pub(crate) servers: Option<Vec<Address>>,
    pub(crate) stripe_bytes: u64,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) server_wait_ns: u64,
    pub(crate) mount: Option<PathBuf>,
    pub(crate) buffer: Option<PathBuf>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) chunk_bytes: u64,
    pub(crate) replacement: ReplacementKind,
    pub(crate) write_back: WriteBack,
    pub(crate) write_back_delay_ns: u64,
    pub(crate) kernel_write_back: bool,
    pub(crate) allow_other: bool,
    pub(crate) keep: bool,
    pub(crate) report: Option<PathBuf>,
    pub(crate) record: Option<PathBuf>,
    /// Where operations are written down.
    pub(crate) trace: Option<PathBuf>,
    pub(crate) memory_dir: Option<PathBuf>,
    pub(crate) home_threads: usize,
    pub(crate) mount_threads: usize,
    pub(crate) grace_ns: u64,
    pub(crate) busy_wait_ns: u64,
    /// Where counters are served to Prometheus.
    pub(crate) metrics: Option<SocketAddr>,
}

impl Settings {
    /// Gives every text its type.
    pub(crate) fn read(layers: &Layers) -> Result<Settings, SettingError> {
        let settings = Settings {
            backing: layers.path(Key::Backing)?,
            servers: layers.servers(Key::Servers)?,
            stripe_bytes: layers.size(Key::Stripe)?.unwrap_or(servers::STRIPE_BYTES),
            key_file: layers.path(Key::Secret)?,
            server_wait_ns: layers.duration_ns(Key::ServerWait)?.unwrap_or(servers::WAIT_NS),
            mount: layers.path(Key::Mount)?,
            buffer: layers.path(Key::Buffer)?,
            memory_bytes: layers.size(Key::Memory)?,
            capacity_bytes: layers.size(Key::Capacity)?,
            chunk_bytes: layers.size(Key::Chunk)?.unwrap_or(1 << 20),
            replacement: layers.choice(Key::Replacement, &REPLACEMENTS)?.unwrap_or_default(),
            write_back: layers.choice(Key::WriteBack, &WRITE_BACKS)?.unwrap_or_default(),
            write_back_delay_ns: layers.duration_ns(Key::WriteBackDelay)?.unwrap_or(500_000_000),
            kernel_write_back: layers.choice(Key::KernelCache, &KERNEL_CACHES)?.unwrap_or(false),
            allow_other: layers.switch(Key::AllowOther)?.unwrap_or(false),
            keep: layers.switch(Key::Keep)?.unwrap_or(false),
            report: layers.path(Key::Report)?,
            record: layers.path(Key::Record)?,
            trace: layers.path(Key::Trace)?,
            memory_dir: layers.path(Key::MemoryDir)?,
            home_threads: layers.threads(Key::HomeThreads, 2)?.unwrap_or(8),
            mount_threads: layers.threads(Key::MountThreads, 1)?.unwrap_or(4),
            grace_ns: layers.duration_ns(Key::Grace)?.unwrap_or(10_000_000_000),
            busy_wait_ns: layers.duration_ns(Key::BusyWait)?.unwrap_or(10_000_000_000),
            metrics: layers.address(Key::Metrics)?,
        };
        if settings.backing.is_some() && settings.servers.is_some() {
            return Err(SettingError::TwoHomes(layers.source(Key::Backing), layers.source(Key::Servers)));
        }
        Ok(settings)
    }

    /// The text of a setting, as a file would give it; `None` where the default depends on the machine.
    pub(crate) fn text(&self, key: Key) -> Option<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let time = |ns: u64| format!("{}ms", ns / 1_000_000);
        match key {
            Key::Backing => path(&self.backing),
            Key::Servers => self.servers.as_deref().map(servers::list),
            Key::Stripe => Some(size::exact(self.stripe_bytes)),
            Key::Secret => path(&self.key_file),
            Key::ServerWait => Some(time(self.server_wait_ns)),
            Key::Mount => path(&self.mount),
            Key::Buffer => path(&self.buffer),
            Key::Memory => self.memory_bytes.map(size::exact),
            Key::Capacity => self.capacity_bytes.map(size::exact),
            Key::Chunk => Some(size::exact(self.chunk_bytes)),
            Key::Replacement => Some(name_of(&REPLACEMENTS, &self.replacement).into()),
            Key::WriteBack => Some(name_of(&WRITE_BACKS, &self.write_back).into()),
            Key::WriteBackDelay => Some(time(self.write_back_delay_ns)),
            Key::KernelCache => Some(name_of(&KERNEL_CACHES, &self.kernel_write_back).into()),
            Key::AllowOther => Some(self.allow_other.to_string()),
            Key::Keep => Some(self.keep.to_string()),
            Key::Report => path(&self.report),
            Key::Record => path(&self.record),
            Key::Trace => path(&self.trace),
            Key::MemoryDir => path(&self.memory_dir),
            Key::HomeThreads => Some(self.home_threads.to_string()),
            Key::MountThreads => Some(self.mount_threads.to_string()),
            Key::Grace => Some(time(self.grace_ns)),
            Key::BusyWait => Some(time(self.busy_wait_ns)),
            Key::Metrics => self.metrics.map(|address| address.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
