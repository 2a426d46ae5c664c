//! Picking the next vCPU allocates nothing, nor does accounting and recording it: a counting allocator watches policies
//! and their ledgers at work.
#![allow(unsafe_code, reason = "a global allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use stile_sched::attributes::{Attributes, Cap, Group, GroupId};
use stile_sched::ledger::{self, Ledger};
use stile_sched::policy::rsdl::{PoliteSwitches, RsdlConfig, YieldRule};
use stile_sched::policy::{BUILT_IN, Capped, Policy, Rsdl, Why};
use stile_sched::{Nanos, Slot, Time, VcpuId, Wait, Yield};

thread_local! {
    /// Allocations of this thread, so that other tests do not count.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VCPUS: u32 = 1000;
const SLOTS: u16 = 8;

/// Every kind of question, many times over all slots; who blocks is woken by and by.
fn work(ledger: &mut Ledger, now: &mut Time) {
    let waits = [Wait::Unknown, Wait::Lock(VcpuId(7)), Wait::Message(VcpuId(11)), Wait::Lock(VcpuId(1 << 20))];
    let mut blocked: [Option<VcpuId>; SLOTS as usize] = [None; SLOTS as usize];
    let mut on: [Option<VcpuId>; SLOTS as usize] = [None; SLOTS as usize];
    for step in 0..20_000usize {
        let slot = step % SLOTS as usize;
        *now = *now + Nanos::from_micros(137);
        while ledger.tick(*now).is_some() {}
        let why = match (on[slot], step % 7) {
            (None, _) => Why::Free,
            (_, 0) if blocked[slot].is_none() => Why::Block,
            (_, 1..=4) => Why::Yield(Yield { wait: waits[step % 4], again: step % 3 == 0 }),
            _ => Why::Check,
        };
        if why == Why::Block {
            blocked[slot] = on[slot];
        } else if step % 5 == 0
            && let Some(vcpu) = blocked[slot].take()
        {
            let _ = ledger.wake(vcpu, None, *now);
        }
        on[slot] = ledger.next(Slot(slot as u16), why, *now).run.map(|lease| lease.vcpu);
    }
    // Nobody stays behind blocked, so that this can go on.
    for vcpu in blocked.into_iter().flatten() {
        let _ = ledger.wake(vcpu, None, *now);
    }
    for (slot, vcpu) in (0..SLOTS).zip(on) {
        if vcpu.is_none() {
            let _ = ledger.next(Slot(slot), Why::Free, *now);
        }
    }
}

fn allocations(policy: Box<dyn Policy>) -> u64 {
    allocations_with(policy, |_| None)
}

fn allocations_with(policy: Box<dyn Policy>, group_of: fn(u32) -> Option<Group>) -> u64 {
    let mut ledger = Ledger::new(policy, SLOTS.into(), ledger::KEPT);
    let mut now = Time(0);
    for vcpu in (0..VCPUS).map(VcpuId) {
        ledger.add(vcpu, Attributes { group: group_of(vcpu.0), ..Attributes::default() }, now);
        let _ = ledger.wake(vcpu, None, now);
    }
    work(&mut ledger, &mut now);
    let before = COUNT.with(Cell::get);
    work(&mut ledger, &mut now);
    COUNT.with(Cell::get) - before
}

#[test]
fn the_allocator_counts() {
    let before = COUNT.with(Cell::get);
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(COUNT.with(Cell::get), before + 1);
}

#[test]
fn next_and_wake_allocate_nothing_under_any_policy() {
    let strict = PoliteSwitches { strict: true, ..PoliteSwitches::default() };
    for rule in [YieldRule::None, YieldRule::Expire, YieldRule::Polite(Default::default()), YieldRule::Polite(strict)] {
        let config = RsdlConfig { yield_rule: rule, ..RsdlConfig::default() };
        assert_eq!(allocations(Box::new(Rsdl::new(config, SLOTS.into()))), 0, "{rule:?}");
    }
    for policy in BUILT_IN {
        let count = allocations((policy.new)(SLOTS.into()));
        assert_eq!(count, 0, "{} allocates in `next` or `wake`; a policy may in `add` alone", policy.name);
    }
}

#[test]
fn caps_allocate_nothing() {
    let group = |vcpu: u32| {
        let cap = Cap::new(Nanos::from_millis(2), Nanos::from_millis(50));
        cap.filter(|_| !vcpu.is_multiple_of(3)).map(|cap| Group { id: GroupId(vcpu / 8), cap })
    };
    let policy = Capped::new(Box::new(Rsdl::new(RsdlConfig::default(), SLOTS.into())), SLOTS.into());
    assert_eq!(allocations_with(Box::new(policy), group), 0);
}
