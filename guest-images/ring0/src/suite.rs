//! The tests. Each is a function that returns whether it passed.

use crate::assembly::{CPUS, RING0_MANUAL, RING0_PV, RING0_SKIPPED};
use crate::cpus::{ANSWER, ASK};
use crate::{apic, cpu, cpus, disk, say, token};
use core::sync::atomic::Ordering::SeqCst;

const PERIODIC: u64 = 1 << 17;
const BY_DEADLINE: u64 = 2 << 17;
const MASKED: u64 = 1 << 16;
const BY_ONE: u64 = 0b1011;
const TIMER: u8 = 0x50;
/// MSR_KVM_PV_EOI_EN.
const PV_EOI: u32 = 0x4b56_4d04;
const COMMAND_LINE: u64 = 0x2_0000;
/// Timer interrupts that are counted, and the time between them (ns).
const TICKS: u32 = 200;
const TICK: u64 = 1_000_000;
/// Questions to each other vCPU.
const ROUNDS: u32 = 50;

type Test = (&'static str, fn() -> bool);

const TESTS: [Test; 17] = [
    ("the registers of an x2apic are there and others fault", registers),
    ("an interrupt to itself comes by either register", to_itself),
    ("the task priority holds interrupts back", task_priority),
    ("of two that wait the higher comes first", order),
    ("a higher one interrupts and a lower one waits for the end", nesting),
    ("illegal vectors are errors", errors),
    ("an apic that is off takes no interrupt", turned_off),
    ("the timer counts down once", one_shot),
    ("the timer counts down again and again", periodic),
    ("the timer waits for the time stamp counter", deadline),
    ("a masked timer makes no interrupt", masked_timer),
    ("an nmi ends a halt without interrupts", nmi),
    ("a device interrupts by the io apic", device),
    ("the other vcpus start", start),
    ("every vcpu answers while it halts", answers),
    ("messages reach all, all others, and clusters", many),
    ("interrupts end without a write", ends_without_write),
];

#[unsafe(no_mangle)]
extern "C" fn ring0_main() -> ! {
    cpu::make_gates();
    cpu::load_gates();
    apic::turn_on();
    cpus::prepare();
    let words = command_line();
    if has_word(words, b"ticks") {
        let offered = has_word(words, b"pv") && offer(true);
        tick();
        say!("{TICKS} ticks, offers {offered}, {} taken", RING0_SKIPPED[0].load(SeqCst));
        end(true);
    }
    if has_word(words, b"token") {
        token::introduce(vcpus());
        let all = start();
        token::pass(0);
        token::rest();
        end(all);
    }
    if has_word(words, b"disk") {
        let mut has_read = disk::read(has_word(words, b"reset"));
        while has_read && has_word(words, b"again") {
            has_read = disk::read(false);
        }
        end(has_read);
    }
    let mut passed = true;
    for (name, test) in TESTS {
        let ok = test();
        say!("{}: {name}", if ok { "ok" } else { "FAILED" });
        passed &= ok;
    }
    end(passed)
}

/// Powers off, or resets.
fn end(passed: bool) -> ! {
    match passed {
        true => cpu::out(0x600, 1 << 5 | 5 << 2),
        false => cpu::out(0x602, 1),
    }
    loop {
        cpu::halt_deaf();
    }
}

#[unsafe(no_mangle)]
extern "C" fn ring0_fatal(vector: u64, rip: u64) -> ! {
    say!("FAILED: exception {vector} at {rip:#x} on vCPU {}", cpu::index());
    end(false)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say!("FAILED: {info}");
    end(false)
}

fn command_line() -> &'static [u8] {
    // SAFETY: the monitor puts the command line there, with a zero behind it.
    unsafe { core::ffi::CStr::from_ptr(COMMAND_LINE as *const _) }.to_bytes()
}

fn has_word(line: &[u8], word: &[u8]) -> bool {
    line.split(|byte| *byte == b' ').any(|found| found == word)
}

/// Halts until this vCPU has taken the vector so often.
fn wait(vector: u8, count: u32) {
    while apic::taken(0, vector) < count {
        cpu::halt();
    }
}

fn registers() -> bool {
    let base = cpu::read(apic::BASE).unwrap_or(0);
    let is_x2apic = base & 3 << 10 == 3 << 10 && base & 1 << 8 != 0;
    let reads = [apic::ID, apic::VERSION, apic::TPR, apic::PPR, apic::LDR, apic::ICR, apic::ISR + 7, apic::CURRENT];
    let faults = [apic::EOI, apic::SELF_IPI, 0x800, 0x80e, 0x831, 0x83a, 0x8ff];
    let reserved = [(apic::EOI, 1), (apic::TPR, 0x100), (apic::SVR, 1 << 20), (apic::ID, 0), (apic::ESR, 5)];
    is_x2apic
        && reads.into_iter().all(|register| cpu::read(register).is_some())
        && faults.into_iter().all(|register| cpu::read(register).is_none())
        && reserved.into_iter().all(|(register, value)| !cpu::write(register, value))
        && !cpu::write(apic::BASE, base & !(1 << 10))
        && cpu::write(apic::BASE, base)
        && cpu::read(apic::LDR) == Some(1)
        && cpu::read(apic::VERSION).is_some_and(|version| version & 0xf0 == 0x10)
}

fn to_itself() -> bool {
    apic::send(apic::TO_ITSELF | 0x41, 0);
    cpu::open();
    cpu::write(apic::SELF_IPI, 0x41);
    cpu::open();
    apic::send(0x41, 0);
    cpu::open();
    apic::taken(0, 0x41) == 3 && cpu::read(apic::ISR + 2) == Some(0)
}

fn task_priority() -> bool {
    cpu::write(apic::TPR, 0x70);
    cpu::write(apic::SELF_IPI, 0x72);
    cpu::open();
    let held = apic::taken(0, 0x72) == 0 && cpu::read(apic::IRR + 3) == Some(1 << 0x12);
    cpu::write(apic::TPR, 0x6f);
    cpu::open();
    let came = apic::taken(0, 0x72) == 1;
    // CR8 is the same priority.
    set_cr8(8);
    let told = cpu::read(apic::TPR) == Some(0x80);
    cpu::write(apic::SELF_IPI, 0x81);
    cpu::open();
    let held_too = apic::taken(0, 0x81) == 0;
    set_cr8(0);
    cpu::open();
    held && came && told && held_too && apic::taken(0, 0x81) == 1
}

fn set_cr8(class: u64) {
    // SAFETY: it changes which interrupts come, and nothing else.
    unsafe { core::arch::asm!("mov cr8, {}", in(reg) class, options(nostack)) };
}

fn order() -> bool {
    for vector in [0x90, 0xb0, 0xa0] {
        cpu::write(apic::SELF_IPI, vector);
    }
    cpu::open();
    apic::order() & 0xff_ffff == 0xb0_a090
}

fn nesting() -> bool {
    RING0_MANUAL[0].store(1, SeqCst);
    cpu::write(apic::SELF_IPI, 0xa1);
    cpu::open();
    cpu::write(apic::SELF_IPI, 0x91);
    cpu::write(apic::SELF_IPI, 0xa2);
    cpu::write(apic::SELF_IPI, 0xb1);
    cpu::open();
    let first = apic::order() & 0xffff == 0xa1b1 && cpu::read(apic::PPR) == Some(0xb0);
    let taken = |vector| apic::taken(0, vector);
    let wait = (taken(0x91), taken(0xa2)) == (0, 0);
    for _ in 0..2 {
        cpu::write(apic::EOI, 0);
        cpu::open();
    }
    let second = (taken(0x91), taken(0xa2)) == (0, 1);
    cpu::write(apic::EOI, 0);
    cpu::open();
    let third = taken(0x91) == 1;
    cpu::write(apic::EOI, 0);
    RING0_MANUAL[0].store(0, SeqCst);
    first && wait && second && third && cpu::read(apic::PPR) == Some(0)
}

fn errors() -> bool {
    cpu::write(apic::ESR, 0);
    cpu::write(apic::LVT_ERROR, 0xf1);
    cpu::write(apic::SELF_IPI, 5);
    cpu::open();
    cpu::write(apic::ESR, 0);
    let told = cpu::read(apic::ESR).is_some_and(|errors| errors & 1 << 5 != 0);
    cpu::write(apic::LVT_ERROR, MASKED);
    cpu::write(apic::ESR, 0);
    told && apic::taken(0, 0xf1) == 1
}

fn turned_off() -> bool {
    cpu::write(apic::SVR, 0xff);
    cpu::write(apic::SELF_IPI, 0x43);
    cpu::open();
    let none = apic::taken(0, 0x43) == 0;
    apic::turn_on();
    cpu::write(apic::SELF_IPI, 0x43);
    cpu::open();
    none && apic::taken(0, 0x43) == 1
}

fn one_shot() -> bool {
    let before = apic::taken(0, TIMER);
    cpu::write(apic::DIVIDE, BY_ONE);
    cpu::write(apic::LVT_TIMER, TIMER.into());
    for round in 1..=5 {
        cpu::write(apic::INITIAL, TICK);
        wait(TIMER, before + round);
        if cpu::read(apic::CURRENT) != Some(0) {
            return false;
        }
    }
    apic::taken(0, TIMER) == before + 5
}

fn periodic() -> bool {
    let tick = cycles_of_a_tick();
    let (before, begun) = (apic::taken(0, TIMER), cpu::tsc());
    cpu::write(apic::LVT_TIMER, PERIODIC | u64::from(TIMER));
    cpu::write(apic::INITIAL, TICK);
    wait(TIMER, before + 10);
    cpu::write(apic::INITIAL, 0);
    // One may be on its way.
    cpu::open();
    let (after, elapsed) = (apic::taken(0, TIMER), cpu::tsc() - begun);
    // A vCPU that the host keeps from running finds one more each time that it runs.
    let in_time = u64::from(after - before) * tick <= elapsed;
    counts_masked(TICK);
    cpu::open();
    in_time && apic::taken(0, TIMER) == after
}

/// Cycles of the time stamp counter that pass between two ticks, or fewer.
fn cycles_of_a_tick() -> u64 {
    cpu::write(apic::LVT_TIMER, MASKED | u64::from(TIMER));
    cpu::write(apic::INITIAL, u32::MAX.into());
    let left = || cpu::read(apic::CURRENT).unwrap_or(0);
    // The count is read before the first cycle and after the last. What the host takes in between adds to the count.
    let (first, begun) = (left(), cpu::tsc());
    loop {
        let ended = cpu::tsc();
        let counted = first - left();
        if counted >= TICK {
            return (ended - begun) * TICK / counted;
        }
    }
}

/// Counts down once, without an interrupt.
fn counts_masked(from: u64) {
    cpu::write(apic::LVT_TIMER, MASKED | u64::from(TIMER));
    cpu::write(apic::INITIAL, from);
    while cpu::read(apic::CURRENT) != Some(0) {
        core::hint::spin_loop();
    }
}

fn deadline() -> bool {
    if !cpu::has_deadline() {
        return cpu::read(apic::DEADLINE).is_none();
    }
    let before = apic::taken(0, TIMER);
    cpu::write(apic::LVT_TIMER, BY_DEADLINE | u64::from(TIMER));
    for round in 1..=5 {
        let at = cpu::tsc() + TICK;
        cpu::write(apic::DEADLINE, at);
        wait(TIMER, before + round);
        // The clocks of guest and monitor differ by less than a microsecond.
        if cpu::tsc() + 10_000 < at || cpu::read(apic::DEADLINE) != Some(0) {
            return false;
        }
    }
    cpu::write(apic::DEADLINE, 1);
    wait(TIMER, before + 6);
    true
}

fn masked_timer() -> bool {
    let before = apic::taken(0, TIMER);
    counts_masked(1_000);
    cpu::open();
    apic::taken(0, TIMER) == before
}

fn nmi() -> bool {
    let before = apic::taken(0, 2);
    apic::send(apic::NMI, 0);
    while apic::taken(0, 2) == before {
        cpu::halt_deaf();
    }
    apic::taken(0, 2) == before + 1
}

fn device() -> bool {
    // The serial port is at line 4. It interrupts as soon as that is on, since it can take a byte.
    apic::set_line(4, 0x74, 0);
    cpu::out(0x3f9, 2);
    wait(0x74, 1);
    let told = cpu::input(0x3fa) & 0xf == 2;
    cpu::out(0x3f9, 0);
    apic::set_line(4, 0x1_0074, 0);
    told
}

/// Number of vCPUs, which the monitor puts on the command line as `cpus=N`.
fn vcpus() -> u32 {
    let number = |word: &[u8]| word.strip_prefix(b"cpus=").map(|digits| u32::from(digits[0] - b'0'));
    command_line().split(|byte| *byte == b' ').find_map(number).unwrap_or(1).min(CPUS as u32)
}

fn start() -> bool {
    (1..vcpus()).for_each(cpus::start);
    cpus::started() == vcpus()
}

fn answers() -> bool {
    for round in 1..=ROUNDS {
        for id in 1..vcpus() {
            let expected = (round - 1) * (vcpus() - 1) + id;
            apic::send(ASK.into(), id);
            wait(ANSWER, expected);
        }
    }
    // To all at once: answers may fall together.
    (1..vcpus()).all(|id| apic::taken(cpus::number_of(id), ASK) == ROUNDS)
}

fn many() -> bool {
    let others = 1..vcpus() as usize;
    let all_have = |vector, count| {
        while !others.clone().all(|vcpu| apic::taken(vcpu, vector) == count) {
            core::hint::spin_loop();
        }
    };
    apic::send(apic::TO_OTHERS | 0x63, 0);
    all_have(0x63, 1);
    apic::send(apic::TO_ALL | 0x64, 0);
    cpu::open();
    all_have(0x64, 1);
    apic::send(apic::LOGICAL | 0x65, 0xffff);
    cpu::open();
    all_have(0x65, 1);
    apic::send(0x66, u32::MAX);
    cpu::open();
    all_have(0x66, 1);
    [0x63, 0x64, 0x65, 0x66].map(|vector| apic::taken(0, vector)) == [0, 1, 1, 1]
}

/// Turns ends of interrupts without a write on or off. False if there are none.
fn offer(on: bool) -> bool {
    let word = RING0_PV[0].as_ptr() as u64;
    let leaf = core::arch::x86_64::__cpuid(0x4000_0001);
    leaf.eax & 1 << 6 != 0 && cpu::write(PV_EOI, word | u64::from(on))
}

fn ends_without_write() -> bool {
    if !offer(true) {
        return cpu::read(PV_EOI).is_none();
    }
    let before = RING0_SKIPPED[0].load(SeqCst);
    for _ in 0..5 {
        cpu::write(apic::SELF_IPI, 0x45);
        cpu::open();
    }
    let skipped = RING0_SKIPPED[0].load(SeqCst) - before;
    let ended = cpu::read(apic::ISR + 2) == Some(0);
    // Two that wait for each other end by writes, but for the last.
    cpu::write(apic::SELF_IPI, 0x46);
    cpu::write(apic::SELF_IPI, 0x56);
    cpu::open();
    let both = apic::taken(0, 0x46) == 1 && apic::taken(0, 0x56) == 1;
    let off = offer(false);
    skipped > 0 && ended && both && off && cpu::read(apic::ISR + 2) == Some(0)
}

/// Takes timer interrupts, each from a halt.
fn tick() {
    cpu::write(apic::DIVIDE, BY_ONE);
    cpu::write(apic::LVT_TIMER, TIMER.into());
    for round in 1..=TICKS {
        cpu::write(apic::INITIAL, TICK);
        wait(TIMER, round);
    }
}
