//! Randomness for a guest: virtio-rng (virtio 1.2, section 5.4) from the host kernel's generator.

use std::io::Write;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};
use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;
use vm_memory::GuestMemoryMmap;

use crate::devices::virtio::{ChainError, Device, Line, Progress, Request, RequestQueue, Ring};

/// Descriptors of the queue.
const QUEUE_SIZE: u16 = 64;
/// Requests in one turn.
const REQUESTS_PER_TURN: usize = 8;
/// Most bytes for one request (units: bytes). A driver that asks for more gets this many, as the rules permit, and asks
/// again. The kernel gives up to 256 bytes in one piece.
const BYTES_MAX: usize = 256;

/// A guest's source of randomness.
#[derive(Debug)]
pub struct EntropyDevice {
    queue: RequestQueue,
}

impl EntropyDevice {
    /// A device for the guest with this memory.
    pub fn new(memory: GuestMemoryMmap, line: Arc<Line>) -> Self {
        Self { queue: RequestQueue::new(memory, line) }
    }
}

fn fill(mut request: Request<'_>) -> Result<u32, ChainError> {
    request.must_write(1)?;
    let mut bytes = [0; BYTES_MAX];
    let wanted = request.writer.available_bytes().min(BYTES_MAX);
    // This fails if the host's generator is not ready or was refused. The driver then gets less than it asked for.
    let given = getrandom(&mut bytes[..wanted], GetRandomFlags::NONBLOCK).unwrap_or(0);
    let written = request.writer.write(&bytes[..given]).unwrap_or(0);
    Ok(written as u32)
}

impl Device for EntropyDevice {
    fn id(&self) -> u32 {
        VIRTIO_ID_RNG
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE]
    }

    fn config(&self) -> &[u8] {
        &[]
    }

    fn set_ring(&self, _queue: u16, ring: Option<Ring>) {
        self.queue.set_ring(ring);
    }

    fn queue_notify(&self, _queue: u16) -> Progress {
        self.queue.turn(REQUESTS_PER_TURN, fill)
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
