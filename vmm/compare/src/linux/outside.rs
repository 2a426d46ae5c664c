//! Work that a jailed process cannot do, for the peer: starting a program, and looking at its memory.
//!
//! The kernel keeps the rights of a jail for each thread. A thread that was started before the process entered its jail
//! has them still, and so have those that it starts. It does only what this file's users ask for. Without it, work is
//! done where it is asked for.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

type Task = Box<dyn FnOnce() + Send>;

static OUTSIDE: OnceLock<Sender<Task>> = OnceLock::new();

/// Starts the thread that stays outside the jail. To be called before the jail is entered, and only where a program
/// will have to be started.
pub fn stay_outside() -> io::Result<()> {
    let (tasks, asked) = mpsc::channel::<Task>();
    // Each task has a thread of its own, so that programs are started beside each other.
    let serve = move || asked.into_iter().for_each(|task| drop(thread::spawn(task)));
    // The thread ends with the process.
    thread::Builder::new().name("outside".to_owned()).spawn(serve)?;
    let _ = OUTSIDE.set(tasks);
    Ok(())
}

/// Does this outside the jail, and waits for it.
pub(super) fn outside<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let Some(tasks) = OUTSIDE.get() else { return Ok(what()) };
    let (done, outcome) = mpsc::sync_channel(1);
    // No thread waits any more if this one has been ended.
    let task: Task = Box::new(move || drop(done.send(what())));
    let ended = |_| io::Error::other("the thread outside the jail has ended");
    tasks.send(task).map_err(|_| ended(()))?;
    outcome.recv().map_err(|_| ended(()))
}
