//! Memory of this process for rings and buffers. pagemap(5) tells the physical address of each page.

use super::error::AttackError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{Bytes, MmapRegion, VolatileMemory};

/// Size of a page (unit: bytes).
pub(super) const PAGE: usize = 4096;
/// Pages of an arena: the parts of a ring, a table of descriptors, and the rest for buffers.
pub(super) const PAGES: usize = 16;
/// Of an entry of pagemap(5), what is the number of the page's frame.
const FRAME: u64 = (1 << 55) - 1;
const PROT_READ_WRITE: i32 = 3;
/// Private, of no file, and locked: these pages stay where they are.
const FLAGS: i32 = 0x02 | 0x20 | 0x2000;

/// The memory.
pub(super) struct Arena {
    memory: MmapRegion,
    /// The physical address of each page.
    at: Vec<u64>,
}

impl Arena {
    pub(super) fn new() -> Result<Self, AttackError> {
        let made = MmapRegionBuilder::new(PAGES * PAGE).with_mmap_prot(PROT_READ_WRITE).with_mmap_flags(FLAGS).build();
        let memory: MmapRegion =
            made.map_err(|e| AttackError::Map { what: "memory".to_owned(), why: e.to_string() })?;
        let pagemap = File::open("/proc/self/pagemap").map_err(AttackError::Addresses)?;
        let mut at = Vec::new();
        for page in 0..PAGES {
            let mut entry = [0; 8];
            let number = (memory.as_ptr() as usize / PAGE + page) as u64;
            pagemap.read_exact_at(&mut entry, 8 * number).map_err(AttackError::Addresses)?;
            at.push((u64::from_le_bytes(entry) & FRAME) * PAGE as u64);
        }
        Ok(Self { memory, at })
    }

    /// The physical address of a page.
    pub(super) fn address(&self, page: usize) -> u64 {
        self.at[page]
    }

    /// Writes at this offset of a page.
    pub(super) fn write(&self, page: usize, offset: usize, bytes: &[u8]) {
        // All of it lies inside.
        let _ = self.memory.as_volatile_slice().write_slice(bytes, page * PAGE + offset);
    }

    /// Fills pages with zeros.
    pub(super) fn clear(&self, pages: std::ops::Range<usize>) {
        pages.for_each(|page| self.write(page, 0, &[0; PAGE]));
    }
}
