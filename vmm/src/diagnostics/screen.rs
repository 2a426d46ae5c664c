//! Standard error, shared with a display that stays in place on a terminal: a progress bar, or a table of
//! `run --stats`.
//!
//! Events may come from threads that run vCPUs or serve devices. So nothing here waits for a reader, except the
//! program's first thread, for [`PATIENCE`] at most. What finds no room is lost: there is no place left to say so.

use indicatif::{ProgressBar, WeakProgressBar};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use stile_machine::vm::console::{Outlet, PATIENCE};

/// A pipe or terminal that polls writable takes so much without blocking (units: bytes).
const PIECE: usize = 4096;
/// Time between two tries to write.
const PAUSE: Duration = Duration::from_millis(50);

/// The display that stays in place at the moment.
static BELOW: Mutex<Option<Below>> = Mutex::new(None);
/// The program's first thread.
static FIRST: OnceLock<ThreadId> = OnceLock::new();
/// Standard error has taken nothing for [`PATIENCE`], and nobody waits for it any more.
static STALLED: AtomicBool = AtomicBool::new(false);

/// A display, and its way to the terminal if it does not write by itself.
struct Below {
    bar: WeakProgressBar,
    outlet: Option<Outlet>,
}

/// Writes diagnostics above this bar from now on, until it is dropped. If the bar is drawn through an outlet, they go
/// the same way.
pub(crate) fn stay_above(bar: &ProgressBar, outlet: Option<&Outlet>) {
    let below = Below { bar: bar.downgrade(), outlet: outlet.cloned() };
    *BELOW.lock().unwrap_or_else(PoisonError::into_inner) = Some(below);
}

/// The calling thread is the program's first.
pub(super) fn this_is_the_first_thread() {
    FIRST.get_or_init(|| thread::current().id());
}

/// Writes to standard error, above the display. A failure is ignored: there is no place left to report it.
pub(super) struct Screen;

impl Write for Screen {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let below = BELOW.lock().unwrap_or_else(PoisonError::into_inner);
        let below = below.as_ref().and_then(|below| Some((below.bar.upgrade()?, below.outlet.clone())));
        match below.filter(|(bar, _)| !bar.is_finished()) {
            Some((bar, Some(outlet))) if io::stderr().is_terminal() => bar.suspend(|| {
                let _ = outlet.put(text);
            }),
            Some((_, Some(_))) | None => write_to_stderr(text),
            Some((bar, None)) => bar.suspend(|| write_to_stderr(text)),
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to standard error what it takes.
pub(crate) fn write_to_stderr(text: &[u8]) {
    let waits = FIRST.get() == Some(&thread::current().id());
    for piece in text.chunks(PIECE) {
        let begun = Instant::now();
        while !write_if_possible(piece) {
            if !waits || STALLED.load(Ordering::Relaxed) {
                return;
            }
            if begun.elapsed() >= PATIENCE {
                STALLED.store(true, Ordering::Relaxed);
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Writes a piece if that does not block. Returns false if it would.
fn write_if_possible(piece: &[u8]) -> bool {
    let mut out = io::stderr().lock();
    let ready = {
        let mut polled = [PollFd::new(&out, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A reader that is gone counts as ready: the write fails and does not block.
        poll(&mut polled, Some(&at_once)).is_err() || !polled[0].revents().is_empty()
    };
    if ready {
        let _ = out.write_all(piece);
    }
    ready
}
