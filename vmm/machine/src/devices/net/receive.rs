//! The receiving half of a virtio-net device: a [`Sink`] for the switch or a tap, and the receive queue of the guest.
//!
//! Invariants:
//! * Frames reach the guest in the order of their delivery. While frames wait, a new one goes behind them.
//! * The driver is asked to ring for new buffers exactly while frames wait.
//! * The lock here is a leaf: no other lock is taken while it is held.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use vm_memory::GuestMemoryMmap;

use super::{Delivery, DropReason, Frame, Sink};
use crate::devices::virtio::{Fault, Line, Ring, write_chain};

/// Most frames that wait for a guest without buffers (units: frames). This is one full receive ring, some 390 kB. It
/// holds all that the window of a connection can bring while the guest is not scheduled, and bounds the cost of a guest
/// that never looks. There is no configuration key: a larger bound would only hide a guest that is too slow.
pub const WAITING_MAX: usize = 256;

/// Most descriptors of a buffer for a frame (units: descriptors). Drivers use one or two. The chain is walked on the
/// sender's time.
const DESCRIPTORS_MAX: u16 = 8;

/// The receiving half.
pub(super) struct Receiver {
    memory: GuestMemoryMmap,
    line: Arc<Line>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None`: the driver is not ready.
    ring: Option<Ring>,
    /// Header and frame of each waiting frame. Allocated only for frames that wait, never on the direct path.
    waiting: VecDeque<Box<[u8]>>,
}

impl Receiver {
    pub(super) fn new(memory: GuestMemoryMmap, line: Arc<Line>) -> Self {
        Self { memory, line, state: Mutex::default() }
    }

    /// Starts with this queue, or stops if it is `None`. Frames that wait then are dropped.
    pub(super) fn set_ring(&self, ring: Option<Ring>) {
        let mut state = self.state.lock();
        let fault = match ring {
            Some(mut ring) => {
                let silenced = ring.disable_kicks(&self.memory);
                *state = State { ring: Some(ring), waiting: VecDeque::new() };
                silenced.err()
            }
            None => {
                *state = State::default();
                None
            }
        };
        drop(state);
        if let Some(fault) = fault {
            self.line.fault(fault);
        }
    }

    /// The driver has posted buffers: hands out the frames that wait.
    pub(super) fn buffers_posted(&self) {
        let handed_out = self.locked(|state, memory| {
            let moved = state.hand_out_waiting(memory)?;
            if moved { state.wants_interrupt(memory) } else { Ok(false) }
        });
        match handed_out {
            Ok(Some(true)) => self.line.used_buffers(),
            Ok(_) => {}
            Err(fault) => self.line.fault(fault),
        }
    }

    /// Whether a frame would reach the guest now, or be the first one to wait.
    pub(super) fn wants_frames(&self) -> bool {
        let state = self.state.lock();
        state.ring.is_some() && state.waiting.is_empty() && !self.line.needs_reset()
    }

    /// Runs `work` under the lock, unless the device is off. Returns a fault, so that it is reported without the lock.
    fn locked<T>(
        &self,
        work: impl FnOnce(&mut State, &GuestMemoryMmap) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let mut state = self.state.lock();
        if state.ring.is_none() || self.line.needs_reset() {
            return Ok(None);
        }
        work(&mut state, &self.memory).map(Some)
    }
}

impl Sink for Receiver {
    fn deliver(&self, frame: &Frame) -> Delivery {
        match self.locked(|state, memory| state.deliver(memory, frame)) {
            Ok(Some(delivery)) => delivery,
            Ok(None) => Delivery::Dropped(DropReason::ReceiverDown),
            Err(fault) => {
                self.line.fault(fault);
                Delivery::Dropped(DropReason::ReceiverDown)
            }
        }
    }

    fn notify(&self) {
        self.line.used_buffers();
    }
}

impl State {
    fn deliver(&mut self, memory: &GuestMemoryMmap, frame: &Frame) -> Result<Delivery, Fault> {
        if self.waiting.is_empty() && self.fill(memory, frame.with_header())? {
            return self.told(memory);
        }
        if self.waiting.len() >= WAITING_MAX {
            return Ok(Delivery::Dropped(DropReason::QueueFull));
        }
        self.waiting.push_back(frame.with_header().into());
        // This also asks for the driver's ring, which only the first waiting frame has to do.
        if self.waiting.len() == 1 && self.hand_out_waiting(memory)? {
            return self.told(memory);
        }
        Ok(Delivery::Quiet)
    }

    /// Moves waiting frames into posted buffers until either runs out. Enables or disables kicks as the invariant
    /// requires. Returns whether a frame was moved.
    fn hand_out_waiting(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Fault> {
        let mut moved = false;
        for _ in 0..=WAITING_MAX {
            while let Some(first) = self.waiting.pop_front() {
                if !self.fill(memory, &first)? {
                    self.waiting.push_front(first);
                    break;
                }
                moved = true;
            }
            let Some(ring) = &mut self.ring else { return Ok(moved) };
            if self.waiting.is_empty() {
                self.waiting.shrink_to_fit();
                ring.disable_kicks(memory)?;
                return Ok(moved);
            }
            // Buffers may have been posted just before the driver could see that it has to ring.
            if !ring.enable_kicks(memory)? {
                return Ok(moved);
            }
        }
        // Only a driver that takes buffers back comes here. It will ring.
        Ok(moved)
    }

    /// Copies header and frame into the next posted buffer. Returns `false` if there is none.
    fn fill(&mut self, memory: &GuestMemoryMmap, bytes: &[u8]) -> Result<bool, Fault> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        let Some(chain) = ring.take(memory)? else { return Ok(false) };
        let head = chain.head_index();
        write_chain(memory, chain.at_most(DESCRIPTORS_MAX), bytes).map_err(|cause| ring.chain_fault(head, cause))?;
        ring.give_back(memory, head, bytes.len() as u32)?;
        Ok(true)
    }

    fn told(&mut self, memory: &GuestMemoryMmap) -> Result<Delivery, Fault> {
        Ok(if self.wants_interrupt(memory)? { Delivery::Notify } else { Delivery::Quiet })
    }

    fn wants_interrupt(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Fault> {
        self.ring.as_mut().map_or(Ok(false), |ring| ring.wants_interrupt(memory))
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Receiver")
            .field("ready", &state.ring.is_some())
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}
