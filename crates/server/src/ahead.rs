//! The thread that makes memory ready for the next burst, while there is none.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::world::StoreWorld;

/// Everything else goes first.
const NICE: i32 = 19;
/// So long nothing new must have been used before more is made ready.
const QUIET: Duration = Duration::from_millis(100);
/// Stack of the thread, bytes.
const STACK_BYTES: usize = 64 << 10;

/// Starts it; it ends with the world.
pub(crate) fn start(world: &Arc<StoreWorld>) -> io::Result<()> {
    let world = Arc::downgrade(world);
    thread::Builder::new().name("forebay-memory".into()).stack_size(STACK_BYTES).spawn(move || work(&world)).map(drop)
}

fn work(world: &Weak<StoreWorld>) {
    // Of this thread alone; if it is not allowed to, it only takes its turn like the others.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut seen = 0;
    loop {
        let Some(used) = world.upgrade().map(|world| make_ready(&world, seen)) else { return };
        // While a burst goes on, what is made ready for it would only be in its way.
        if std::mem::replace(&mut seen, used) == used {
            thread::park();
        } else {
            thread::park_timeout(QUIET);
        }
    }
}

/// Makes memory ready as long as it is not used up beyond `seen`; how far it is used.
fn make_ready(world: &StoreWorld, seen: u64) -> u64 {
    world.log.attend_to_memory();
    // Without space there is nothing to make ready: whoever writes there will be told.
    while world.log.memory_used() == seen && matches!(world.log.make_memory_ready(), Ok(true)) {}
    world.log.memory_used()
}
