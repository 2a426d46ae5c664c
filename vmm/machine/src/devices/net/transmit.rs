//! The sending half of a virtio-net device: takes frames out of the guest's transmit queue and gives them to the switch
//! or to a tap.
//!
//! It runs on the thread of the vCPU that rang, or on the worker of its VM. Its lock is held while one frame is taken
//! out, and not while the frame is delivered. If two vCPUs of a guest ring at the same time, their frames may overtake
//! each other. After a turn the scheduler decides whether the vCPU goes on with the queue.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use vm_memory::GuestMemoryMmap;

use super::{DropReason, Frame, MAX_FRAME};
use crate::devices::virtio::{Budget, Fault, Line, Progress, Ring, read_chain};

/// Frames in one turn: a full ring.
const FRAMES_PER_TURN: usize = 256;

/// Where a guest's frames go.
pub(super) trait Uplink {
    /// Sends a frame. Returns to how many receivers it was offered.
    fn send(&mut self, frame: &Frame) -> usize;
    /// Counts a frame that cannot be sent.
    fn count_drop(&mut self, reason: DropReason);
}

/// The sending half.
pub(super) struct Transmitter {
    memory: GuestMemoryMmap,
    line: Arc<Line>,
    /// `None`: the driver is not ready.
    ring: Mutex<Option<Ring>>,
}

/// The result of one look at the queue.
enum Taken {
    Frame,
    /// A frame that cannot be sent.
    Unsendable(DropReason),
    /// No frame. `interrupt`: the guest wants to know that its buffers are free.
    Empty {
        interrupt: bool,
    },
}

impl Transmitter {
    pub(super) fn new(memory: GuestMemoryMmap, line: Arc<Line>) -> Self {
        Self { memory, line, ring: Mutex::new(None) }
    }

    /// Starts with this queue, or stops if it is `None`.
    pub(super) fn set_ring(&self, ring: Option<Ring>) {
        *self.ring.lock() = ring;
    }

    /// Sends the frames in the queue, at most one turn's worth.
    pub(super) fn send_some(&self, mut uplink: impl Uplink) -> Progress {
        let (mut frame, mut budget) = (Frame::new(), Budget::of_turn());
        for _ in 0..FRAMES_PER_TURN {
            if budget.is_spent() {
                break;
            }
            match self.take(&mut frame, &mut budget) {
                Ok(Taken::Frame) => {
                    // Each copy is as much work as reading it was, which is counted.
                    let copies = uplink.send(&frame).saturating_sub(1);
                    budget.spend(copies, copies * frame.length());
                }
                Ok(Taken::Unsendable(reason)) => uplink.count_drop(reason),
                Ok(Taken::Empty { interrupt }) => {
                    if interrupt {
                        self.line.used_buffers();
                    }
                    // After a long turn the thread looks whether it is wanted, before it comes back and finds nothing.
                    return if budget.is_much_used() { Progress::More } else { Progress::Done };
                }
                Err(fault) => {
                    self.line.fault(fault);
                    return Progress::Done;
                }
            }
        }
        Progress::More
    }

    /// Takes the next frame out and gives its buffers back to the guest.
    fn take(&self, frame: &mut Frame, budget: &mut Budget) -> Result<Taken, Fault> {
        let mut ring = self.ring.lock();
        let Some(ring) = ring.as_mut().filter(|_| !self.line.needs_reset()) else {
            return Ok(Taken::Empty { interrupt: false });
        };
        let Some(chain) = ring.take_or_arm(&self.memory)? else {
            return Ok(Taken::Empty { interrupt: ring.wants_interrupt(&self.memory)? });
        };
        let head = chain.head_index();
        let read = read_chain(&self.memory, chain, frame.buffer());
        let (length, descriptors) = read.map_err(|cause| ring.chain_fault(head, cause))?;
        budget.spend(descriptors, length.min(MAX_FRAME));
        ring.give_back(&self.memory, head, 0)?;
        Ok(match frame.filled(length) {
            Ok(()) => Taken::Frame,
            Err(length) if length > MAX_FRAME => Taken::Unsendable(DropReason::Oversize),
            Err(_) => Taken::Unsendable(DropReason::Runt),
        })
    }
}

impl fmt::Debug for Transmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmitter").field("ready", &self.ring.lock().is_some()).finish_non_exhaustive()
    }
}
