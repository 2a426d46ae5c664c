//! A descriptor chain: where it begins, its buffers, and every way in which it can be wrong.
//!
//! A chain is walked here and not by `virtio_queue`: that follows tables of descriptors which were not negotiated, up
//! to 65,535 entries each, and walks a chain anew for its bytes to be read and to be written. Here each descriptor is
//! read once, and no more of them than the queue may have at most. So a guest that changes a chain meanwhile changes
//! its own request, and a chain costs no more than the device said it would take.

use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryError, GuestMemoryMmap, Permissions};

use super::buffers::Buffers;
use virtio_queue::desc::split::Descriptor;

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = 16;

/// Why a descriptor chain cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// It loops, is longer than the queue may be, points outside of its table, or its table lies outside of memory.
    #[error("it has no end")]
    Endless,
    /// A descriptor refers to a table of descriptors where that is not allowed: it was not negotiated, stands within
    /// such a table or has a successor, or the table has no whole number of descriptors.
    #[error("a descriptor refers to a table that may not be there")]
    Indirect,
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
    /// Its buffers are larger than the device takes.
    #[error("it holds {have} bytes where at most {most} are taken")]
    TooLarge {
        /// Bytes in the chain.
        have: usize,
        /// Bytes that are taken.
        most: usize,
    },
    /// A buffer lies outside of guest memory.
    #[error("a buffer lies outside of guest memory")]
    Memory(#[source] GuestMemoryError),
}

/// A chain that the driver has made available. Nothing of it has been read.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    pub(super) head: u16,
    /// The queue's table, and how many descriptors it has.
    pub(super) table: GuestAddress,
    pub(super) size: u16,
    /// Most descriptors in a chain.
    pub(super) longest: u16,
    /// Tables of descriptors were negotiated.
    pub(super) indirect: bool,
}

impl Chain {
    /// Its first descriptor, by which it is given back.
    pub fn head_index(&self) -> u16 {
        self.head
    }

    /// The same chain, but it may have no more than so many descriptors.
    pub fn at_most(self, descriptors: u16) -> Self {
        Self { longest: self.longest.min(descriptors), ..self }
    }

    /// Its descriptors, followed by an error if the end is not a real one. Each buffer lies in guest memory.
    fn walk(self, memory: &GuestMemoryMmap) -> impl Iterator<Item = Result<Descriptor, ChainError>> {
        let mut walk = Walk {
            memory,
            table: self.table,
            size: self.size,
            next: Some(self.head),
            left: self.longest,
            tables: self.indirect,
        };
        std::iter::from_fn(move || walk.step().transpose())
    }
}

struct Walk<'m> {
    memory: &'m GuestMemoryMmap,
    table: GuestAddress,
    size: u16,
    next: Option<u16>,
    left: u16,
    /// The next descriptor may refer to a table.
    tables: bool,
}

impl Walk<'_> {
    fn step(&mut self) -> Result<Option<Descriptor>, ChainError> {
        let Some(index) = self.next.take() else { return Ok(None) };
        let mut descriptor = self.read(index)?;
        if descriptor.refers_to_indirect_table() {
            descriptor = self.enter(descriptor)?;
        }
        self.next = descriptor.has_next().then(|| descriptor.next());
        let length = descriptor.len() as usize;
        if length > 0 && !self.memory.check_range(descriptor.addr(), length, Permissions::ReadWrite) {
            return Err(ChainError::Memory(GuestMemoryError::InvalidGuestAddress(descriptor.addr())));
        }
        Ok(Some(descriptor))
    }

    fn read(&mut self, index: u16) -> Result<Descriptor, ChainError> {
        self.left = self.left.checked_sub(1).ok_or(ChainError::Endless)?;
        #[cfg(test)]
        super::cost::descriptor();
        let at = self.table.0.checked_add(u64::from(DESCRIPTOR_BYTES) * u64::from(index));
        let at = at.filter(|_| index < self.size).ok_or(ChainError::Endless)?;
        self.memory.read_obj(GuestAddress(at)).map_err(|_| ChainError::Endless)
    }

    /// Goes on in the table to which a descriptor refers. Gives the first descriptor there.
    fn enter(&mut self, reference: Descriptor) -> Result<Descriptor, ChainError> {
        let (entries, rest) = (reference.len() / DESCRIPTOR_BYTES, reference.len() % DESCRIPTOR_BYTES);
        if !self.tables || rest != 0 || reference.has_next() {
            return Err(ChainError::Indirect);
        }
        self.tables = false;
        self.table = reference.addr();
        self.size = u16::try_from(entries).map_err(|_| ChainError::Indirect)?;
        let first = self.read(0)?;
        if first.refers_to_indirect_table() { Err(ChainError::Indirect) } else { Ok(first) }
    }
}

/// A request: a chain with buffers that the device reads, and then buffers for its answer.
///
/// Invariant: the chain was complete and in order, and every buffer lies in guest memory.
pub struct Request<'m> {
    /// First descriptor of the chain.
    pub head: u16,
    /// Reads the driver's bytes.
    pub reader: Buffers<'m>,
    /// Writes the answer.
    pub writer: Buffers<'m>,
    /// Number of its descriptors.
    pub descriptors: usize,
}

impl<'m> Request<'m> {
    /// Reads a chain from end to end.
    pub fn of(memory: &'m GuestMemoryMmap, chain: Chain) -> Result<Self, ChainError> {
        let (mut reader, mut writer, mut descriptors) = (Buffers::new(memory), Buffers::new(memory), 0);
        for descriptor in chain.walk(memory) {
            let descriptor = descriptor?;
            descriptors += 1;
            let to = if descriptor.is_write_only() { &mut writer } else { &mut reader };
            to.push(descriptor.addr(), descriptor.len());
            if !descriptor.is_write_only() && !writer.is_empty() {
                return Err(ChainError::Order);
            }
        }
        Ok(Self { head: chain.head, reader, writer, descriptors })
    }

    /// Checks that the driver wrote at least so many bytes.
    pub fn must_read(&self, need: usize) -> Result<(), ChainError> {
        enough(self.reader.available_bytes(), need)
    }

    /// Checks that the driver wrote no more than so many bytes.
    pub fn must_not_read_over(&self, most: usize) -> Result<(), ChainError> {
        match self.reader.available_bytes() {
            have if have > most => Err(ChainError::TooLarge { have, most }),
            _ => Ok(()),
        }
    }

    /// Checks that there is room for an answer of at least so many bytes.
    pub fn must_write(&self, need: usize) -> Result<(), ChainError> {
        enough(self.writer.available_bytes(), need)
    }
}

fn enough(have: usize, need: usize) -> Result<(), ChainError> {
    if have < need { Err(ChainError::TooSmall { have, need }) } else { Ok(()) }
}

/// Copies the bytes that the driver put into a chain to `buf`, as many as fit. Returns how many bytes the chain held,
/// and how many descriptors.
pub fn read_chain(memory: &GuestMemoryMmap, chain: Chain, buf: &mut [u8]) -> Result<(usize, usize), ChainError> {
    let (mut total, mut descriptors) = (0, 0);
    for descriptor in chain.walk(memory) {
        let descriptor = descriptor?;
        descriptors += 1;
        if descriptor.is_write_only() {
            return Err(ChainError::Direction);
        }
        let room = buf.len().saturating_sub(total);
        let part = room.min(descriptor.len() as usize);
        #[cfg(test)]
        super::cost::bytes(part);
        if part > 0 {
            let to = &mut buf[total..total + part];
            memory.read_slice(to, descriptor.addr()).map_err(ChainError::Memory)?;
        }
        total += descriptor.len() as usize;
    }
    Ok((total, descriptors))
}

/// Copies `data` into the buffers of a chain. It is walked no further than the data reach.
pub fn write_chain(memory: &GuestMemoryMmap, chain: Chain, data: &[u8]) -> Result<(), ChainError> {
    let mut rest = data;
    for descriptor in chain.walk(memory) {
        let descriptor = descriptor?;
        if !descriptor.is_write_only() {
            return Err(ChainError::Direction);
        }
        let (part, after) = rest.split_at(rest.len().min(descriptor.len() as usize));
        #[cfg(test)]
        super::cost::bytes(part.len());
        if !part.is_empty() {
            memory.write_slice(part, descriptor.addr()).map_err(ChainError::Memory)?;
        }
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
    Err(ChainError::TooSmall { have: data.len() - rest.len(), need: data.len() })
}

#[cfg(test)]
mod tests;
