//! A device with its queues.
//!
//! Requests enter the scheduler's window, as many as it holds; the others wait before it. From the window they go to the drive in the
//! order of their places, upwards from where the last one ended and then from the start again, and what is adjacent goes as one
//! command. Of the commands that the drive has, it serves the one first that it reaches first, but none is passed over for ever.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use forebay_core::policy::Operation;

use super::geometry::Place;
use super::{DeviceSpec, Server};

/// How requests are put in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// Requests that are sorted; 0 or 1: first come, first served.
    pub window_requests: usize,
    /// Bytes of adjacent requests that go to the drive as one command.
    pub merge_bytes_max: u64,
    /// Commands that the drive has at a time; at least 1. With more than one, a disk chooses.
    pub drive_queue: usize,
}

impl Scheduling {
    /// First come, first served, as for an SSD.
    pub const FIFO: Scheduling = Scheduling { window_requests: 1, merge_bytes_max: 0, drive_queue: 1 };
}

impl Default for Scheduling {
    /// The queue of the scheduler that the papers name: 128 requests, merged up to 512 KiB.
    fn default() -> Self {
        Scheduling { window_requests: 128, merge_bytes_max: 512 << 10, drive_queue: 1 }
    }
}

/// A command that the drive has passed over this often, times the commands that it may have, is served next.
const PASSES_FACTOR: u32 = 4;

/// What a device is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelRequest {
    /// Comes back with the completion.
    pub id: u64,
    /// Read or write.
    pub operation: Operation,
    /// Bytes from the start of the device.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A request that is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Completion {
    /// When.
    pub time_ns: u64,
    /// Which.
    pub id: u64,
}

#[derive(Debug)]
struct Command {
    operation: Operation,
    offset: u64,
    len: u64,
    place: Option<Place>,
    passes: u32,
    ids: Vec<u64>,
}

/// A device, its queues, and what it is doing.
///
/// Times that it is given never go back. Requests that are done are kept until [`ModelDevice::pop`] takes them.
#[derive(Debug)]
pub struct ModelDevice {
    server: Server,
    scheduling: Scheduling,
    /// Before the window.
    waiting: VecDeque<ModelRequest>,
    /// By place, then arrival.
    window: BTreeMap<(u64, u64), ModelRequest>,
    /// Where the next command would go on.
    sweep: u64,
    arrivals: u64,
    drive: VecDeque<Command>,
    served: BinaryHeap<Reverse<(u64, u64)>>,
    /// The requests of each command that is being served, by its number.
    serving: VecDeque<(u64, Vec<u64>)>,
    commands: u64,
    done: VecDeque<Completion>,
    spare: Vec<Vec<u64>>,
}

impl ModelDevice {
    /// An idle device.
    pub fn new(spec: &DeviceSpec, scheduling: Scheduling) -> ModelDevice {
        assert!(scheduling.drive_queue > 0, "a drive that takes no command");
        ModelDevice {
            server: Server::new(spec),
            scheduling,
            waiting: VecDeque::new(),
            window: BTreeMap::new(),
            sweep: 0,
            arrivals: 0,
            drive: VecDeque::new(),
            served: BinaryHeap::new(),
            serving: VecDeque::new(),
            commands: 0,
            done: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Takes a request.
    pub fn submit(&mut self, now_ns: u64, request: ModelRequest) {
        self.advance(now_ns);
        self.waiting.push_back(request);
        self.dispatch(now_ns);
    }

    /// When the next request is done, if there is any.
    pub fn next_ns(&self) -> Option<u64> {
        let served = || self.served.peek().map(|Reverse((time_ns, _))| *time_ns);
        self.done.front().map(|done| done.time_ns).or_else(served)
    }

    /// The next request that is done by now.
    pub fn pop(&mut self, now_ns: u64) -> Option<Completion> {
        if self.done.is_empty() {
            self.advance(now_ns);
        }
        self.done.pop_front()
    }

    /// Requests that came and are not done.
    pub fn pending(&self) -> usize {
        let serving: usize = self.serving.iter().map(|(_, ids)| ids.len()).sum();
        self.waiting.len() + self.window.len() + self.drive.iter().map(|command| command.ids.len()).sum::<usize>() + serving
    }

    /// Finishes what is done by now, each command followed at once by the next.
    fn advance(&mut self, now_ns: u64) {
        while let Some(Reverse((time_ns, command))) = self.served.peek().copied().filter(|Reverse((time_ns, _))| *time_ns <= now_ns) {
            self.served.pop();
            let at = self.serving.iter().position(|(number, _)| *number == command).expect("a command is being served");
            let (_, mut ids) = self.serving.remove(at).expect("it is there");
            self.done.extend(ids.drain(..).map(|id| Completion { time_ns, id }));
            self.spare.push(ids);
            self.dispatch(time_ns);
        }
    }

    /// Fills window and drive, and gives the server what it can take.
    fn dispatch(&mut self, now_ns: u64) {
        loop {
            self.fill_drive();
            if self.serving.len() >= self.server.commands_max() {
                return;
            }
            let Some(command) = self.choose(now_ns) else { return };
            let done_ns = self.server.serve(now_ns, command.operation, command.offset, command.len);
            self.commands += 1;
            self.served.push(Reverse((done_ns, self.commands)));
            self.serving.push_back((self.commands, command.ids));
        }
    }

    fn fill_drive(&mut self) {
        while self.drive.len() < self.scheduling.drive_queue {
            let command = if self.scheduling.window_requests <= 1 {
                let Some(request) = self.waiting.pop_front() else { return };
                self.command(request)
            } else {
                let Some(command) = self.next_of_window() else { return };
                command
            };
            self.drive.push_back(command);
        }
    }

    fn command(&mut self, request: ModelRequest) -> Command {
        let mut ids = self.spare.pop().unwrap_or_default();
        ids.push(request.id);
        let place = match &self.server {
            Server::Disk(disk) if self.scheduling.drive_queue > 1 => Some(disk.geometry().locate(request.offset)),
            _ => None,
        };
        Command { operation: request.operation, offset: request.offset, len: request.len, place, passes: 0, ids }
    }

    /// The next command of the sweep, with everything that continues it.
    fn next_of_window(&mut self) -> Option<Command> {
        self.fill_window();
        let key = self.window.range((self.sweep, 0)..).next().or_else(|| self.window.iter().next()).map(|(key, _)| *key)?;
        let request = self.window.remove(&key).expect("it was found");
        let mut command = self.command(request);
        loop {
            self.fill_window();
            let end = command.offset + command.len;
            let next = self.window.range((end, 0)..=(end, u64::MAX)).find(|(_, next)| next.operation == command.operation);
            match next.map(|(key, next)| (*key, *next)) {
                Some((key, next)) if command.len + next.len <= self.scheduling.merge_bytes_max => {
                    self.window.remove(&key);
                    command.len += next.len;
                    command.ids.push(next.id);
                }
                _ => {
                    self.sweep = end;
                    return Some(command);
                }
            }
        }
    }

    fn fill_window(&mut self) {
        while self.window.len() < self.scheduling.window_requests {
            let Some(request) = self.waiting.pop_front() else { return };
            self.arrivals += 1;
            self.window.insert((request.offset, self.arrivals), request);
        }
    }

    /// Takes the command out of the drive that it serves next: a disk's is the one that it reaches first.
    fn choose(&mut self, now_ns: u64) -> Option<Command> {
        let Server::Disk(disk) = &self.server else { return self.drive.pop_front() };
        if self.drive.len() <= 1 {
            return self.drive.pop_front();
        }
        let passes_max = PASSES_FACTOR * self.scheduling.drive_queue as u32;
        let cost_ns = |command: &Command| match &command.place {
            _ if command.passes >= passes_max => 0,
            Some(place) => disk.reach_ns(now_ns, command.operation, command.offset, place),
            None => 0,
        };
        let at = (0..self.drive.len()).min_by_key(|at| cost_ns(&self.drive[*at]))?;
        // Only what came before the chosen one was passed over.
        self.drive.iter_mut().take(at).for_each(|command| command.passes += 1);
        self.drive.remove(at)
    }
}
