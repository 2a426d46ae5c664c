//! Page tables of a unikernel guest: memory mapped one to one, each area with its own rights.

use super::layout::PAGE;
use crate::vm::Range;
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const UNCACHED: u64 = 1 << 4;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const LARGE_PAGE: u64 = 2 << 20;

/// Rights of the guest program on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// None: the page holds the monitor's ring-0 structures.
    System,
    /// Read.
    Read,
    /// Read and execute.
    Execute,
    /// Read and write.
    Write,
    /// Read and write device registers.
    Device,
}

impl Rights {
    fn bits(self) -> u64 {
        PRESENT
            | match self {
                Self::System => WRITE,
                Self::Read => USER | NO_EXECUTE,
                Self::Execute => USER,
                Self::Write => USER | WRITE | NO_EXECUTE,
                Self::Device => USER | WRITE | NO_EXECUTE | UNCACHED,
            }
    }
}

/// Why page tables could not be built.
#[derive(Debug, thiserror::Error)]
pub enum PagingError {
    /// The range for tables is full.
    #[error("no room for page tables")]
    Full,
    /// The address is beyond guest memory.
    #[error("page tables do not fit guest memory")]
    Memory(#[from] GuestMemoryError),
}

/// Tables under construction, in guest memory that is still all zeroes.
#[derive(Debug)]
pub struct PageTables<'a> {
    memory: &'a GuestMemoryMmap,
    room: Range,
    root: u64,
}

impl<'a> PageTables<'a> {
    /// Empty tables, which will lie within `room`.
    pub fn new(memory: &'a GuestMemoryMmap, room: Range) -> Result<Self, PagingError> {
        let mut tables = Self { memory, room, root: 0 };
        tables.root = tables.new_table()?;
        Ok(tables)
    }

    /// Address of the top table, for CR3.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Maps a page-aligned range, with 2 MiB pages where they fit.
    pub fn map(&mut self, range: Range, rights: Rights) -> Result<(), PagingError> {
        let mut at = range.start;
        while at < range.end {
            let large = at.is_multiple_of(LARGE_PAGE) && range.end - at >= LARGE_PAGE;
            if large {
                let directory = self.table_for(at, 1)?;
                self.put(directory, at, 1, at | rights.bits() | LARGE)?;
                at += LARGE_PAGE;
            } else {
                let table = self.table_for(at, 0)?;
                self.put(table, at, 0, at | rights.bits())?;
                at += PAGE;
            }
        }
        Ok(())
    }

    /// The table of `level` (0 = page table, 3 = root) that covers `address`. Makes it if it is missing.
    fn table_for(&mut self, address: u64, level: u32) -> Result<u64, PagingError> {
        let mut table = self.root;
        for above in (level + 1..=3).rev() {
            let entry: u64 = self.memory.read_obj(entry_address(table, address, above))?;
            table = if entry & PRESENT != 0 {
                entry & 0x000f_ffff_ffff_f000
            } else {
                let new = self.new_table()?;
                // The lowest level decides on rights.
                self.put(table, address, above, new | PRESENT | WRITE | USER)?;
                new
            };
        }
        Ok(table)
    }

    fn new_table(&mut self) -> Result<u64, PagingError> {
        let table = self.room.start;
        if table + PAGE > self.room.end {
            return Err(PagingError::Full);
        }
        self.room.start += PAGE;
        // Reads come first otherwise, of the host's page of zeroes. The write that then replaces that page costs a
        // second fault, of which the host's kernel tells each VM of the process.
        self.memory.write_obj(0u64, GuestAddress(table))?;
        Ok(table)
    }

    fn put(&self, table: u64, address: u64, level: u32, entry: u64) -> Result<(), PagingError> {
        Ok(self.memory.write_obj(entry, entry_address(table, address, level))?)
    }
}

fn entry_address(table: u64, address: u64, level: u32) -> GuestAddress {
    GuestAddress(table + ((address >> (12 + 9 * level)) & 511) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 16 << 20)]).unwrap()
    }

    /// The page-table entry that the CPU would find for `address`.
    fn walk(tables: &PageTables<'_>, address: u64) -> Option<(u64, u64)> {
        let mut table = tables.root;
        for level in (0..=3).rev() {
            let entry: u64 = tables.memory.read_obj(entry_address(table, address, level)).unwrap();
            if entry & PRESENT == 0 {
                return None;
            }
            if level == 0 || entry & LARGE != 0 {
                let offset = address & ((1u64 << (12 + 9 * level)) - 1);
                return Some(((entry & 0x000f_ffff_ffff_f000 & !(LARGE - 1)) + offset, entry));
            }
            table = entry & 0x000f_ffff_ffff_f000;
        }
        None
    }

    #[test]
    fn mapped_addresses_translate_to_themselves_and_others_fault() {
        let memory = memory();
        let mut tables = PageTables::new(&memory, Range { start: 0x4000, end: 0x20_0000 }).unwrap();
        tables.map(Range { start: 0x1000, end: 0x3000 }, Rights::Read).unwrap();
        tables.map(Range { start: 0x1f_f000, end: 0x80_1000 }, Rights::Write).unwrap();
        for address in [0x1000, 0x2fff, 0x1f_f008, 0x20_0000, 0x7f_ffff, 0x80_0fff] {
            assert_eq!(walk(&tables, address).map(|(to, _)| to), Some(address), "{address:#x}");
        }
        for address in [0, 0xfff, 0x3000, 0x80_1000, 1 << 40] {
            assert_eq!(walk(&tables, address), None, "{address:#x}");
        }
    }

    #[test]
    fn rights_reach_the_leaf_entry() {
        let memory = memory();
        let mut tables = PageTables::new(&memory, Range { start: 0x4000, end: 0x20_0000 }).unwrap();
        tables.map(Range { start: 0x1000, end: 0x2000 }, Rights::System).unwrap();
        tables.map(Range { start: 0x2000, end: 0x3000 }, Rights::Execute).unwrap();
        let entry = |address| walk(&tables, address).unwrap().1;
        assert_eq!(entry(0x1000) & USER, 0);
        assert_eq!(entry(0x2000) & (USER | WRITE | NO_EXECUTE), USER);
    }

    /// Faults of this thread that needed no disk: the tenth field of proc_pid_stat(5).
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(") ").next().unwrap();
        after_name.split(' ').nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn a_table_costs_the_host_one_fault() {
        let memory = memory();
        // A read first would be a fault, and the write then another.
        let make = |start, mapped| {
            let before = faults();
            let mut tables = PageTables::new(&memory, Range { start, end: start + 0x10_0000 }).unwrap();
            tables.map(Range { start: mapped, end: mapped + PAGE }, Rights::Read).unwrap();
            faults() - before
        };
        make(0x10_0000, 0);
        // Memory of its own, of which the host has given nothing: four tables.
        assert!(make(0x40_0000, 0) <= 5, "faults of the first four tables");
    }

    #[test]
    fn tables_that_do_not_fit_are_an_error() {
        let memory = memory();
        let mut tables = PageTables::new(&memory, Range { start: 0x4000, end: 0x6000 }).unwrap();
        assert!(matches!(tables.map(Range { start: 0, end: 0x1000 }, Rights::Read), Err(PagingError::Full)));
    }
}
