//! The virtio-blk device: one queue of requests to a [`Disk`].

use std::sync::Arc;

use parking_lot::Mutex;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX,
    VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_INDIRECT_DESC;
use vm_memory::GuestMemoryMmap;

use super::Disk;
use super::request::{self, BUFFER_BYTES_MAX, BUFFERS_MAX, SEGMENT_SECTORS_MAX, SEGMENTS_MAX, ZEROED_SEGMENTS_MAX};
use crate::devices::virtio::{Device, Line, Progress, RequestQueue, Ring};

/// Descriptors of the queue.
const QUEUE_SIZE: u16 = 256;
/// Requests in one turn. After it the guest is interrupted, and the other devices of the VM have their turns.
const REQUESTS_PER_TURN: usize = 8;
/// Bytes copied at a time between file and guest (units: bytes). A request of a usual size fits.
const BUFFER_BYTES: usize = 128 << 10;
/// `virtio_blk_config` up to and with `write_zeroes_may_unmap` and its padding (units: bytes).
const CONFIG_BYTES: usize = 60;

/// A guest's disk.
#[derive(Debug)]
pub struct BlockDevice {
    disk: Disk,
    config: [u8; CONFIG_BYTES],
    queue: RequestQueue,
    work: Mutex<Work>,
}

#[derive(Debug)]
struct Work {
    /// The driver cannot flush, so every write has to be on storage before it is reported.
    sync: bool,
    /// Empty until the first request.
    buffer: Vec<u8>,
}

impl BlockDevice {
    /// A device for `disk`.
    pub fn new(disk: Disk, memory: GuestMemoryMmap, line: Arc<Line>) -> Self {
        let config = config(&disk);
        let work = Mutex::new(Work { sync: true, buffer: Vec::new() });
        Self { disk, config, queue: RequestQueue::new(memory, line), work }
    }

    /// Its disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }
}

/// The configuration space.
fn config(disk: &Disk) -> [u8; CONFIG_BYTES] {
    let mut config = [0; CONFIG_BYTES];
    let mut put = |at: usize, value: &[u8]| config[at..][..value.len()].copy_from_slice(value);
    put(0, &disk.sectors().to_le_bytes());
    put(8, &BUFFER_BYTES_MAX.to_le_bytes());
    put(12, &BUFFERS_MAX.to_le_bytes());
    // Limits of discards first, then those of write-zeroes: most sectors, most segments, and what differs.
    put(36, &SEGMENT_SECTORS_MAX.to_le_bytes());
    put(40, &SEGMENTS_MAX.to_le_bytes());
    put(44, &1u32.to_le_bytes());
    put(48, &SEGMENT_SECTORS_MAX.to_le_bytes());
    put(52, &ZEROED_SEGMENTS_MAX.to_le_bytes());
    put(56, &[1]);
    config
}

impl Device for BlockDevice {
    fn id(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn features(&self) -> u64 {
        let mut features =
            vec![VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_FLUSH, VIRTIO_RING_F_INDIRECT_DESC];
        features.extend(match self.disk.read_only() {
            true => &[VIRTIO_BLK_F_RO][..],
            false => &[VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_WRITE_ZEROES],
        });
        features.into_iter().fold(0, |bits, feature| bits | 1 << feature)
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn start(&self, features: u64) {
        self.work.lock().sync = features & 1 << VIRTIO_BLK_F_FLUSH == 0;
    }

    fn set_ring(&self, _queue: u16, ring: Option<Ring>) {
        self.queue.set_ring(ring);
    }

    fn queue_notify(&self, _queue: u16) -> Progress {
        self.queue.turn(REQUESTS_PER_TURN, |request| {
            let Work { sync, buffer } = &mut *self.work.lock();
            buffer.resize(BUFFER_BYTES, 0);
            request::perform(&self.disk, request, buffer, *sync)
        })
    }
}
