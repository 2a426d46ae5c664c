//! The virtio-net device on a tap.
//!
//! While the guest has no buffers, frames wait in the tap's own queue, which the host bounds. At most one frame is
//! taken for which the guest has no room. The tap is watched edge by edge, so that a guest that does not look costs
//! nothing.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::Tap;
use crate::devices::net::counters::Counters;
use crate::devices::net::device::{Backend, VirtioNet};
use crate::devices::net::receive::Receiver;
use crate::devices::net::transmit::{Transmitter, Uplink};
use crate::devices::net::{Delivery, DropReason, Frame, HEADER_BYTES, MAX_FRAME, Mac, PortStats, Sink};
use crate::devices::virtio::{Line, Progress};

/// Frames taken from the tap in one turn.
const FRAMES_PER_TURN: usize = 64;

/// A guest's network device on a tap.
pub type TapDevice = VirtioNet<TapPort>;

/// The network of a [`TapDevice`]: a tap, whether frames wait in it, and counters.
#[derive(Debug)]
pub struct TapPort {
    tap: Tap,
    /// Watches the tap, and nothing else.
    epoll: Epoll,
    /// Whether the tap has had frames and was not seen empty since. Only the worker reads and writes it, so relaxed.
    readable: AtomicBool,
    counters: Counters,
}

impl TapDevice {
    /// Makes a device on `tap`, for the guest with this address and memory.
    pub fn new(tap: Tap, mac: Mac, memory: GuestMemoryMmap, line: Arc<Line>) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
        epoll.ctl(ControlOperation::Add, tap.as_raw_fd(), EpollEvent::new(edges, 0))?;
        let receiver = Arc::new(Receiver::new(memory.clone(), Arc::clone(&line)));
        let transmitter = Transmitter::new(memory, line);
        let backend = TapPort { tap, epoll, readable: AtomicBool::new(false), counters: Counters::default() };
        Ok(Self { mac, receiver, transmitter, backend })
    }

    /// Counts of frames and drops. *Sent* and *received* are the guest's view.
    pub fn stats(&self) -> PortStats {
        self.backend.counters.read()
    }
}

impl TapPort {
    /// Delivers `bytes`, copied to `frame`. Returns whether the guest wants to be told.
    fn deliver(&self, receiver: &Receiver, bytes: &[u8], frame: &mut Frame) -> bool {
        if bytes.len() > MAX_FRAME {
            self.counters.dropped(DropReason::Oversize);
            return false;
        }
        frame.buffer()[HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes);
        if frame.filled(HEADER_BYTES + bytes.len()).is_err() {
            self.counters.dropped(DropReason::Runt);
            return false;
        }
        match receiver.deliver(frame) {
            Delivery::Dropped(reason) => {
                self.counters.dropped(reason);
                false
            }
            delivered => {
                self.counters.received(frame.length());
                delivered == Delivery::Notify
            }
        }
    }
}

/// The way to the tap.
struct ToTap<'a>(&'a TapPort);

impl Uplink for ToTap<'_> {
    fn send(&mut self, frame: &Frame) -> usize {
        self.0.counters.sent(frame.length());
        if !self.0.tap.send(frame.ethernet()) {
            self.count_drop(DropReason::NoPort);
        }
        1
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.0.counters.dropped(reason);
    }
}

impl Backend for TapPort {
    fn uplink(&self) -> impl Uplink {
        ToTap(self)
    }

    fn fetch(&self, receiver: &Receiver) -> Progress {
        // One byte longer than the longest frame, to find frames that are too long.
        let (mut bytes, mut frame) = ([0; MAX_FRAME + 1], Frame::new());
        let mut notify = false;
        let mut progress = Progress::More;
        for _ in 0..FRAMES_PER_TURN {
            if !self.readable.load(Ordering::Relaxed) || !receiver.wants_frames() {
                progress = Progress::Done;
                break;
            }
            match self.tap.receive(&mut bytes) {
                None => self.readable.store(false, Ordering::Relaxed),
                Some(length) => notify |= self.deliver(receiver, &bytes[..length], &mut frame),
            }
        }
        if notify {
            receiver.notify();
        }
        progress
    }

    fn host_events(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    fn host_ready(&self) {
        // Takes the edge, if this is the first part of the turn.
        if self.epoll.wait(0, &mut [EpollEvent::default()]).is_ok_and(|edges| edges > 0) {
            self.readable.store(true, Ordering::Relaxed);
        }
    }
}
