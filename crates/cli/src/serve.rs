//! `forebay serve`: an I/O server in a process of its own, and commands that ask one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use forebay_core::hybrid::ServerPolicy;
use forebay_core::policy::Share;
use forebay_host::net::message::{Reply, Request, ServerStatus};
use forebay_host::net::{Address, Ask, ClientId, Dial, Key, Remote, Server};
use forebay_server::servers::{IoServer, PartFile};
use forebay_server::{IoNode, IoNodeError, IoNodeOptions, IoNodeRecovery};
use forebay_store::IoService;

use crate::console::Console;
use crate::error::{Error, Exit};
use crate::places;
use crate::servers::{self, KEY_VARIABLE};
use crate::signals::{self, Event, Events};
use crate::size::Bytes;

/// How long requests under way may take to end when the server is asked to.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// How long a command waits for the server that it asks.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The key that a server makes where none is given, in the directory of its SSD.
const KEY_FILE: &str = "key";
/// Clients keep four fifths of the disk while a flush is under way.
const FOREGROUND_SHARE: Share = Share::new(4, 5);

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Everything is kept when the server ends: what is on the SSD is there again when it is started again.\n\
    Mount it with: forebay run --servers HOST:PORT,... --key-file FILE -- CMD")]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    asked: Option<Asked>,
    /// The directory to serve, on the large disk.
    #[arg(long, value_name = "DIR", required = true)]
    home: Option<PathBuf>,
    /// A directory on the SSD, for this server alone; without it, all goes to the disk.
    #[arg(long, value_name = "DIR")]
    ssd: Option<PathBuf>,
    /// How much of the SSD the server may take; the same as long as something is on it.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = crate::size::parse)]
    ssd_size: u64,
    /// Which requests go to the SSD, and when it is emptied: none, all, ssdup, ssdup+, ibridge or cut-off [default: ssdup+, without --ssd none].
    #[arg(long, value_name = "NAME", value_parser = policy)]
    policy: Option<ServerPolicy>,
    /// The most that goes from the SSD to the disk in a second, except for a drain [default: as much as the disk takes].
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    flush_rate: Option<u64>,
    /// Start although files are gone of which the SSD has bytes, and give those up.
    #[arg(long)]
    discard_missing: bool,
    /// Where to listen: HOST:PORT (port 0 takes a free one) or unix:/PATH; may be given several times.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = Address::parse)]
    listen: Vec<Address>,
    /// The file with the key that clients must have, for its owner alone [default: what FOREBAY_KEY holds, else the file `key` in the directory
    /// of the SSD, which is made].
    #[arg(long, value_name = "FILE", env = "FOREBAY_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// Bring everything from the SSD to the disk before the end; without it, it stays there.
    #[arg(long)]
    drain: bool,
    /// Write the addresses to this file as soon as the server listens, one a line.
    #[arg(long, value_name = "FILE")]
    ready: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Asked {
    /// Show what servers hold, and where writes went, and why.
    Status {
        /// The servers.
        #[arg(value_name = "ADDRESS", required = true, value_parser = Address::parse)]
        addresses: Vec<Address>,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// The file with the key [default: what FOREBAY_KEY holds].
        #[arg(long, value_name = "FILE", env = "FOREBAY_KEY_FILE")]
        key_file: Option<PathBuf>,
    },
    /// Have a server go by another policy from now on.
    Policy {
        /// The server.
        #[arg(value_name = "ADDRESS", value_parser = Address::parse)]
        address: Address,
        /// The policy: none, all, ssdup, ssdup+, ibridge or cut-off.
        #[arg(value_name = "NAME", value_parser = policy)]
        policy: ServerPolicy,
        /// The file with the key [default: what FOREBAY_KEY holds].
        #[arg(long, value_name = "FILE", env = "FOREBAY_KEY_FILE")]
        key_file: Option<PathBuf>,
    },
    /// Bring everything from the SSDs of servers to their disks.
    Drain {
        /// The servers.
        #[arg(value_name = "ADDRESS", required = true, value_parser = Address::parse)]
        addresses: Vec<Address>,
        /// The file with the key [default: what FOREBAY_KEY holds].
        #[arg(long, value_name = "FILE", env = "FOREBAY_KEY_FILE")]
        key_file: Option<PathBuf>,
    },
}

fn policy(name: &str) -> Result<ServerPolicy, String> {
    ServerPolicy::named(name).ok_or_else(|| {
        let known: Vec<&str> = ServerPolicy::NAMED.iter().map(|(name, _)| *name).collect();
        format!("choose one of {}", known.join(", "))
    })
}

/// `forebay serve`.
pub(crate) fn command(args: &ServeArgs, console: Console) -> Result<(), Error> {
    match (&args.asked, &args.home) {
        (Some(Asked::Status { addresses, json, key_file }), _) => status(addresses, *json, key_file.as_deref()),
        (Some(Asked::Policy { address, policy, key_file }), _) => {
            expect_done(address, &ask(address, &servers::key(key_file.as_deref())?, Request::SetPolicy { policy: *policy })?)?;
            console.say(&format!("{address} goes by {} from now on", policy.name()));
            Ok(())
        }
        (Some(Asked::Drain { addresses, key_file }), _) => {
            let key = servers::key(key_file.as_deref())?;
            for address in addresses {
                expect_done(address, &ask(address, &key, Request::Drain)?)?;
                console.say(&format!("everything at {address} is on the disk"));
            }
            Ok(())
        }
        (None, Some(home)) => serve(args, home, console),
        (None, None) => Err(Error::usage("say which directory to serve with --home DIR")),
    }
}

/// What one server answers.
fn ask(address: &Address, key: &Key, request: Request) -> Result<Reply, Error> {
    let failed = |error: forebay_host::net::NetError| Error::Unavailable(error.to_string());
    let client = ClientId::fresh().map_err(Error::io("find a number for this client"))?;
    let dial = Dial { address: address.clone(), key: key.clone(), client, patience: ANSWER_WITHIN };
    let remote = Remote::start(dial).map_err(Error::io("start a thread"))?;
    remote.connected(ANSWER_WITHIN).map_err(failed)?;
    Ok(remote.call(Ask { request, payload: Vec::new() }).map_err(failed)?.reply)
}

fn expect_done(address: &Address, reply: &Reply) -> Result<(), Error> {
    match reply {
        Reply::Done => Ok(()),
        Reply::Failed(errno) => Err(Error::io(format!("have {address} do that"))(std::io::Error::from_raw_os_error(errno.0))),
        Reply::Refused(why) => Err(Error::Unavailable(format!("{address}: {why}"))),
        other => Err(Error::Unavailable(format!("{address} answers {other:?}"))),
    }
}

fn status(addresses: &[Address], json: bool, key_file: Option<&Path>) -> Result<(), Error> {
    let key = servers::key(key_file)?;
    let mut all = Vec::new();
    for address in addresses {
        match ask(address, &key, Request::Status)? {
            Reply::Status(status) => all.push((address, status)),
            other => return expect_done(address, &other),
        }
    }
    if !json {
        return crate::print(&all.iter().map(|(address, status)| text(address, status)).collect::<String>());
    }
    let mut values = Vec::new();
    for (address, status) in &all {
        let mut value = serde_json::to_value(status).map_err(|error| Error::io("write JSON")(error.into()))?;
        value["address"] = address.to_string().into();
        if let Some(part) = status.part {
            value["part"]["first"] = part.first.to_string().into();
        }
        values.push(value);
    }
    crate::print(&format!("{:#}\n", serde_json::Value::Array(values)))
}

fn text(address: &Address, status: &ServerStatus) -> String {
    let mut lines = vec![format!("{address} serves {} (process {}, version {})", status.home, status.pid, status.version)];
    lines.push(format!("  policy    {}", status.policy));
    if let Some(part) = status.part.filter(|part| part.servers > 1) {
        lines.push(format!("  part      {} of {}, stripes of {}", part.index, part.servers, Bytes(part.stripe_bytes)));
    }
    if status.ssd_bytes > 0 {
        let (all, dirty) = (Bytes(status.ssd_bytes), Bytes(status.dirty_bytes));
        lines.push(format!(
            "  ssd       {all}, {dirty} of it not on the disk yet; flushed {} times, {}",
            status.flushes,
            Bytes(status.flushed_bytes)
        ));
    }
    lines.extend(status.ssd_fault.iter().map(|fault| format!("  the SSD refuses writes: {fault}")));
    lines.push(format!("  sessions  {}, {} requests under way", status.sessions, status.open_requests));
    for went in &status.writes {
        let bytes = Bytes(went.bytes);
        lines.push(format!("  writes    {} to the {} ({}): {}, {bytes}", went.class, went.to, went.reason, went.requests));
    }
    if status.reads > 0 {
        lines.push(format!(
            "  reads     {}, {}, of that from the SSD {}",
            status.reads,
            Bytes(status.read_bytes),
            Bytes(status.read_ssd_bytes)
        ));
    }
    if let Some(time_ns) = status.service_ns {
        lines.push(format!("  the disk takes {:.2} ms for a request, on average", time_ns as f64 / 1e6));
    }
    lines.join("\n") + "\n"
}

/// The key that clients must have.
fn own_key(args: &ServeArgs, console: Console) -> Result<Key, Error> {
    let given = args.key_file.is_some() || std::env::var_os(KEY_VARIABLE).is_some();
    let Some(ssd) = args.ssd.as_deref().filter(|_| !given) else { return servers::key(args.key_file.as_deref()) };
    let path = ssd.join(KEY_FILE);
    let (key, is_new) = Key::from_file_or_new(&path).map_err(|error| Error::Coded { message: error.to_string(), exit: Exit::Config })?;
    if is_new {
        console.say(&format!("made a key for clients: {}", path.display()));
    }
    Ok(key)
}

/// The service that the arguments ask for, and what of it was on the SSD.
fn service(args: &ServeArgs, home: &Path, console: Console) -> Result<Arc<dyn IoService>, Error> {
    let policy = args.policy.unwrap_or(if args.ssd.is_some() { ServerPolicy::default() } else { ServerPolicy::None });
    let options = IoNodeOptions {
        home: home.into(),
        ssd: args.ssd.clone(),
        ssd_bytes: args.ssd_size,
        policy,
        flush_bytes_per_s_max: args.flush_rate,
        foreground_share: Some(FOREGROUND_SHARE),
        discards_missing: args.discard_missing,
    };
    let node = IoNode::start(options).map_err(|error| {
        let (message, exit) = match &error {
            IoNodeError::NoSsd(_) => (format!("{error}: --ssd DIR, or --policy none"), Exit::Usage),
            IoNodeError::Missing { .. } => (format!("{error}: --discard-missing"), Exit::Data),
            IoNodeError::Ssd(_) => (error.to_string(), Exit::Buffer),
            _ => (error.to_string(), Exit::Config),
        };
        Error::Coded { message, exit }
    })?;
    let IoNodeRecovery { entries, files, lost_bytes, missing_files } = *node.recovery();
    if entries > 0 {
        console.say(&format!("the SSD holds {entries} writes of {files} files that are not on the disk yet"));
    }
    if lost_bytes > 0 || missing_files > 0 {
        let lost = Bytes(lost_bytes);
        console.warn(&format!(
            "a loss of power took {lost} from the SSD that nobody had synced; {missing_files} files of which it had bytes are gone"
        ));
    }
    Ok(Arc::new(node))
}

fn serve(args: &ServeArgs, home: &Path, console: Console) -> Result<(), Error> {
    let home = places::backing(home)?;
    let events = Events::take_signals()?;
    let part = PartFile::open(&home).map_err(|error| Error::Coded { message: error.to_string(), exit: Exit::Config })?;
    let service = service(args, &home, console)?;
    // A new SSD's directory has to be empty before it is taken.
    let key = own_key(args, console)?;
    let answering = Arc::new(IoServer::new(service.clone(), part));
    let server = Server::listen(&args.listen, key, answering)
        .map_err(|error| Error::Coded { message: format!("{error}; name another address with --listen"), exit: Exit::Config })?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    crate::print(&format!("serving {} at {}\n", home.display(), addresses.join(",")))?;
    if let Some(path) = &args.ready {
        let draft = path.with_extension("draft");
        let written = std::fs::write(&draft, addresses.join("\n") + "\n").and_then(|()| std::fs::rename(&draft, path));
        written.map_err(Error::io(format!("write {}", path.display())))?;
    }
    let signal = loop {
        match events.receiver.recv() {
            Ok(Event::Signal(signal)) => break signal,
            Ok(_) => {}
            Err(_) => return Err(Error::io("take signals")(std::io::ErrorKind::BrokenPipe.into())),
        }
    };
    console.say(&format!("{}: ending", signals::name(signal)));
    if !server.stop(STOP_WITHIN) {
        console.warn("requests are still under way; their clients will ask again");
    }
    if args.drain {
        let drained = service.drain().map_err(|errno| std::io::Error::from_raw_os_error(errno.0));
        drained.map_err(|error| {
            Error::Drain(format!("not everything could be brought to {}: {error}; start the server again", home.display()))
        })?;
    }
    service.stop();
    Ok(())
}
