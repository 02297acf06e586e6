//! I/O servers in the place of a backing directory: what the settings say of them, the name that a buffer remembers, and the way there.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_host::net::{Address, ClientId, Key};
use forebay_server::servers::{ConnectError, ServersHome, ServersOptions};
use forebay_store::{Home, PosixHome};

use crate::config::Settings;
use crate::error::{Error, Exit};
use crate::size;

/// Bytes of a stripe, where nothing is said.
pub(crate) const STRIPE_BYTES: u64 = 64 << 10;
/// How long what needs a server waits for it, where nothing is said, ns.
pub(crate) const WAIT_NS: u64 = 120_000_000_000;
/// How long a new instance waits for its servers, which may have been started a moment ago.
const START_WITHIN: Duration = Duration::from_secs(5);
/// The variable that holds a key. A command line can be seen by others.
pub(crate) const KEY_VARIABLE: &str = "FOREBAY_KEY";
/// How the name of such a home begins. A backing directory's begins with a slash.
const PREFIX: &str = "servers:";
const STRIPE: &str = ";stripe=";

/// Servers, in their order, and how files lie on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Servers {
    pub(crate) addresses: Vec<Address>,
    pub(crate) stripe_bytes: u64,
}

/// The addresses that a list says.
pub(crate) fn parse_list(text: &str) -> Result<Vec<Address>, String> {
    text.split(',').map(|part| Address::parse(part.trim())).collect()
}

/// Addresses as one argument.
#[derive(Clone, Debug)]
pub(crate) struct List(pub(crate) Vec<Address>);

/// The same as one argument.
pub(crate) fn parse_whole_list(text: &str) -> Result<List, String> {
    parse_list(text).map(List)
}

/// The same as a list.
pub(crate) fn list(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl Servers {
    /// What the settings say, if they speak of servers.
    pub(crate) fn of_settings(settings: &Settings) -> Result<Option<Servers>, Error> {
        let Some(addresses) = settings.servers.clone() else { return Ok(None) };
        if !(512..=1 << 30).contains(&settings.stripe_bytes) {
            let message = format!("a stripe of {} cannot be; give --stripe 512B to 1GiB", size::exact(settings.stripe_bytes));
            return Err(Error::Coded { message, exit: Exit::Config });
        }
        Ok(Some(Servers { addresses, stripe_bytes: settings.stripe_bytes }))
    }

    /// What names them where a backing directory would have its path.
    pub(crate) fn name(&self) -> PathBuf {
        let text = format!("{PREFIX}{}{STRIPE}{}", list(&self.addresses), self.stripe_bytes);
        OsString::from_vec(text.into_bytes()).into()
    }

    /// The servers of such a name; none if it is a path.
    pub(crate) fn named(name: &Path) -> Option<Servers> {
        let text = std::str::from_utf8(name.as_os_str().as_bytes()).ok()?.strip_prefix(PREFIX)?;
        let (addresses, stripe) = text.rsplit_once(STRIPE)?;
        Some(Servers { addresses: parse_list(addresses).ok()?, stripe_bytes: stripe.parse().ok().filter(|stripe| *stripe > 0)? })
    }
}

/// The key in a file, else the one that the variable holds.
pub(crate) fn key(file: Option<&Path>) -> Result<Key, Error> {
    let wrong = |error: forebay_host::net::KeyError| Error::Coded { message: error.to_string(), exit: Exit::Config };
    match (file, std::env::var_os(KEY_VARIABLE)) {
        (Some(file), _) => Key::from_file(file).map_err(wrong),
        (None, Some(text)) => Key::from_text(text.as_bytes(), &format!("the variable {KEY_VARIABLE}")).map_err(wrong),
        (None, None) => {
            let message = format!("servers need their key: name the file with --key-file FILE, or set {KEY_VARIABLE}");
            Err(Error::Coded { message, exit: Exit::Config })
        }
    }
}

/// How servers are reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) key_file: Option<PathBuf>,
    /// How long what needs a server that is away waits.
    pub(crate) wait: Duration,
    /// The instance was there before: its servers are waited for.
    pub(crate) was_there: bool,
}

impl Access {
    /// As the settings say.
    pub(crate) fn of_settings(settings: &Settings) -> Access {
        Access { key_file: settings.key_file.clone(), wait: Duration::from_nanos(settings.server_wait_ns), was_there: false }
    }
}

/// A home that is made of servers, for the instance `id` with its buffer there; none if `backing` is the path of a directory.
pub(crate) fn home(backing: &Path, access: &Access, id: &str, buffer: &Path) -> Result<Option<Arc<dyn Home>>, Error> {
    let Some(Servers { addresses, stripe_bytes }) = Servers::named(backing) else { return Ok(None) };
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let options = ServersOptions {
        addresses,
        stripe_bytes,
        key: key(access.key_file.as_deref())?,
        // The next process in front of the same buffer is the same client: what this one has under way ends before.
        client: ClientId::of(&[&machine, buffer.as_os_str().as_bytes(), id.as_bytes()]),
        patience: access.wait,
        connect_within: if access.was_there { access.wait } else { START_WITHIN },
    };
    let connected = ServersHome::connect(options).map_err(|error| match error {
        ConnectError::Net(_) | ConnectError::Io(_) => Error::Unavailable(error.to_string()),
        _ => Error::Coded { message: error.to_string(), exit: Exit::Config },
    })?;
    Ok(Some(Arc::new(connected)))
}

/// Any home: servers, or a directory.
pub(crate) fn any_home(backing: &Path, access: &Access, id: &str, buffer: &Path) -> Result<Arc<dyn Home>, Error> {
    if let Some(home) = home(backing, access, id, buffer)? {
        return Ok(home);
    }
    let opened = PosixHome::open(backing).map_err(Error::io(format!("look at {}", backing.display())))?;
    Ok(Arc::new(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_servers() {
        let servers = Servers { addresses: parse_list("a:1, unix:/run/b;c.sock").unwrap(), stripe_bytes: 4096 };
        let name = servers.name();
        assert_eq!(name, Path::new("servers:a:1,unix:/run/b;c.sock;stripe=4096"));
        assert_eq!(Servers::named(&name), Some(servers));
        for other in ["/a/directory", "servers", "servers:a:1", "servers:;stripe=1", "servers:a:1;stripe=0"] {
            assert_eq!(Servers::named(Path::new(other)), None, "{other}");
        }
    }
}
