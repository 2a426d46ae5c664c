use super::*;
use std::sync::atomic::AtomicBool;

const BYTES: u64 = 0x1_0000;
const AT: u64 = 0x4c0;
const MS: Nanos = Nanos::from_millis(1);

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), BYTES as usize)]).unwrap()
}

/// Steal, version, flags and `preempted` of the structure at this address.
fn read(memory: &GuestMemoryMmap, at: u64) -> (u64, u32, u32, u8) {
    let field = |offset| GuestAddress(at + offset);
    (
        memory.read_obj(field(0)).unwrap(),
        memory.read_obj(field(8)).unwrap(),
        memory.read_obj(field(12)).unwrap(),
        memory.read_obj(field(16)).unwrap(),
    )
}

#[test]
fn a_register_that_is_on_is_told_at_once_what_was_missed_before_and_then_what_is_added() {
    let (memory, mut steal) = (memory(), StealTime::default());
    steal.set_missed(Nanos(70), &memory);
    assert_eq!((steal.told(), read(&memory, AT)), (None, (0, 0, 0, 0)));
    assert_eq!(steal.set_register(AT | 1, &memory), Some(()));
    assert_eq!((steal.register(), steal.told()), (AT | 1, Some(Nanos(70))));
    assert_eq!(read(&memory, AT), (70, 2, 0, 0));
    steal.set_missed(Nanos(100), &memory);
    assert_eq!((read(&memory, AT), steal.told()), ((100, 4, 0, 0), Some(Nanos(100))));
    steal.set_missed(Nanos(100), &memory);
    assert_eq!(read(&memory, AT), (100, 4, 0, 0));
}

#[test]
fn reserved_bits_fault_and_leave_the_register_as_it_was() {
    let (memory, mut steal) = (memory(), StealTime::default());
    steal.set_register(AT | 1, &memory).unwrap();
    for bit in 1..6 {
        assert_eq!(steal.set_register(0x800 | 1 << bit, &memory), None);
        assert_eq!(steal.set_register(0x801 | 1 << bit, &memory), None);
    }
    steal.set_missed(MS, &memory);
    assert_eq!((steal.register(), read(&memory, AT).0, read(&memory, 0x800)), (AT | 1, MS.0, (0, 0, 0, 0)));
}

#[test]
fn a_structure_lies_in_memory_to_its_last_byte_or_the_write_faults() {
    let (memory, mut steal) = (memory(), StealTime::default());
    for outside in [BYTES, BYTES + 0x40, 1 << 40, !0x3f, 0xfee0_0000] {
        assert_eq!(steal.set_register(outside | 1, &memory), None, "{outside:#x}");
    }
    assert_eq!(steal.register(), 0);
    assert_eq!(steal.set_register((BYTES - 0x40) | 1, &memory), Some(()));
    assert_eq!(steal.set_register(1, &memory), Some(()), "address 0 is memory");
    // As in KVM: an address that is not used is not checked.
    assert_eq!((steal.set_register(BYTES, &memory), steal.register()), (Some(()), BYTES));
}

#[test]
fn memory_with_a_hole_takes_structures_on_both_sides_and_none_in_between() {
    let (low, high) = (0x1000, 0x4000);
    let ranges = [(GuestAddress(0), 0x1000), (GuestAddress(high), 0x1000)];
    let (memory, mut steal) = (GuestMemoryMmap::from_ranges(&ranges).unwrap(), StealTime::default());
    for (at, there) in [(low - 0x40, true), (low, false), (high - 0x40, false), (high, true)] {
        assert_eq!(steal.set_register(at | 1, &memory).is_some(), there, "{at:#x}");
    }
}

#[test]
fn a_register_that_is_off_is_written_no_more_and_one_that_is_on_again_misses_nothing() {
    let (memory, mut steal) = (memory(), StealTime::default());
    steal.set_register(AT | 1, &memory).unwrap();
    steal.set_missed(Nanos(10), &memory);
    steal.set_register(0, &memory).unwrap();
    steal.set_missed(Nanos(25), &memory);
    steal.set_presence(Presence::Away, &memory);
    assert_eq!((read(&memory, AT), steal.told()), ((10, 4, 0, 0), Some(Nanos(10))));
    steal.set_register(AT | 1, &memory).unwrap();
    assert_eq!(read(&memory, AT), (25, 6, 0, 0));
    // Another kernel, with another structure, begins at nothing.
    steal.set_register(0x1001, &memory).unwrap();
    steal.set_missed(Nanos(26), &memory);
    assert_eq!((read(&memory, AT).0, read(&memory, 0x1000).0), (25, 1));
}

#[test]
fn a_structure_that_holds_anything_gets_an_even_version_and_wraps() {
    let (memory, mut steal) = (memory(), StealTime::default());
    memory.write_obj(u64::MAX, GuestAddress(AT)).unwrap();
    memory.write_obj(u32::MAX, GuestAddress(AT + 8)).unwrap();
    memory.write_obj(0xffu8, GuestAddress(AT + 16)).unwrap();
    steal.set_missed(Nanos(3), &memory);
    steal.set_register(AT | 1, &memory).unwrap();
    assert_eq!(read(&memory, AT), (2, 2, 0, 0));
}

#[test]
fn a_vcpu_is_preempted_while_it_wants_a_pcpu_and_not_while_it_idles_or_nothing_is_known() {
    let (memory, mut steal) = (memory(), StealTime::default());
    steal.set_register(AT | 1, &memory).unwrap();
    for (presence, preempted) in [
        (Presence::Here, 0),
        (Presence::Away, 1),
        (Presence::Here, 0),
        (Presence::Idle, 0),
        (Presence::Away, 1),
        (Presence::Untold, 0),
    ] {
        steal.set_presence(presence, &memory);
        assert_eq!(read(&memory, AT).3, preempted, "{presence:?}");
    }
}

#[test]
fn a_guest_that_reads_by_the_versions_sees_no_sum_that_goes_back() {
    let (memory, done) = (memory(), AtomicBool::new(false));
    let mut steal = StealTime::default();
    steal.set_register(AT | 1, &memory).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Both halves of a sum are equal, so a torn one shows.
            (1..200_000).for_each(|n: u64| steal.set_missed(Nanos(n << 32 | n), &memory));
            done.store(true, Ordering::Relaxed);
        });
        let mut last = 0;
        while !done.load(Ordering::Relaxed) {
            let version = || memory.load::<u32>(GuestAddress(AT + 8), Ordering::Acquire).unwrap();
            let before = version();
            let sum = memory.load::<u64>(GuestAddress(AT), Ordering::Relaxed).unwrap();
            fence(Ordering::Acquire);
            if before % 2 == 0 && version() == before {
                assert!(sum >= last && sum >> 32 == sum & 0xffff_ffff, "{sum:#x} after {last:#x}");
                last = sum;
            }
        }
    });
}
