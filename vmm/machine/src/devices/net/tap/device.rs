//! The virtio-net device on a tap: one queue pair, a fixed MAC, no offloads.
//!
//! While the guest has no buffers, frames wait in the tap's own queue, which the host bounds: at most one frame is taken
//! for which there is no room. The tap is watched edge by edge, so that a guest that does not look costs nothing.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::VIRTIO_NET_F_MAC;
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::Tap;
use crate::devices::net::counters::Counters;
use crate::devices::net::device::{QUEUE_SIZE, RECEIVE_QUEUE, TRANSMIT_QUEUE};
use crate::devices::net::receive::Receiver;
use crate::devices::net::transmit::{Transmitter, Uplink};
use crate::devices::net::{Delivery, DropReason, Frame, HEADER_BYTES, MAX_FRAME, Mac, PortStats, Sink};
use crate::devices::virtio::{Device, Line, Progress, Ring};

/// Frames taken from the tap in one turn.
const FRAMES_PER_TURN: usize = 64;

/// A guest's network device on a tap.
#[derive(Debug)]
pub struct TapDevice {
    mac: Mac,
    tap: Tap,
    /// Holds the tap alone.
    epoll: Epoll,
    /// The tap has had frames and was not seen empty since. Of the worker alone, so relaxed.
    readable: AtomicBool,
    receiver: Receiver,
    transmitter: Transmitter,
    counters: Counters,
}

impl TapDevice {
    /// A device on `tap`, for the guest with this address and memory.
    pub fn new(tap: Tap, mac: Mac, memory: GuestMemoryMmap, line: Arc<Line>) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
        epoll.ctl(ControlOperation::Add, tap.as_raw_fd(), EpollEvent::new(edges, 0))?;
        let receiver = Receiver::new(memory.clone(), Arc::clone(&line));
        let (transmitter, counters) = (Transmitter::new(memory, line), Counters::default());
        Ok(Self { mac, tap, epoll, readable: AtomicBool::new(false), receiver, transmitter, counters })
    }

    /// Frames and drops; sent and received are the guest's view.
    pub fn stats(&self) -> PortStats {
        self.counters.read()
    }

    /// Takes frames from the tap while the guest has room for them.
    fn receive_some(&self) -> Progress {
        // One byte more than a frame may have, to see which one has more.
        let (mut bytes, mut frame) = ([0; MAX_FRAME + 1], Frame::new());
        let mut notify = false;
        let mut progress = Progress::More;
        for _ in 0..FRAMES_PER_TURN {
            if !self.readable.load(Ordering::Relaxed) || !self.receiver.wants_frames() {
                progress = Progress::Done;
                break;
            }
            match self.tap.receive(&mut bytes) {
                None => self.readable.store(false, Ordering::Relaxed),
                Some(length) => notify |= self.deliver(&bytes[..length], &mut frame),
            }
        }
        if notify {
            self.receiver.notify();
        }
        progress
    }

    /// Hands `bytes` over by way of `frame`; whether the guest wants to be told.
    fn deliver(&self, bytes: &[u8], frame: &mut Frame) -> bool {
        if bytes.len() > MAX_FRAME {
            self.counters.dropped(DropReason::Oversize);
            return false;
        }
        frame.buffer()[HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes);
        if frame.filled(HEADER_BYTES + bytes.len()).is_err() {
            self.counters.dropped(DropReason::Runt);
            return false;
        }
        match self.receiver.deliver(frame) {
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
struct ToTap<'a>(&'a TapDevice);

impl Uplink for ToTap<'_> {
    fn send(&mut self, frame: &Frame) {
        self.0.counters.sent(frame.length());
        if !self.0.tap.send(frame.ethernet()) {
            self.count_drop(DropReason::NoPort);
        }
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.0.counters.dropped(reason);
    }
}

impl Device for TapDevice {
    fn id(&self) -> u32 {
        VIRTIO_ID_NET
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_NET_F_MAC
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE; 2]
    }

    fn config(&self) -> &[u8] {
        &self.mac.0
    }

    fn set_ring(&self, queue: u16, ring: Option<Ring>) {
        match queue {
            RECEIVE_QUEUE => self.receiver.set_ring(ring),
            TRANSMIT_QUEUE => self.transmitter.set_ring(ring),
            _ => {}
        }
    }

    fn queue_notify(&self, queue: u16) -> Progress {
        match queue {
            RECEIVE_QUEUE => {
                self.receiver.buffers_posted();
                self.receive_some()
            }
            TRANSMIT_QUEUE => self.transmitter.send_some(ToTap(self)),
            _ => Progress::Done,
        }
    }

    fn host_events(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    fn host_ready(&self) -> Progress {
        // Takes the edge, if this is no later part of the same turn.
        if self.epoll.wait(0, &mut [EpollEvent::default()]).is_ok_and(|edges| edges > 0) {
            self.readable.store(true, Ordering::Relaxed);
        }
        self.receive_some()
    }
}
