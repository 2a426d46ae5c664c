//! A bounded queue of text on its way to the writing thread.
//!
//! Whoever puts text in never waits for a reader: if there is no room, the text is lost and counted. Text is also lost
//! when a write fails. [`Outlet::flush`] waits for the writer, but not for one that is stalled.
//!
//! Locks: the queue's lock is held for a few instructions, and never while text is written.

use super::writer::{LOOK_EVERY, PATIENCE, TURN, Writer};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use stile_sched::Nanos;

/// Most text that waits in one outlet (units: bytes). A kernel's messages from its boot fit.
pub const ROOM: usize = 128 << 10;
/// What a piece takes beside its bytes, about (units: bytes). So empty lines have a bound as well.
const PIECE: usize = 32;
/// Bytes that come one by one are joined to pieces of this size (units: bytes).
const JOINED: usize = 4096;

/// The name of standard output among the places to which outlets lead.
pub const STANDARD_OUTPUT: &str = "standard output";

/// Writes a piece of text to its place. It is called by the writing thread only, and may block.
pub type Write = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// A way for text to a place outside. Clones are the same outlet.
#[derive(Clone)]
pub struct Outlet(Arc<Shared>);

/// Text that did not reach its place.
#[derive(Debug, Default)]
pub struct Lost {
    /// How much (units: bytes).
    pub bytes: u64,
    /// The first error of a write; `None`: there was no room, because the place took text too slowly.
    pub error: Option<io::Error>,
}

/// The writing thread has not come back from a write.
#[derive(Debug, thiserror::Error)]
#[error("{place} {}: nothing could be written to it for {PATIENCE:?}", what_hangs(place))]
pub struct Stalled {
    /// The place for which the text was meant that waits.
    pub place: String,
}

fn what_hangs(place: &str) -> &'static str {
    if place == STANDARD_OUTPUT { "is not read" } else { "does not answer" }
}

/// What an outlet and the writing thread share.
pub(super) struct Shared {
    place: String,
    queue: Mutex<Queue>,
    /// Rings when pieces have been written.
    written: Condvar,
    /// Only the writing thread locks it.
    write: Mutex<Write>,
    /// CPU time that the writing thread has used for this outlet, and nobody has paid for (unit: ns). Relaxed: it
    /// orders nothing.
    unpaid: AtomicU64,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes in `pieces`, with [`PIECE`] for each.
    held: usize,
    /// The writing thread knows of the outlet, and will come to it again.
    enlisted: bool,
    /// Pieces that were put in, and pieces that were written or lost in writing, since the beginning.
    put: u64,
    done: u64,
    lost: Lost,
}

impl Outlet {
    /// An outlet to this place, for messages, and the way to write there.
    pub fn new(place: &str, write: Write) -> Self {
        // Whoever puts the first text in may have no right to start a thread: a device worker in the jail has none.
        let _ = Writer::get();
        let (place, write) = (place.to_owned(), Mutex::new(write));
        let (queue, written, unpaid) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Self(Arc::new(Shared { place, queue, written, write, unpaid }))
    }

    /// Has this text written as one piece. Returns false if there is no room for it, so that it is lost.
    pub fn put(&self, text: &[u8]) -> bool {
        self.add(text, false)
    }

    /// Like [`put`](Self::put), for bytes that come a few at a time and may be written with others.
    pub fn put_joined(&self, text: &[u8]) -> bool {
        self.add(text, true)
    }

    fn add(&self, text: &[u8], joined: bool) -> bool {
        let mut queue = self.0.queue();
        let added = queue.add(text, joined);
        let new = added && !std::mem::replace(&mut queue.enlisted, true);
        drop(queue);
        if new {
            Writer::get().enlist(Arc::clone(&self.0));
        }
        added
    }

    /// Like [`put`](Self::put), but waits for room as long as the writer gets on.
    pub fn put_patiently(&self, text: &[u8]) -> Result<(), Stalled> {
        self.wait(|queue| queue.has_room(text.len()))?;
        match self.put(text) {
            true => Ok(()),
            // Only text that never fits comes here.
            false => Err(self.stalled()),
        }
    }

    /// Waits until all text that was put in before has been written or lost, or the writer has stalled.
    pub fn flush(&self) -> Result<(), Stalled> {
        let put = self.0.queue().put;
        self.wait(|queue| queue.done >= put)
    }

    /// What was lost since the last call.
    pub fn take_lost(&self) -> Lost {
        std::mem::take(&mut self.0.queue().lost)
    }

    /// Bytes that were lost since the last call of [`take_lost`](Self::take_lost).
    pub fn lost_bytes(&self) -> u64 {
        self.0.queue().lost.bytes
    }

    /// Waits like [`flush`](Self::flush), gives up what is left after that, and returns what was lost since the last
    /// call.
    pub fn close(&self) -> Lost {
        if self.flush().is_err() {
            self.0.queue().give_up();
        }
        self.take_lost()
    }

    /// CPU time that the writing thread has used for it since the last call, if it is so much.
    pub fn take_unpaid(&self, least: Nanos) -> Option<Nanos> {
        let unpaid = &self.0.unpaid;
        (unpaid.load(Ordering::Relaxed) >= least.0).then(|| Nanos(unpaid.swap(0, Ordering::Relaxed)))
    }

    /// The place to which it leads.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    fn wait(&self, reached: impl Fn(&Queue) -> bool) -> Result<(), Stalled> {
        let mut queue = self.0.queue();
        while !reached(&queue) {
            if Writer::get().is_stalled() {
                return Err(self.stalled());
            }
            queue = self.0.written.wait_timeout(queue, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn stalled(&self) -> Stalled {
        Stalled { place: self.0.place.clone() }
    }
}

impl Queue {
    fn has_room(&self, bytes: usize) -> bool {
        self.pieces.is_empty() || self.held + bytes + PIECE <= ROOM
    }

    fn add(&mut self, text: &[u8], joined: bool) -> bool {
        if text.len() > ROOM || !self.has_room(text.len()) {
            self.lost.bytes += text.len() as u64;
            return false;
        }
        match self.pieces.back_mut().filter(|last| joined && last.len() + text.len() <= JOINED) {
            Some(last) => last.extend_from_slice(text),
            None => {
                self.pieces.push_back(text.to_vec());
                self.held += PIECE;
                self.put += 1;
            }
        }
        self.held += text.len();
        true
    }

    fn give_up(&mut self) {
        let bytes: usize = self.pieces.drain(..).map(|piece| piece.len()).sum();
        self.held = 0;
        self.lost.bytes += bytes as u64;
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next pieces, of [`TURN`] bytes or a single one.
    pub(super) fn take(&self) -> Vec<Vec<u8>> {
        let mut queue = self.queue();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < TURN
            && let Some(piece) = queue.pieces.pop_front()
        {
            bytes += piece.len() + PIECE;
            taken.push(piece);
        }
        queue.held -= bytes;
        taken
    }

    /// Writes a piece, and counts it as written or lost.
    pub(super) fn write(&self, piece: &[u8]) {
        let mut write = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        // A panic here must not end the thread, on which all text depends. Unwind-safe: nothing but the next write uses
        // what a sink holds.
        let outcome = catch_unwind(AssertUnwindSafe(|| write(piece)));
        let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("stile panicked")));
        let mut queue = self.queue();
        queue.done += 1;
        if let Err(error) = outcome {
            queue.lost.bytes += piece.len() as u64;
            queue.lost.error.get_or_insert(error);
        }
        drop(queue);
        self.written.notify_all();
    }

    /// The writing thread has used so much CPU time for it.
    pub(super) fn owes(&self, time: Nanos) {
        self.unpaid.fetch_add(time.0, Ordering::Relaxed);
    }

    /// Whether there is more to write. If not, the outlet is off the writer's list.
    pub(super) fn has_more(&self) -> bool {
        let mut queue = self.queue();
        queue.enlisted = !queue.pieces.is_empty();
        queue.enlisted
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("place", &self.0.place).finish_non_exhaustive()
    }
}
