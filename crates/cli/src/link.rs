//! What the keeper of an instance and the process that serves it say to each other, over a socket between the two.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use forebay_fuse::Agreed;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::child::Target;
use crate::engine::Legacy;
use crate::error::Error;
use crate::signals::Event;

/// The longest message: paths are the longest part.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Descriptors beside a message, at most.
const DESCRIPTORS_MAX: usize = 2;

/// What the keeper says.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum ToServer {
    /// The first message. With `resumed`, the descriptors of the connection and of the backing directory, if there is one, come with it.
    Begin { keeper: u32, resumed: Option<Resumed> },
    /// The keeper got a signal that asks to end.
    Signal(i32),
    /// News of the command.
    Command(CommandState),
}

/// What the process that serves says.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum ToKeeper {
    /// It serves a mount. With `agreed`, another process can take over, with the descriptors that come with this: connection, and backing directory if home is one.
    Serves { buffer: PathBuf, agreed: Option<Agreed>, config: Option<String>, in_background: bool },
    /// The command is to be started.
    Start { mount: PathBuf, stand: PathBuf },
    /// Everything is home; from now on there is nothing to take over.
    Ends,
}

/// How far the command has come.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum CommandState {
    /// Nobody has asked for it.
    Unasked,
    /// It is being started.
    Starting,
    Running(Target),
    /// It could not be started.
    Refused {
        code: u8,
        message: String,
    },
    /// It has ended with this status.
    Ended {
        code: u8,
        took_ns: u64,
    },
}

/// What a process that takes over must know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Resumed {
    pub(crate) buffer: PathBuf,
    pub(crate) agreed: Agreed,
    /// The text of the configuration file.
    pub(crate) config: Option<String>,
    pub(crate) command: CommandState,
    /// Processes that were killed so far.
    pub(crate) takeovers: u32,
    /// Signals that asked to end so far, and the last of them.
    pub(crate) signals: u32,
    pub(crate) signal: Option<i32>,
    /// Since the first process was started.
    pub(crate) since_ns: u64,
}

/// One end of the socket.
#[derive(Clone, Debug)]
pub(crate) struct Socket(Arc<OwnedFd>);

impl Socket {
    /// Both ends; the second one as the standard input of the process that is to have it.
    pub(crate) fn pair() -> io::Result<(Socket, Stdio)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Socket(Arc::new(ours)), theirs.into()))
    }

    /// Sends a message and descriptors.
    pub(crate) fn send(&self, message: &impl Serialize, descriptors: &[&OwnedFd]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        loop {
            match sendmsg(&*self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                result => return Ok(result.map(drop)?),
            }
        }
    }

    /// Waits for a message; none when the other end is closed.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(&*self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                result => break result?,
            }
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
        match bytes.get(..received.bytes) {
            Some(message) if !message.is_empty() => Ok(Some((serde_json::from_slice(message)?, descriptors))),
            _ => Ok(None),
        }
    }
}

/// The end of the process that serves.
pub(crate) struct Link {
    socket: Socket,
    pub(crate) keeper: u32,
    /// What is left of a process that was killed.
    pub(crate) resumed: Option<(Resumed, Legacy)>,
    /// The text of the configuration file.
    pub(crate) config: Option<String>,
}

impl Link {
    /// Takes the socket from standard input. This process dies with its keeper from now on.
    pub(crate) fn open() -> Result<Link, Error> {
        let failed = || Error::io("hear from the process that keeps this one");
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed()(error.into()))?;
        let socket = Socket(Arc::new(io::stdin().as_fd().try_clone_to_owned().map_err(failed())?));
        let null = std::fs::File::open("/dev/null").map_err(failed())?;
        rustix::stdio::dup2_stdin(&null).map_err(|error| failed()(error.into()))?;
        let Some((ToServer::Begin { keeper, resumed }, descriptors)) = socket.receive().map_err(failed())? else {
            return Err(failed()(io::ErrorKind::UnexpectedEof.into()));
        };
        if std::os::unix::process::parent_id() != keeper {
            // It died before it could take this process with it.
            return Err(failed()(io::ErrorKind::BrokenPipe.into()));
        }
        let mut descriptors = descriptors.into_iter();
        let resumed = match (resumed, descriptors.next(), descriptors.next()) {
            (Some(resumed), Some(device), home) => {
                let agreed = resumed.agreed;
                Some((resumed, Legacy { device, agreed, home }))
            }
            (Some(_), ..) => return Err(failed()(io::ErrorKind::InvalidData.into())),
            (None, ..) => None,
        };
        Ok(Link { socket, keeper, resumed, config: None })
    }

    /// Has what the keeper says come as events.
    pub(crate) fn listen(&self, events: Sender<Event>) -> Result<(), Error> {
        let socket = self.socket.clone();
        let listen = move || {
            // Its end is the end of this process as well.
            while let Ok(Some((message, _))) = socket.receive() {
                let event = match message {
                    ToServer::Signal(signal) => Event::Signal(signal),
                    ToServer::Command(state) => Event::Command(state),
                    ToServer::Begin { .. } => continue,
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("keeper".into()).spawn(listen).map(drop).map_err(Error::io("start a thread"))
    }

    /// Tells the keeper. One that cannot hear is about to end this process.
    pub(crate) fn tell(&self, message: &ToKeeper) {
        let _ = self.socket.send(message, &[]);
    }

    /// This process serves now. Leaves with the keeper what another needs to take over, if one can.
    pub(crate) fn serves(&self, legacy: Option<&Legacy>, buffer: PathBuf, in_background: bool) {
        let message = ToKeeper::Serves { buffer, agreed: legacy.map(|legacy| legacy.agreed), config: self.config.clone(), in_background };
        let descriptors = legacy.map_or(Vec::new(), |legacy| std::iter::once(&legacy.device).chain(&legacy.home).collect());
        let _ = self.socket.send(&message, &descriptors);
    }
}
