//! The buffers of a request in one direction, read or written from front to back.

use std::io::{self, Read, Write};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Buffers in guest memory, one after the other.
#[derive(Debug, Clone)]
pub struct Buffers<'m> {
    memory: &'m GuestMemoryMmap,
    /// Those that are left. The first is what is left of it.
    parts: std::collections::VecDeque<(GuestAddress, usize)>,
    available: usize,
    done: usize,
}

impl<'m> Buffers<'m> {
    /// None yet.
    pub(super) fn new(memory: &'m GuestMemoryMmap) -> Self {
        Self { memory, parts: Default::default(), available: 0, done: 0 }
    }

    /// Adds a buffer at the end. It lies in guest memory.
    pub(super) fn push(&mut self, at: GuestAddress, length: u32) {
        self.parts.push_back((at, length as usize));
        self.available += length as usize;
    }

    /// Whether there was no buffer, not even an empty one.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that are left.
    pub fn available_bytes(&self) -> usize {
        self.available
    }

    /// Bytes that were read or written.
    pub fn bytes_done(&self) -> usize {
        self.done
    }

    /// Takes all but the first `keep` bytes away, and returns them. All, if there are no more.
    pub fn split_off(&mut self, keep: usize) -> Self {
        let mut rest = Self::new(self.memory);
        let mut kept = std::mem::take(&mut self.parts);
        self.available = 0;
        while let Some((at, length)) = kept.pop_front() {
            let here = length.min(keep - self.available);
            if here > 0 {
                self.parts.push_back((at, here));
                self.available += here;
            }
            if here < length {
                rest.parts.push_back((GuestAddress(at.0 + here as u64), length - here));
                rest.available += length - here;
            }
        }
        rest
    }

    /// Copies as much as there is of `wanted` bytes, a part at a time: `copy` gets a part's place, and which of the
    /// wanted bytes it has.
    fn copy(
        &mut self,
        wanted: usize,
        mut copy: impl FnMut(&GuestMemoryMmap, GuestAddress, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut moved = 0;
        while moved < wanted
            && let Some((at, length)) = self.parts.pop_front()
        {
            let here = length.min(wanted - moved);
            #[cfg(test)]
            super::cost::bytes(here);
            copy(self.memory, at, moved..moved + here)?;
            if here < length {
                self.parts.push_front((GuestAddress(at.0 + here as u64), length - here));
            }
            moved += here;
            self.available -= here;
            self.done += here;
        }
        Ok(moved)
    }
}

impl Read for Buffers<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.copy(buf.len(), |memory, at, range| memory.read_slice(&mut buf[range], at).map_err(io::Error::other))
    }
}

impl Write for Buffers<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.copy(data.len(), |memory, at, range| memory.write_slice(&data[range], at).map_err(io::Error::other))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::virtio::testing::guest_memory;

    fn buffers(memory: &GuestMemoryMmap) -> Buffers<'_> {
        let mut buffers = Buffers::new(memory);
        [(0x100, 3), (0x200, 0), (0x300, 5), (0x400, 2)].iter().for_each(|&(at, n)| buffers.push(GuestAddress(at), n));
        buffers
    }

    #[test]
    fn bytes_go_through_all_buffers_in_order_and_no_further() {
        let memory = guest_memory();
        let mut writer = buffers(&memory);
        assert_eq!((writer.write(b"ab").unwrap(), writer.write(b"cdefghijkl").unwrap()), (2, 8));
        assert_eq!((writer.available_bytes(), writer.bytes_done()), (0, 10));
        assert_eq!(writer.write(b"m").unwrap(), 0);
        let mut text = [0; 12];
        assert_eq!(buffers(&memory).read(&mut text).unwrap(), 10);
        assert_eq!(&text, b"abcdefghij\0\0");
        assert!(buffers(&memory).read_exact(&mut text).is_err());
    }

    #[test]
    fn buffers_are_split_anywhere() {
        let memory = guest_memory();
        buffers(&memory).write_all(b"abcdefghij").unwrap();
        for keep in 0..=12 {
            let (mut first, mut text) = (buffers(&memory), String::new());
            let mut rest = first.split_off(keep);
            assert_eq!((first.available_bytes(), rest.available_bytes()), (keep.min(10), 10 - keep.min(10)));
            first.read_to_string(&mut text).unwrap();
            rest.read_to_string(&mut text).unwrap();
            assert_eq!(text, "abcdefghij", "{keep}");
        }
    }
}
