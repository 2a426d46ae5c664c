//! Copies between a buffer and a descriptor chain, with every way in which a chain can be wrong told apart.
//!
//! `virtio_queue`'s iterator ends silently when a chain loops, points outside of its table or lies outside of memory.
//! Such an end is seen here because the last descriptor announced a next one.

use virtio_queue::DescriptorChain;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestMemoryError, GuestMemoryMmap};

/// Why a descriptor chain cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// It loops, is longer than its table, points outside of the table, or its table lies outside of memory.
    #[error("it has no end")]
    Endless,
    /// A descriptor is for the other direction.
    #[error("a descriptor is for the other direction")]
    Direction,
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

/// Copies what the driver put into a chain to `buf`, as much as fits, and returns how much there was.
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

/// The descriptors of a chain, and an error at the end if it is not a real end.
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
