//! Starting the other vCPUs, and what they do: they halt, take interrupts, and answer.

use crate::assembly::{CPUS, TRAMPOLINE, ring0_ap_begin, ring0_ap_end};
use crate::{apic, cpu, token};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The interrupt that asks a vCPU to answer, and the answer.
pub(crate) const ASK: u8 = 0x61;
pub(crate) const ANSWER: u8 = 0x62;

static STARTED: AtomicU32 = AtomicU32::new(1);
/// The APIC id of each vCPU, by its number here.
static IDS: [AtomicU32; CPUS] = [const { AtomicU32::new(0) }; CPUS];

/// Copies the code with which they start.
pub(crate) fn prepare() {
    let begin = &raw const ring0_ap_begin;
    let length = &raw const ring0_ap_end as usize - begin as usize;
    // SAFETY: the target is memory that nothing else uses.
    unsafe { core::ptr::copy_nonoverlapping(begin, TRAMPOLINE as *mut u8, length) };
}

/// Starts the vCPU with this APIC id, and waits until it has.
pub(crate) fn start(id: u32) {
    let before = STARTED.load(SeqCst);
    apic::send(apic::INIT, id);
    for _ in 0..2 {
        apic::send(apic::START | TRAMPOLINE >> 12, id);
    }
    while STARTED.load(SeqCst) == before {
        core::hint::spin_loop();
    }
}

/// Number of vCPUs that have started.
pub(crate) fn started() -> u32 {
    STARTED.load(SeqCst)
}

/// The number here of the vCPU with this APIC id.
pub(crate) fn number_of(id: u32) -> usize {
    (1..CPUS).find(|vcpu| IDS[*vcpu].load(SeqCst) == id).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn ring0_ap_main(index: u32) -> ! {
    cpu::load_gates();
    apic::turn_on();
    let me = index as usize;
    IDS[me].store(cpu::read(apic::ID).unwrap_or(0) as u32, SeqCst);
    STARTED.fetch_add(1, SeqCst);
    token::pass(index);
    let mut answered = 0;
    loop {
        if apic::taken(me, ASK) == answered {
            cpu::halt();
            continue;
        }
        answered += 1;
        apic::send(ANSWER.into(), 0);
    }
}
