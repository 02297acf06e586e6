//! A home that is made of I/O servers: the way there, and what is asked of all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_core::effect::HomeChange;
use forebay_core::errno::Errno;
use forebay_core::id::ServerId;
use forebay_core::layout::Striped;
use forebay_core::policy::detector::FragmentRule;
use forebay_host::net::message::{HomeId, Part, Reply, Request};
use forebay_host::net::{Address, Answer, Ask, ClientId, Dial, Key, NetError, Remote};
use parking_lot::{Condvar, Mutex};
use thiserror::Error;

/// How often servers hear of each other's disks (I-06).
const EXCHANGE_EVERY: Duration = Duration::from_secs(1);
/// Servers of one home.
const SERVERS_MAX: usize = 1024;

/// Which servers, and how they are used.
#[derive(Clone, Debug)]
pub struct ServersOptions {
    /// The servers, always in the same order.
    pub addresses: Vec<Address>,
    /// Bytes of a stripe; the same for ever.
    pub stripe_bytes: u64,
    /// The key of the instance.
    pub key: Key,
    /// Who asks: the same after a recovery.
    pub client: ClientId,
    /// How long a request waits for a server that is away before it fails.
    pub patience: Duration,
    /// How long the first connection may take.
    pub connect_within: Duration,
}

/// Why servers make no home.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// One of them cannot be used.
    #[error(transparent)]
    Net(#[from] NetError),
    /// One refuses to hold this part.
    #[error("the server {address} cannot be used: {reason}")]
    Refused {
        /// The server.
        address: Address,
        /// What it says.
        reason: String,
    },
    /// Two names lead to one home.
    #[error("{first} and {second} are the same server; name each once")]
    Twice {
        /// A server.
        first: Address,
        /// The same.
        second: Address,
    },
    /// There has to be one, and not too many.
    #[error("{0} servers cannot make a home; name 1 to {SERVERS_MAX}")]
    Number(usize),
    /// The system's error.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A home that is made of I/O servers.
pub struct ServersHome {
    pub(super) remotes: Arc<Vec<Remote>>,
    pub(super) layout: Striped,
    pub(super) rule: FragmentRule,
    /// For each server, the changes that a loss of its power could still undo.
    pub(super) unsettled: Vec<Mutex<Unsettled>>,
    /// Held by whoever syncs.
    pub(super) syncing: Mutex<()>,
    name: String,
    exchange: Arc<Exchange>,
}

/// Changes that were made on a server and not synced since.
#[derive(Default)]
pub(super) struct Unsettled {
    /// The server's boots when they were made, or made again.
    pub(super) boots: u64,
    pub(super) next: u64,
    pub(super) changes: Vec<(u64, HomeChange)>,
}

/// When servers were told of each other last.
#[derive(Default)]
struct Exchange {
    /// Requests for bytes, so far.
    requests: AtomicU64,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Drop for ServersHome {
    fn drop(&mut self) {
        *self.exchange.ended.lock() = true;
        self.exchange.changed.notify_all();
    }
}

/// Which home a server has, and which boot of its machine that is.
fn expect_home(answer: Answer, address: &Address) -> Result<(HomeId, String), ConnectError> {
    match answer.reply {
        Reply::Home { id, boot } => Ok((id, boot)),
        other => Err(ConnectError::Refused { address: address.clone(), reason: format!("it answers {other:?}") }),
    }
}

fn ask(request: Request) -> Ask<'static> {
    Ask { request, payload: Vec::new() }
}

impl ServersHome {
    /// Connects to all servers, and has each hold its part.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(options: ServersOptions) -> Result<ServersHome, ConnectError> {
        let ServersOptions { addresses, stripe_bytes, key, client, patience, connect_within } = options;
        let servers = u32::try_from(addresses.len()).ok().filter(|servers| (1..=SERVERS_MAX as u32).contains(servers));
        let servers = servers.ok_or(ConnectError::Number(addresses.len()))?;
        let dial = |address: &Address| Dial { address: address.clone(), key: key.clone(), client, patience };
        let remotes = addresses.iter().map(|address| Remote::start(dial(address))).collect::<Result<Vec<_>, _>>()?;
        let (mut ids, mut boots) = (Vec::new(), Vec::new());
        for remote in &remotes {
            remote.connected(connect_within)?;
            let (id, boot) = expect_home(remote.call(ask(Request::Who))?, remote.address())?;
            if let Some(same) = ids.iter().position(|known| *known == id) {
                return Err(ConnectError::Twice { first: addresses[same].clone(), second: remote.address().clone() });
            }
            ids.push(id);
            boots.push(boot);
        }
        for (((remote, id), boot), index) in remotes.iter().zip(&ids).zip(boots).zip(0..) {
            let join = Request::Join { part: Part { first: ids[0], index, servers, stripe_bytes } };
            match remote.call(ask(join.clone()))?.reply {
                Reply::Done => {}
                Reply::Refused(reason) => return Err(ConnectError::Refused { address: remote.address().clone(), reason }),
                other => return Err(ConnectError::Refused { address: remote.address().clone(), reason: format!("it answers {other:?}") }),
            }
            remote.begin_with(vec![(Request::Who, Reply::Home { id: *id, boot }), (join, Reply::Done)]);
        }
        let name = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let layout = Striped { base: ServerId(0), servers, stripe_bytes: stripe_bytes.max(1) };
        let (remotes, exchange) = (Arc::new(remotes), Arc::new(Exchange::default()));
        if servers > 1 {
            let (of_thread, remotes) = (exchange.clone(), remotes.clone());
            std::thread::Builder::new().name("exchange".into()).spawn(move || of_thread.keep_up(&remotes))?;
        }
        let unsettled = remotes.iter().map(|_| Mutex::default()).collect();
        let (rule, syncing) = (FragmentRule::default(), Mutex::default());
        Ok(ServersHome { remotes, layout, rule, unsettled, syncing, name, exchange })
    }

    /// The servers, as they were named.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn note_request(&self) {
        self.exchange.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks one server.
    pub(super) fn one(&self, index: usize, request: Request) -> Result<Answer, Errno> {
        settle(self.remotes[index].call(ask(request)))
    }

    /// Asks some servers at the same time, in the order of their numbers; the answers, in that order, or the first error.
    pub(super) fn some(&self, mut asks: Vec<(usize, Ask<'_>)>) -> Result<Vec<Answer>, Errno> {
        asks.sort_by_key(|(index, _)| *index);
        let sent: Vec<_> = asks.iter().map(|(index, ask)| self.remotes[*index].send(ask)).collect();
        // All are waited for: when this returns nothing goes on.
        let answers: Vec<_> =
            asks.iter_mut().zip(sent).map(|((index, ask), ticket)| settle(self.remotes[*index].finish(ask, ticket))).collect();
        answers.into_iter().collect()
    }

    /// Asks all servers the same.
    pub(super) fn all(&self, request: &Request) -> Result<Vec<Answer>, Errno> {
        self.some((0..self.remotes.len()).map(|index| (index, ask(request.clone()))).collect())
    }

    /// Asks all servers but the first the same.
    pub(super) fn others(&self, request: &Request) -> Result<Vec<Answer>, Errno> {
        self.some((1..self.remotes.len()).map(|index| (index, ask(request.clone()))).collect())
    }

    /// Has each of these servers make a change, all at the same time.
    pub(super) fn changes(&self, changes: Vec<(usize, HomeChange)>) -> Result<Vec<Answer>, Errno> {
        let asks = changes.iter().map(|(index, change)| (*index, ask(Request::Change { change: change.clone() })));
        let answers = self.some(asks.collect())?;
        for (index, change) in changes {
            let mut unsettled = self.unsettled[index].lock();
            let number = unsettled.next;
            unsettled.next += 1;
            unsettled.changes.push((number, change));
        }
        Ok(answers)
    }

    /// Makes the changes again that a machine may have lost when it was started again. What is made and not settled concerns different
    /// names, so that this does no harm; bytes are compared after the sync.
    pub(super) fn redo_what_was_lost(&self) -> Result<(), Errno> {
        for (index, unsettled) in self.unsettled.iter().enumerate() {
            let boots = self.remotes[index].boots();
            let changes = {
                let unsettled = unsettled.lock();
                if unsettled.boots == boots { continue } else { unsettled.changes.clone() }
            };
            for (_, mut change) in changes {
                if let HomeChange::Rename { again, .. } = &mut change {
                    *again = true;
                }
                self.one(index, Request::Change { change })?;
            }
            unsettled.lock().boots = boots;
        }
        Ok(())
    }

    /// Whether no server's machine was started again since all was redone.
    pub(super) fn is_nothing_lost(&self) -> bool {
        self.remotes.iter().zip(&self.unsettled).all(|(remote, unsettled)| remote.boots() == unsettled.lock().boots)
    }
}

fn settle(answer: Result<Answer, NetError>) -> Result<Answer, Errno> {
    match answer {
        Ok(Answer { reply: Reply::Failed(errno), .. }) => Err(errno),
        Ok(answer) => Ok(answer),
        Err(NetError::TooLong) => Err(Errno::ENAMETOOLONG),
        Err(_) => Err(Errno::ETIMEDOUT),
    }
}

impl Exchange {
    /// Tells the servers of each other's disks, as long as there are requests.
    fn keep_up(&self, remotes: &[Remote]) {
        let (mut seen, mut times) = (0, Vec::new());
        let mut ended = self.ended.lock();
        while !*ended {
            let waited = self.changed.wait_for(&mut ended, EXCHANGE_EVERY);
            let requests = self.requests.load(Ordering::Relaxed);
            if !waited.timed_out() || requests == seen {
                continue;
            }
            seen = requests;
            drop(ended);
            times = exchange(remotes, &times);
            ended = self.ended.lock();
        }
    }
}

/// Tells each server what was known, and gives what is known now. One that is away is not waited for, and counts no more.
fn exchange(remotes: &[Remote], times: &[(ServerId, u64)]) -> Vec<(ServerId, u64)> {
    let mut now = Vec::new();
    for (remote, index) in remotes.iter().zip(0..) {
        if remote.connected(Duration::ZERO).is_err() {
            continue;
        }
        let answer = remote.call(ask(Request::ServiceTimes { times: times.to_vec() }));
        if let Ok(Answer { reply: Reply::ServiceTime(Some(time)), .. }) = answer {
            now.push((ServerId(index), time));
        }
    }
    now
}
