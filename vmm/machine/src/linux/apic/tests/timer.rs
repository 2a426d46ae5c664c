//! SDM, sections "APIC Timer" and "TSC-Deadline Mode".

use super::super::local::msr;
use super::super::{Effect, LocalApic, Now};
use super::{NOW, apic, at, later};
use stile_sched::Time;

const ONE_SHOT: u64 = 0;
const PERIODIC: u64 = 1 << 17;
const DEADLINE: u64 = 2 << 17;
const MASKED: u64 = 1 << 16;
const BY_ONE: u64 = 0b1011;

/// A timer with vector 0x40 in this mode.
fn timer(mode: u64) -> LocalApic {
    let mut apic = apic();
    write(&mut apic, msr::LVT, mode | 0x40, NOW);
    apic
}

fn write(apic: &mut LocalApic, register: u32, value: u64, now: Now) {
    assert_eq!(apic.write(register, value, now), Ok(Effect::Nothing));
}

fn fired(apic: &mut LocalApic) -> bool {
    let fired = apic.acknowledge() == Some(0x40);
    if fired {
        assert_eq!(apic.end_of_interrupt(), Effect::Nothing);
    }
    fired
}

#[test]
fn the_divisor_stretches_the_count() {
    // "Divide Configuration Register".
    for (divide, by) in [(0, 2), (1, 4), (2, 8), (3, 16), (8, 32), (9, 64), (10, 128), (BY_ONE, 1)] {
        let mut apic = timer(ONE_SHOT);
        write(&mut apic, msr::DIVIDE, divide, NOW);
        write(&mut apic, msr::INITIAL, 1_000, NOW);
        assert_eq!(apic.deadline(), later(1_000 * by), "{divide:#b}");
        assert_eq!(apic.read(msr::CURRENT, at(250 * by)), Ok(750), "{divide:#b}");
    }
}

#[test]
fn a_one_shot_fires_once() {
    let mut apic = timer(ONE_SHOT);
    write(&mut apic, msr::DIVIDE, BY_ONE, NOW);
    write(&mut apic, msr::INITIAL, 1_000_000, NOW);
    apic.advance(later(999_999));
    assert!(!fired(&mut apic));
    apic.advance(later(1_000_000));
    assert!(fired(&mut apic));
    assert_eq!((apic.deadline(), apic.read(msr::CURRENT, at(1_000_001))), (Time::NEVER, Ok(0)));
    apic.advance(later(9_000_000));
    assert!(!fired(&mut apic));
    assert_eq!(apic.read(msr::INITIAL, NOW), Ok(1_000_000));
}

#[test]
fn a_count_of_zero_stops_it() {
    for mode in [ONE_SHOT, PERIODIC] {
        let mut apic = timer(mode);
        write(&mut apic, msr::INITIAL, 1_000, NOW);
        write(&mut apic, msr::INITIAL, 0, NOW);
        assert_eq!(apic.deadline(), Time::NEVER);
        apic.advance(later(1 << 40));
        assert!(!fired(&mut apic));
    }
}

#[test]
fn a_periodic_one_keeps_its_phase_and_missed_periods_are_one() {
    let mut apic = timer(PERIODIC);
    write(&mut apic, msr::DIVIDE, BY_ONE, NOW);
    write(&mut apic, msr::INITIAL, 1_000_000, NOW);
    for (now, fires, next) in
        [(500_000, false, 1), (1_000_100, true, 2), (1_999_999, false, 2), (5_400_000, true, 6), (6_000_000, true, 7)]
    {
        apic.advance(later(now));
        assert_eq!(fired(&mut apic), fires, "at {now}");
        assert_eq!(apic.deadline(), later(next * 1_000_000), "at {now}");
    }
}

#[test]
fn a_period_that_is_too_short_for_any_host_is_lengthened() {
    let mut apic = timer(PERIODIC);
    write(&mut apic, msr::DIVIDE, BY_ONE, NOW);
    write(&mut apic, msr::INITIAL, 1, NOW);
    apic.advance(later(1));
    assert!(fired(&mut apic));
    assert_eq!(apic.deadline(), later(200_001));
    assert_eq!(apic.read(msr::CURRENT, at(2)), Ok(1), "the guest reads what it wrote");
}

#[test]
fn a_deadline_fires_when_the_tsc_reaches_it_and_is_zero_from_then_on() {
    let mut apic = timer(DEADLINE);
    // The clock of these tests ticks twice in a nanosecond.
    write(&mut apic, msr::TSC_DEADLINE, NOW.tsc + 2_000, NOW);
    assert_eq!((apic.deadline(), apic.read(msr::TSC_DEADLINE, NOW)), (later(1_000), Ok(NOW.tsc + 2_000)));
    assert_eq!(apic.read(msr::CURRENT, NOW), Ok(0), "the counter reads as zero");
    apic.advance(later(1_000));
    assert!(fired(&mut apic));
    assert_eq!((apic.deadline(), apic.read(msr::TSC_DEADLINE, at(1_000))), (Time::NEVER, Ok(0)));
}

#[test]
fn a_deadline_that_has_passed_fires_at_once_and_zero_stops_it() {
    let mut apic = timer(DEADLINE);
    write(&mut apic, msr::TSC_DEADLINE, NOW.tsc - 1, NOW);
    apic.advance(NOW.time);
    assert!(fired(&mut apic));
    write(&mut apic, msr::TSC_DEADLINE, NOW.tsc + 2_000, NOW);
    write(&mut apic, msr::TSC_DEADLINE, 0, NOW);
    apic.advance(later(1 << 40));
    assert!(!fired(&mut apic));
}

#[test]
fn each_mode_ignores_the_registers_of_the_other() {
    let mut apic = timer(DEADLINE);
    write(&mut apic, msr::INITIAL, 1_000, NOW);
    assert_eq!((apic.deadline(), apic.read(msr::INITIAL, NOW)), (Time::NEVER, Ok(0)));
    let mut apic = timer(ONE_SHOT);
    write(&mut apic, msr::TSC_DEADLINE, 1, NOW);
    assert_eq!((apic.deadline(), apic.read(msr::TSC_DEADLINE, NOW)), (Time::NEVER, Ok(0)));
}

#[test]
fn a_change_to_or_from_the_deadline_mode_stops_it_and_other_changes_do_not() {
    for (from, to, stops) in [
        (ONE_SHOT, DEADLINE, true),
        (PERIODIC, DEADLINE, true),
        (DEADLINE, ONE_SHOT, true),
        (DEADLINE, DEADLINE, false),
        (ONE_SHOT, PERIODIC, false),
        (PERIODIC, ONE_SHOT, false),
    ] {
        let mut apic = timer(from);
        write(&mut apic, msr::INITIAL, 1_000, NOW);
        write(&mut apic, msr::TSC_DEADLINE, NOW.tsc + 1_000, NOW);
        write(&mut apic, msr::LVT, to | 0x40, NOW);
        assert_eq!(apic.deadline() == Time::NEVER, stops, "{from:#x} to {to:#x}");
    }
}

#[test]
fn a_masked_timer_counts_without_interrupts() {
    let mut apic = timer(PERIODIC | MASKED);
    write(&mut apic, msr::DIVIDE, BY_ONE, NOW);
    write(&mut apic, msr::INITIAL, 1_000_000, NOW);
    assert_eq!(apic.deadline(), Time::NEVER);
    assert_eq!(apic.read(msr::CURRENT, at(1_600_000)), Ok(400_000));
    assert!(!fired(&mut apic));
    write(&mut apic, msr::LVT, PERIODIC | 0x40, at(1_600_000));
    assert_eq!(apic.deadline(), later(2_000_000));
}

#[test]
fn another_divisor_stretches_what_is_left() {
    let mut apic = timer(ONE_SHOT);
    write(&mut apic, msr::DIVIDE, BY_ONE, NOW);
    write(&mut apic, msr::INITIAL, 1_000, NOW);
    write(&mut apic, msr::DIVIDE, 0, at(400));
    assert_eq!(apic.deadline(), later(400 + 2 * 600));
}
