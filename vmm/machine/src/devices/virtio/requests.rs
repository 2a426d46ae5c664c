//! A queue of requests: each chain is answered in its own buffers and given back at once.
//!
//! The lock is held while a request is carried out, so that no request is under way once the queue has been stopped. It
//! is also held while the guest is interrupted, so that no interrupt comes after a reset.

use std::fmt;
use std::sync::Arc;

use vm_memory::GuestMemoryMmap;

use super::sync::Mutex;
use super::{Budget, ChainError, Fault, Line, Progress, Request, Ring};

/// What a request came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer {
    /// Bytes written to its buffers.
    pub written: u32,
    /// Bytes that it had the host write for no bytes of its buffers: zeros of a disk.
    pub beyond: u64,
}

impl From<u32> for Answer {
    fn from(written: u32) -> Self {
        Self { written, beyond: 0 }
    }
}

/// A queue of requests.
pub struct RequestQueue {
    memory: GuestMemoryMmap,
    line: Arc<Line>,
    /// `None`: the driver is not ready.
    ring: Mutex<Option<Ring>>,
}

impl RequestQueue {
    /// A queue that is not set up.
    pub fn new(memory: GuestMemoryMmap, line: Arc<Line>) -> Self {
        Self { memory, line, ring: Mutex::new(None) }
    }

    /// Starts with this ring, or stops if it is `None`.
    pub fn set_ring(&self, ring: Option<Ring>) {
        *self.ring.lock() = ring;
    }

    /// Answers at most `most` requests, and no more than a turn's budget permits. `answer` returns what it came to, or
    /// only how many bytes it wrote.
    pub fn turn<A: Into<Answer>>(
        &self,
        most: usize,
        answer: impl FnMut(Request<'_>) -> Result<A, ChainError>,
    ) -> Progress {
        let mut ring = self.ring.lock();
        let Some(ring) = ring.as_mut().filter(|_| !self.line.needs_reset()) else { return Progress::Done };
        match self.answer_all(ring, most, answer) {
            Ok(progress) => progress,
            Err(fault) => {
                self.line.fault(fault);
                Progress::Done
            }
        }
    }

    fn answer_all<A: Into<Answer>>(
        &self,
        ring: &mut Ring,
        most: usize,
        mut answer: impl FnMut(Request<'_>) -> Result<A, ChainError>,
    ) -> Result<Progress, Fault> {
        let (mut progress, mut budget) = (Progress::More, Budget::of_turn());
        for answered in 0..most {
            if budget.is_spent() {
                break;
            }
            let Some(chain) = ring.take_or_arm(&self.memory)? else {
                if answered == 0 {
                    return Ok(Progress::Done);
                }
                progress = Progress::Done;
                break;
            };
            let head = chain.head_index();
            let request = Request::of(&self.memory, chain).inspect(|request| {
                let bytes = request.reader.available_bytes() + request.writer.available_bytes();
                budget.spend(request.descriptors, bytes);
            });
            let outcome = request.and_then(&mut answer);
            let Answer { written, beyond } = outcome.map_err(|cause| ring.chain_fault(head, cause))?.into();
            budget.spend(0, usize::try_from(beyond).unwrap_or(usize::MAX));
            ring.give_back(&self.memory, head, written)?;
        }
        if ring.wants_interrupt(&self.memory)? {
            self.line.used_buffers();
        }
        Ok(progress)
    }
}

impl fmt::Debug for RequestQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestQueue").field("ready", &self.ring.lock().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
