//! SDM, section "x2APIC Register Address Space" and table "Local APIC Register Address Map Supported by x2APIC";
//! "x2APIC Register Availability" and "MSR Access in x2APIC Mode": reserved registers and bits fault.

use super::super::local::msr;
use super::super::{Effect, GeneralProtection, LocalApic};
use super::{NOW, apic, clock};

/// Registers with what may be done to them: read; written with zero.
const ACCESS: [(u32, bool, bool); 20] = [
    (msr::ID, true, false),
    (msr::VERSION, true, false),
    (msr::TPR, true, true),
    (msr::PPR, true, false),
    (msr::EOI, false, true),
    (msr::LDR, true, false),
    (msr::SVR, true, true),
    (msr::ISR, true, false),
    (msr::ISR + 7, true, false),
    (msr::TMR, true, false),
    (msr::IRR + 7, true, false),
    (msr::ESR, true, true),
    (msr::ICR, true, true),
    (msr::LVT, true, true),
    (msr::LVT + 5, true, true),
    (msr::INITIAL, true, true),
    (msr::CURRENT, true, false),
    (msr::DIVIDE, true, true),
    (msr::SELF_IPI, false, true),
    (msr::TSC_DEADLINE, true, true),
];

#[test]
fn each_register_is_read_and_written_as_the_table_says_and_all_others_fault() {
    for register in (msr::FIRST..=msr::LAST).chain([msr::TSC_DEADLINE]) {
        let known = ACCESS.iter().find(|(known, ..)| *known == register);
        let within = |first: u32, count: u32| (first..first + count).contains(&register);
        let (reads, writes) = match known {
            Some((_, reads, writes)) => (*reads, *writes),
            None if within(msr::ISR, 8) || within(msr::TMR, 8) || within(msr::IRR, 8) => (true, false),
            None if within(msr::LVT, 6) => (true, true),
            None => (false, false),
        };
        let mut apic = apic();
        assert_eq!(apic.read(register, NOW).is_ok(), reads, "read of {register:#x}");
        assert_eq!(apic.write(register, 0, NOW).is_ok(), writes, "write of {register:#x}");
    }
}

#[test]
fn reserved_bits_fault_and_change_nothing() {
    const ONES: u64 = u64::MAX;
    // Register, the bits that a write may have.
    let allowed = [
        (msr::TPR, 0xff),
        (msr::EOI, 0),
        (msr::SVR, 0x3ff),
        (msr::ESR, 0),
        (msr::ICR, 0xffff_ffff_000c_dfff),
        (msr::LVT, 0x7_10ff),
        (msr::LVT + 1, 0x1_17ff),
        (msr::LVT + 2, 0x1_17ff),
        (msr::LVT + 3, 0x1_f7ff),
        (msr::LVT + 4, 0x1_f7ff),
        (msr::LVT + 5, 0x1_10ff),
        (msr::INITIAL, 0xffff_ffff),
        (msr::DIVIDE, 0xb),
        (msr::SELF_IPI, 0xff),
        (msr::TSC_DEADLINE, ONES),
    ];
    for (register, allowed) in allowed {
        for bit in 0..64 {
            let mut apic = apic();
            let before = apic.clone();
            let fault = apic.write(register, 1 << bit, NOW) == Err(GeneralProtection);
            assert_eq!(fault, allowed & 1 << bit == 0, "bit {bit} of {register:#x}");
            if fault {
                assert_eq!(format!("{apic:?}"), format!("{before:?}"), "bit {bit} of {register:#x}");
            }
        }
    }
}

#[test]
fn identity_and_version_say_which_apic_it_is() {
    // "Logical Destination Mode in x2APIC Mode": the logical id follows from the id.
    for (id, logical) in [(0, 0x1), (1, 0x2), (15, 0x8000), (16, 0x1_0001), (0x25, 0x2_0020)] {
        let mut apic = LocalApic::new(id, clock(), true);
        assert_eq!(apic.read(msr::ID, NOW), Ok(id.into()));
        assert_eq!(apic.read(msr::LDR, NOW), Ok(logical));
        // "Local APIC Version Register": six entries in the vector table.
        assert_eq!(apic.read(msr::VERSION, NOW), Ok(0x5_0014));
    }
}

#[test]
fn as_firmware_leaves_it_it_is_off_and_only_nmis_have_an_input() {
    let mut apic = LocalApic::new(0, clock(), true);
    assert!(!apic.is_enabled());
    let entries = [0, 1, 2, 3, 4, 5].map(|n| apic.read(msr::LVT + n, NOW).unwrap());
    assert_eq!(entries, [0x1_0000, 0x1_0000, 0x1_0000, 0x1_0700, 0x400, 0x1_0000]);
    assert_eq!(apic.read(msr::SVR, NOW), Ok(0xff));
}

#[test]
fn while_it_is_off_entries_stay_masked_and_become_masked() {
    // "Local APIC State After It Has Been Software Disabled".
    let mut apic = apic();
    assert_eq!(apic.write(msr::LVT + 5, 0x40, NOW), Ok(Effect::Nothing));
    assert_eq!(apic.write(msr::SVR, 0xff, NOW), Ok(Effect::Nothing));
    assert_eq!(apic.read(msr::LVT + 5, NOW), Ok(0x1_0040));
    assert_eq!(apic.write(msr::LVT + 5, 0x41, NOW), Ok(Effect::Nothing));
    assert_eq!(apic.read(msr::LVT + 5, NOW), Ok(0x1_0041));
}

#[test]
fn without_the_deadline_mode_its_register_and_mode_fault() {
    let mut apic = LocalApic::new(0, clock(), false);
    let fault = Err(GeneralProtection);
    assert_eq!(apic.write(msr::TSC_DEADLINE, 1, NOW), fault);
    assert_eq!(apic.read(msr::TSC_DEADLINE, NOW), Err(GeneralProtection));
    assert_eq!(apic.write(msr::LVT, 2 << 17, NOW), fault);
    // The mode that has no meaning faults in any case.
    assert_eq!(super::apic().write(msr::LVT, 3 << 17, NOW), fault);
}
