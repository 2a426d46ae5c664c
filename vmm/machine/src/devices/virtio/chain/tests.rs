//! Chains as a hostile driver makes them.

use super::*;
use crate::devices::virtio::testing::{INDIRECT, MEMORY_BYTES, NEXT, WRITE, guest_memory};
use proptest::prelude::*;

const TABLE: u64 = 0x1000;
const INNER: u64 = 0x8000;
const DATA: u64 = 0x10_0000;
const SIZE: u16 = 16;

fn put(memory: &GuestMemoryMmap, table: u64, index: u64, (at, length, flags, next): (u64, u32, u16, u16)) {
    memory.write_obj(Descriptor::new(at, length, flags, next), GuestAddress(table + 16 * index)).unwrap();
}

fn chain(indirect: bool) -> Chain {
    let longest = if indirect { 256 } else { SIZE };
    Chain { head: 0, table: GuestAddress(TABLE), size: SIZE, longest, indirect }
}

/// How many descriptors were read, and how it ended.
fn walked(memory: &GuestMemoryMmap, chain: Chain) -> (usize, Option<ChainError>) {
    let (mut read, mut error) = (0, None);
    for descriptor in chain.walk(memory) {
        match descriptor {
            Ok(_) => read += 1,
            Err(e) => error = Some(e),
        }
    }
    (read, error)
}

#[test]
fn a_table_that_was_not_negotiated_is_refused_before_it_is_read() {
    let memory = guest_memory();
    put(&memory, TABLE, 0, (INNER, 16, INDIRECT, 0));
    put(&memory, INNER, 0, (DATA, 8, 0, 0));
    assert!(matches!(walked(&memory, chain(false)), (0, Some(ChainError::Indirect))));
    assert!(matches!(walked(&memory, chain(true)), (1, None)));
}

#[test]
fn a_table_of_65535_descriptors_is_read_no_further_than_the_longest_queue() {
    let memory = guest_memory();
    put(&memory, TABLE, 0, (INNER, 65_535 * 16, INDIRECT, 0));
    for n in 0..65_535u64 {
        put(&memory, INNER, n, (DATA, 8, NEXT, (n + 1) as u16));
    }
    // One of them refers to the table.
    assert!(matches!(walked(&memory, chain(true)), (255, Some(ChainError::Endless))));
}

#[test]
fn tables_within_tables_before_others_or_of_odd_sizes_are_refused() {
    let memory = guest_memory();
    put(&memory, INNER, 0, (DATA, 8, 0, 0));
    for outer in [(INNER, 16, INDIRECT | NEXT, 1), (INNER, 17, INDIRECT, 0), (INNER, 1 << 21, INDIRECT, 0)] {
        put(&memory, TABLE, 0, outer);
        assert!(matches!(walked(&memory, chain(true)), (0, Some(ChainError::Indirect))), "{outer:?}");
    }
    for outside in [(INNER, 0, INDIRECT, 0), (MEMORY_BYTES, 16, INDIRECT, 0), (u64::MAX - 4, 16, INDIRECT, 0)] {
        put(&memory, TABLE, 0, outside);
        assert!(matches!(walked(&memory, chain(true)), (0, Some(ChainError::Endless))), "{outside:?}");
    }
    put(&memory, TABLE, 0, (INNER, 32, INDIRECT, 0));
    put(&memory, INNER, 0, (INNER, 16, INDIRECT, 0));
    assert!(matches!(walked(&memory, chain(true)), (0, Some(ChainError::Indirect))));
    put(&memory, INNER, 0, (DATA, 8, NEXT, 1));
    put(&memory, INNER, 1, (INNER, 16, INDIRECT, 0));
    assert!(matches!(walked(&memory, chain(true)), (1, Some(ChainError::Indirect))));
}

#[test]
fn data_are_written_without_walking_what_follows_them() {
    let memory = guest_memory();
    put(&memory, TABLE, 0, (DATA, 8, WRITE | NEXT, 1));
    // The rest of the chain is a loop.
    put(&memory, TABLE, 1, (DATA + 8, 8, WRITE | NEXT, 1));
    write_chain(&memory, chain(false), b"0123456789").unwrap();
    assert!(matches!(write_chain(&memory, chain(false), &[0; 1000]), Err(ChainError::Endless)));
}

proptest! {
    #[test]
    fn whatever_a_table_holds_no_more_than_the_longest_chain_is_read(
        entries in proptest::collection::vec((0..MEMORY_BYTES + 64, 0..0x1_0000u32, 0..8u16, 0..20u16), 16),
        inner in proptest::collection::vec((0..MEMORY_BYTES + 64, 0..0x1_0000u32, 0..8u16, 0..20u16), 16),
        indirect: bool,
    ) {
        let memory = guest_memory();
        for (n, entry) in (0..).zip(&entries) {
            let at = if entry.2 & INDIRECT != 0 && entry.0 % 2 == 0 { INNER } else { entry.0 };
            put(&memory, TABLE, n, (at, entry.1, entry.2, entry.3));
        }
        (0..).zip(&inner).for_each(|(n, entry)| put(&memory, INNER, n, *entry));
        let chain = chain(indirect);
        prop_assert!(walked(&memory, chain).0 <= usize::from(chain.longest));
        if let Ok(request) = Request::of(&memory, chain) {
            prop_assert!(request.reader.available_bytes() + request.writer.available_bytes() <= 256 << 16);
        }
    }
}
