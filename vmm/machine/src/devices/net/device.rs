//! The virtio-net device (virtio 1.2, section 5.1): one queue pair, a fixed MAC, no offloads, no control queue.
//!
//! [`VirtioNet`] joins the two halves ([`super::receive`], [`super::transmit`]). A [`Backend`] is the network behind
//! them: a port of the switch, or a tap.

use std::os::fd::RawFd;
use std::sync::Arc;

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::VIRTIO_NET_F_MAC;

use super::Mac;
use super::receive::Receiver;
use super::transmit::{Transmitter, Uplink};
use crate::devices::virtio::{Device, Progress, Ring};

const RECEIVE_QUEUE: u16 = 0;
const TRANSMIT_QUEUE: u16 = 1;
/// Descriptors in each queue. 256 full frames are six times a 64 KiB TCP window; Linux drivers want that many.
const QUEUE_SIZE: u16 = 256;

/// A guest's network device, with the network `B` behind it. Idle it costs a few hundred bytes.
#[derive(Debug)]
pub struct VirtioNet<B> {
    pub(super) mac: Mac,
    pub(super) receiver: Arc<Receiver>,
    pub(super) transmitter: Transmitter,
    pub(super) backend: B,
}

/// The network behind a device. Its methods run on the thread of the vCPU that rang, or on the worker of its VM.
pub(super) trait Backend: Send + Sync {
    /// Where the guest's frames go, for one turn.
    fn uplink(&self) -> impl Uplink;

    /// Fetches frames for the guest while it has buffers for them, at most one turn's worth. A backend that gets its
    /// frames from their senders has nothing to fetch.
    fn fetch(&self, _receiver: &Receiver) -> Progress {
        Progress::Done
    }

    /// A descriptor that polls readable when frames may have come; see [`Device::host_events`].
    fn host_events(&self) -> Option<RawFd> {
        None
    }

    /// Is called before [`fetch`](Self::fetch) when [`host_events`](Self::host_events) may have polled readable.
    fn host_ready(&self) {}
}

impl<B: Backend> Device for VirtioNet<B> {
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
                self.backend.fetch(&self.receiver)
            }
            TRANSMIT_QUEUE => self.transmitter.send_some(self.backend.uplink()),
            _ => Progress::Done,
        }
    }

    fn host_events(&self) -> Option<RawFd> {
        self.backend.host_events()
    }

    fn host_ready(&self) -> Progress {
        self.backend.host_ready();
        self.backend.fetch(&self.receiver)
    }
}
