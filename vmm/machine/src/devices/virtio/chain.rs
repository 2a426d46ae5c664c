//! Copies between a buffer and a descriptor chain, and tells apart every way in which a chain can be wrong.
//!
//! `virtio_queue`'s iterator ends silently when a chain loops, points outside of its table or lies outside of memory.
//! Such an end is detected here, because the last descriptor announced a next one.

use virtio_queue::desc::split::Descriptor;
use virtio_queue::{DescriptorChain, Reader, Writer};
use vm_memory::{Bytes, GuestMemoryError, GuestMemoryMmap};

/// Why a descriptor chain cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// It loops, is longer than its table, points outside of the table, or its table lies outside of memory.
    #[error("it has no end")]
    Endless,
    /// A descriptor has the wrong direction.
    #[error("a descriptor is for the other direction")]
    Direction,
    /// A buffer that the device reads comes after one that it writes.
    #[error("a buffer to be read comes after one to be written")]
    Order,
    /// Its buffers are smaller than the rules require.
    #[error("it holds {have} bytes where {need} are needed")]
    TooSmall {
        /// Bytes in the chain.
        have: usize,
        /// Bytes to be written.
        need: usize,
    },
    /// A buffer lies outside of guest memory.
    #[error("a buffer lies outside of guest memory")]
    Memory(#[source] GuestMemoryError),
}

/// A request: a chain with buffers that the device reads, and then buffers for its answer.
///
/// Invariant: the chain was complete and in order when it was checked, and every buffer lies in guest memory. A guest
/// that changes the chain later changes its own request, and harms nothing else.
pub struct Request<'m> {
    /// First descriptor of the chain.
    pub head: u16,
    /// Reads the driver's bytes.
    pub reader: Reader<'m>,
    /// Writes the answer.
    pub writer: Writer<'m>,
}

impl<'m> Request<'m> {
    /// Checks a chain from end to end.
    pub fn of(memory: &'m GuestMemoryMmap, chain: DescriptorChain<&'m GuestMemoryMmap>) -> Result<Self, ChainError> {
        let mut writes = false;
        for descriptor in checked(chain.clone()) {
            let write_only = descriptor?.is_write_only();
            if writes && !write_only {
                return Err(ChainError::Order);
            }
            writes = write_only;
        }
        let head = chain.head_index();
        let reader = Reader::new(memory, chain.clone()).map_err(outside)?;
        let writer = Writer::new(memory, chain).map_err(outside)?;
        Ok(Self { head, reader, writer })
    }

    /// Checks that the driver wrote at least so many bytes.
    pub fn must_read(&self, need: usize) -> Result<(), ChainError> {
        enough(self.reader.available_bytes(), need)
    }

    /// Checks that there is room for an answer of at least so many bytes.
    pub fn must_write(&self, need: usize) -> Result<(), ChainError> {
        enough(self.writer.available_bytes(), need)
    }
}

fn enough(have: usize, need: usize) -> Result<(), ChainError> {
    if have < need { Err(ChainError::TooSmall { have, need }) } else { Ok(()) }
}

/// The error behind what the library reports for a chain that has an end.
fn outside(error: virtio_queue::Error) -> ChainError {
    match error {
        virtio_queue::Error::GuestMemoryError(cause) => ChainError::Memory(cause),
        _ => ChainError::Endless,
    }
}

/// Copies the bytes that the driver put into a chain to `buf`, as many as fit. Returns how many the chain held.
pub fn read_chain(
    memory: &GuestMemoryMmap,
    chain: DescriptorChain<&GuestMemoryMmap>,
    buf: &mut [u8],
) -> Result<usize, ChainError> {
    let mut total = 0;
    for descriptor in checked(chain) {
        let descriptor = descriptor?;
        if descriptor.is_write_only() {
            return Err(ChainError::Direction);
        }
        let room = buf.len().saturating_sub(total);
        let part = room.min(descriptor.len() as usize);
        if part > 0 {
            let to = &mut buf[total..total + part];
            memory.read_slice(to, descriptor.addr()).map_err(ChainError::Memory)?;
        }
        total += descriptor.len() as usize;
    }
    Ok(total)
}

/// Copies `data` into the buffers of a chain.
pub fn write_chain(
    memory: &GuestMemoryMmap,
    chain: DescriptorChain<&GuestMemoryMmap>,
    data: &[u8],
) -> Result<(), ChainError> {
    let mut rest = data;
    for descriptor in checked(chain) {
        let descriptor = descriptor?;
        if !descriptor.is_write_only() {
            return Err(ChainError::Direction);
        }
        let (part, after) = rest.split_at(rest.len().min(descriptor.len() as usize));
        if !part.is_empty() {
            memory.write_slice(part, descriptor.addr()).map_err(ChainError::Memory)?;
        }
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(ChainError::TooSmall { have: data.len() - rest.len(), need: data.len() }) }
}

/// The descriptors of a chain, followed by an error if the end is not a real one.
fn checked(mut chain: DescriptorChain<&GuestMemoryMmap>) -> impl Iterator<Item = Result<Descriptor, ChainError>> {
    let mut more = true;
    std::iter::from_fn(move || match chain.next() {
        Some(descriptor) => {
            more = descriptor.has_next();
            Some(Ok(descriptor))
        }
        None => std::mem::take(&mut more).then_some(Err(ChainError::Endless)),
    })
}
