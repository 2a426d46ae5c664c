//! Looks whether a vCPU of a Linux guest spins: judges the code around its next instruction, which the guest's own page
//! tables lead to.
//!
//! Linux waits in loops of PAUSE for locks, and for other vCPUs to answer an interrupt. VMX and SVM notice such loops,
//! and KVM then lets another thread of the VM run. But under a policy the threads of vCPUs without a slot sleep, so
//! there is none. The policy can give the slot to the vCPU that is waited for.

use crate::spin::{AHEAD, LOOP_MAX, Spin, Spot};
use kvm_bindings::kvm_regs;
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Bytes for which one translation holds: the smallest page.
const PAGE: u64 = 4096;

/// The spot where a vCPU that has left its guest spins. `None`: it does not, or executes no 64-bit code, or KVM does
/// not tell.
pub(super) fn look(fd: &VcpuFd, memory: &GuestMemoryMmap) -> Option<Spot> {
    if fd.get_sregs().ok()?.cs.l == 0 {
        return None;
    }
    let translate = |address| {
        let found = fd.translate_gva(address).ok()?;
        (found.valid != 0).then_some(GuestAddress(found.physical_address))
    };
    spot_at(&fd.get_regs().ok()?, translate, memory)
}

fn spot_at(
    registers: &kvm_regs,
    translate: impl Fn(u64) -> Option<GuestAddress>,
    memory: &GuestMemoryMmap,
) -> Option<Spot> {
    let rip = registers.rip;
    let first = rip.saturating_sub(LOOP_MAX as u64);
    // The page before that of the instruction may be none. No start lies before `first`, though other vCPUs may change
    // the tables between two translations.
    let starts = [first, first.max(rip - rip % PAGE)];
    let start = starts.into_iter().find(|start| translate(*start).is_some())?;
    let next = (rip - start) as usize;
    let mut code = [0; LOOP_MAX + AHEAD];
    let known = read(start, &mut code[..next + AHEAD], translate, memory);
    Some(Spin::around(&code[..known], next)?.spot(start, registers))
}

/// Reads from a linear address on. Returns the number of bytes that lie in mapped pages of memory.
fn read(
    start: u64,
    into: &mut [u8],
    translate: impl Fn(u64) -> Option<GuestAddress>,
    memory: &GuestMemoryMmap,
) -> usize {
    let mut done = 0;
    while done < into.len() {
        let from = start.wrapping_add(done as u64);
        let end = into.len().min(done + (PAGE - from % PAGE) as usize);
        let found = translate(from).is_some_and(|at| memory.read_slice(&mut into[done..end], at).is_ok());
        if !found {
            break;
        }
        done = end;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the first of two pages of code is, in memory; and in the guest.
    const AT: u64 = 0x5000;
    const LINEAR: u64 = 0xffff_ffff_8100_0000;
    /// pause; cmp [rdi], eax; jne -6
    const SPINS: [u8; 6] = [0xf3, 0x90, 0x39, 0x07, 0x75, 0xfa];

    /// Memory with the loop at this offset of the first page.
    fn with_loop(offset: u64) -> GuestMemoryMmap {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x8000)]).unwrap();
        let code = vec![0x90; 2 * PAGE as usize];
        memory.write_slice(&code, GuestAddress(AT)).unwrap();
        memory.write_slice(&SPINS, GuestAddress(AT + offset)).unwrap();
        memory
    }

    /// Whether a vCPU at this offset spins, if so many pages are mapped from the first one on.
    fn spins(memory: &GuestMemoryMmap, offset: u64, pages: u64) -> bool {
        let registers = kvm_regs { rip: LINEAR + offset, ..kvm_regs::default() };
        let translate = |address: u64| {
            let offset = address.checked_sub(LINEAR)?;
            (offset < pages * PAGE).then_some(GuestAddress(AT + offset))
        };
        spot_at(&registers, translate, memory).is_some()
    }

    #[test]
    fn a_loop_is_found_where_the_pages_of_the_guest_have_it() {
        let memory = with_loop(0x100);
        assert!(spins(&memory, 0x100, 2) && spins(&memory, 0x104, 2));
        assert!(!spins(&memory, 0x106, 2) && !spins(&memory, 0x100, 0));
    }

    #[test]
    fn a_loop_across_two_pages_is_found_if_both_are_mapped() {
        let memory = with_loop(PAGE - 3);
        assert!(spins(&memory, PAGE - 3, 2) && spins(&memory, PAGE + 1, 2));
        assert!(!spins(&memory, PAGE - 3, 1), "its branch is not known");
    }

    #[test]
    fn a_loop_at_the_edge_of_what_is_mapped_is_found() {
        assert!(spins(&with_loop(0), 0, 2) && spins(&with_loop(0), 4, 2), "nothing is mapped before it");
        assert!(spins(&with_loop(PAGE - 6), PAGE - 6, 1), "nothing is mapped behind it");
    }

    #[test]
    fn pages_outside_of_memory_and_the_last_address_are_no_code() {
        let memory = with_loop(0x100);
        let last = kvm_regs { rip: u64::MAX, ..kvm_regs::default() };
        assert!(spot_at(&last, |_| Some(GuestAddress(1 << 40)), &memory).is_none());
        assert!(spot_at(&last, |_| None, &memory).is_none());
        assert!(spot_at(&kvm_regs::default(), |_| None, &memory).is_none());
    }

    #[test]
    fn tables_that_change_between_translations_do_no_harm() {
        let memory = with_loop(0x100);
        for offset in [0, 0x100, PAGE - 1] {
            for first_mapped in 0..4 {
                let asked = std::cell::Cell::new(0);
                let translate = |address: u64| {
                    asked.set(asked.get() + 1);
                    (asked.get() > first_mapped).then(|| GuestAddress(address.wrapping_sub(LINEAR).wrapping_add(AT)))
                };
                let registers = kvm_regs { rip: LINEAR + offset, ..kvm_regs::default() };
                let _ = spot_at(&registers, translate, &memory);
            }
        }
    }

    #[test]
    fn a_vcpu_that_waits_on_for_the_same_thing_is_told_apart_from_one_that_made_progress() {
        let memory = with_loop(0x100);
        let at = |offset, rdi| {
            let registers = kvm_regs { rip: LINEAR + offset, rdi, ..kvm_regs::default() };
            spot_at(&registers, |address| Some(GuestAddress(address - LINEAR + AT)), &memory).unwrap()
        };
        assert_eq!(at(0x100, 1), at(0x102, 1));
        assert_ne!(at(0x100, 1), at(0x100, 2));
    }
}
