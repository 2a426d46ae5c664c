//! Guests that break rules: each ends by itself, with a report that names vCPU, instruction and reason, while its
//! neighbour in the same domain runs on.

use kvm_ioctls::Kvm;
use std::sync::Arc;
use stile_abi::{CONSOLE_MAX, NAME_MAX, Queues, port};
use stile_machine::unikernel::layout::{GDT, IDT, Layout};
use stile_machine::vm::{Fault, FaultKind, Outcome};
use stile_sched::Domain;
use stile_tests::{Carrier, Guest, Program, Recipe, program, require_kvm};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Bits of a page fault's error code.
const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const FETCH: u64 = 1 << 4;
/// A port below all doorbells that is not in use.
const NO_DOORBELL: u16 = 0x4f0;

fn neighbour(kvm: &Kvm, domain: &Arc<dyn Domain>) -> Guest {
    let guest = Recipe::builtin("mix").vcpus(2).cmdline("roles=hog:1,probe:1").start(kvm, domain);
    guest.all_progress(1);
    guest
}

/// Runs a program beside a neighbour, under each mechanism; returns how it ended.
#[track_caller]
fn ends_alone(kvm: &Kvm, what: &str, recipe: &Recipe) -> Vec<(Outcome, Layout)> {
    let run = |carrier: Carrier| {
        eprintln!("{what}, {carrier}");
        let domain = carrier.domain();
        let neighbour = neighbour(kvm, &domain);
        let culprit = recipe.start(kvm, &domain);
        let outcome = culprit.ends();
        neighbour.all_progress(3);
        (outcome, *culprit.state().layout())
    };
    Carrier::mechanisms().map(run).into()
}

#[track_caller]
fn faults(kvm: &Kvm, what: &str, program: &Program, rip: u64, kind: impl Fn(&Layout) -> FaultKind) {
    for (outcome, layout) in ends_alone(kvm, what, &Recipe::program(program)) {
        let expected = Fault { vcpu: 0, rip: Some(rip), kind: kind(&layout) };
        assert_eq!(outcome, Outcome::Fault(expected), "{what}: {outcome}");
    }
}

#[track_caller]
fn exception(kvm: &Kvm, what: &str, program: &Program, vector: u8, error: Option<u64>) {
    faults(kvm, what, program, program.mark(), |_| FaultKind::Exception { vector, error, address: None });
}

#[track_caller]
fn page_fault(kvm: &Kvm, what: &str, program: &Program, error: u64, address: u64) {
    faults(kvm, what, program, program.mark(), |_| page_fault_at(error, address));
}

fn page_fault_at(error: u64, address: u64) -> FaultKind {
    FaultKind::Exception { vector: 14, error: Some(error), address: Some(address) }
}

/// A refused access to a port. Hosts differ in whether RIP has passed the instruction.
#[track_caller]
fn refused_port(kvm: &Kvm, what: &str, program: &Program, port: u16, width: usize) {
    // One byte, and a prefix for 16 bits.
    let length = if width == 2 { 2 } else { 1 };
    for (outcome, _) in ends_alone(kvm, what, &Recipe::program(program)) {
        let Outcome::Fault(Fault { vcpu: 0, rip: Some(rip), kind }) = &outcome else { panic!("{what}: {outcome}") };
        assert_eq!(*kind, FaultKind::Port { port, width }, "{what}: {outcome}");
        assert!([0, length].contains(&rip.wrapping_sub(program.mark())), "{what}: {outcome}");
    }
}

/// The guest breaks the ABI at this doorbell. The report contains these words.
#[track_caller]
fn breaks_abi(kvm: &Kvm, program: &Program, doorbell: &str, words: &str) {
    for (outcome, _) in ends_alone(kvm, words, &Recipe::program(program)) {
        let Outcome::Fault(Fault { vcpu: 0, rip: Some(rip), kind: FaultKind::Doorbell { name, why } }) = &outcome
        else {
            panic!("{words}: {outcome}");
        };
        assert_eq!(*name, doorbell, "{outcome}");
        assert!(why.contains(words), "{outcome}");
        // RIP as for refused ports.
        assert!([0, 1].contains(&rip.wrapping_sub(program.mark())), "{outcome}");
    }
}

#[test]
fn touching_unmapped_memory_is_a_page_fault_at_its_address() {
    let kvm = require_kvm!();
    page_fault(&kvm, "read", &program::reads_null(), USER, 0);
    page_fault(&kvm, "write", &program::writes_null(), USER | WRITE, 0);
    faults(&kvm, "execute", &program::jumps_to_null(), 0, |_| page_fault_at(USER | FETCH, 0));
}

#[test]
fn writing_to_what_is_not_its_own_is_a_page_fault() {
    let kvm = require_kvm!();
    let text = program::writes_text();
    page_fault(&kvm, "own text", &text, PRESENT | WRITE | USER, text.mark());
    page_fault(&kvm, "the monitor's tables", &program::writes_descriptors(), PRESENT | WRITE | USER, GDT);
}

#[test]
fn executing_data_is_a_page_fault() {
    let kvm = require_kvm!();
    let program = program::executes_stack();
    for (outcome, layout) in ends_alone(&kvm, "stack", &Recipe::program(&program)) {
        let target = layout.stack(0).end - 64;
        let kind = page_fault_at(PRESENT | USER | FETCH, target);
        assert_eq!(outcome, Outcome::Fault(Fault { vcpu: 0, rip: Some(target), kind }), "{outcome}");
    }
}

#[test]
fn a_stack_overflow_hits_the_guard_page() {
    let kvm = require_kvm!();
    let program = program::overflows_stack();
    faults(&kvm, "overflow", &program, program.mark(), |layout| page_fault_at(USER | WRITE, layout.stack(0).start - 8));
}

#[test]
fn an_address_that_is_none_is_a_general_protection_fault() {
    let kvm = require_kvm!();
    exception(&kvm, "non-canonical", &program::reads_non_canonical(), 13, Some(0));
}

#[test]
fn arithmetic_and_opcode_errors_are_reported_by_their_vector() {
    let kvm = require_kvm!();
    exception(&kvm, "div", &program::divides_by_zero(), 0, None);
    exception(&kvm, "ud2", &program::undefined_instruction(), 6, None);
    exception(&kvm, "int3", &program::breakpoint(), 3, None);
}

#[test]
fn privileged_instructions_are_general_protection_faults() {
    let kvm = require_kvm!();
    exception(&kvm, "hlt", &program::halts(), 13, Some(0));
    exception(&kvm, "lidt", &program::loads_interrupt_table(), 13, Some(0));
    exception(&kvm, "mov cr0", &program::writes_control_register(), 13, Some(0));
}

#[test]
fn interrupts_that_are_not_for_programs_are_refused() {
    let kvm = require_kvm!();
    for (program, gate) in [(program::interrupt_without_gate(), 0x40), (program::forges_page_fault(), 14)] {
        for (outcome, _) in ends_alone(&kvm, "int", &Recipe::program(&program)) {
            let fault = |vector, error| {
                let kind = FaultKind::Exception { vector, error, address: None };
                Outcome::Fault(Fault { vcpu: 0, rip: Some(program.mark()), kind })
            };
            // A CPU reports the gate, with a bit that says it is one of the interrupt table. PVM does not have such an
            // instruction.
            let gate = fault(13, Some(gate << 3 | 2));
            assert!(outcome == gate || outcome == fault(6, None), "{outcome}");
        }
    }
}

#[test]
fn ports_that_are_no_doorbells_and_doorbells_of_the_wrong_width_are_refused() {
    let kvm = require_kvm!();
    let port = |what, program, port, width| refused_port(&kvm, what, &program, port, width);
    port("no doorbell", program::writes_port(NO_DOORBELL, 0), NO_DOORBELL, 4);
    port("byte to a doorbell", program::writes_port_byte(port::CONSOLE), port::CONSOLE, 1);
    port("word to a doorbell", program::writes_port_halfway(port::EXIT), port::EXIT, 2);
    port("between doorbells", program::writes_port(port::YIELD + 1, 0), port::YIELD + 1, 4);
    port("read of a doorbell", program::reads_port(port::IDLE), port::IDLE, 1);
}

#[test]
fn an_exception_port_rung_by_the_guest_itself_is_refused() {
    let kvm = require_kvm!();
    let port = port::FAULT + 14;
    refused_port(&kvm, "forged page fault", &program::writes_port_byte(port), port, 1);
}

#[test]
fn doorbells_with_bad_arguments_are_refused_with_the_reason() {
    let kvm = require_kvm!();
    let rings = |port, value, arguments| program::rings(port, value, arguments);
    breaks_abi(&kvm, &rings(port::YIELD, 1 << 31, [0; 3]), "yield", "no hint");
    breaks_abi(&kvm, &rings(port::YIELD, 1 << 16 | 7, [0; 3]), "yield", "a vCPU the VM does not have");
    breaks_abi(&kvm, &rings(port::KICK, 1, [0; 3]), "kick", "no vCPU 1");
    let transmit = Queues::NONE.with(1).pack();
    breaks_abi(&kvm, &rings(port::IDLE, transmit, [0; 3]), "idle", "no network device");
    breaks_abi(&kvm, &rings(port::CONSOLE, CONSOLE_MAX + 1, [0; 3]), "console", "more than");
    breaks_abi(&kvm, &rings(port::CONSOLE, 8, [i32::MAX, 0, 0]), "console", "not all memory");
    breaks_abi(&kvm, &rings(port::CONSOLE, 8, [-4, 0, 0]), "console", "not all memory");
    breaks_abi(&kvm, &rings(port::RESULT, 0, [0x20_0000, NAME_MAX as i32 + 1, 0]), "result", "more than");
    breaks_abi(&kvm, &rings(port::RESULT, 0, [0x20_0000, -1, 0]), "result", "more than");
    breaks_abi(&kvm, &rings(port::RESULT, 0, [-4, 8, 0]), "result", "not memory");
    // The call block itself, whose third word is not UTF-8.
    let calls = Layout::new(32 << 20, 1, 0x20_1000).expect("fits").calls.start as i32;
    breaks_abi(&kvm, &rings(port::RESULT, 0, [calls + 16, 4, -1]), "result", "UTF-8");
}

/// Runs a program whose memory was changed between its making and its start, as no guest can do from inside.
fn ends_spoilt(kvm: &Kvm, program: &Program, spoil: impl Fn(&GuestMemoryMmap, &Layout)) -> Vec<Outcome> {
    let run = |carrier: Carrier| {
        let domain = carrier.domain();
        let neighbour = neighbour(kvm, &domain);
        let culprit = Recipe::program(program).create(kvm, &domain);
        spoil(culprit.state().memory(), culprit.state().layout());
        culprit.start();
        let outcome = culprit.ends();
        neighbour.all_progress(3);
        outcome
    };
    Carrier::mechanisms().map(run).into()
}

#[test]
fn an_exception_that_cannot_be_delivered_is_a_triple_fault() {
    let kvm = require_kvm!();
    let no_gates = |memory: &GuestMemoryMmap, _: &Layout| {
        memory.write_slice(&[0; 512], GuestAddress(IDT)).expect("descriptors lie in memory");
    };
    for outcome in ends_spoilt(&kvm, &program::undefined_instruction(), no_gates) {
        assert!(matches!(&outcome, Outcome::Fault(Fault { vcpu: 0, kind: FaultKind::TripleFault, .. })), "{outcome}");
    }
}

#[test]
fn an_address_with_neither_memory_nor_device_is_named() {
    const NOWHERE: u64 = 0xe000_0000;
    let kvm = require_kvm!();
    let page_0_leads_nowhere = |memory: &GuestMemoryMmap, layout: &Layout| {
        let mut table = layout.tables.start;
        for _ in 0..3 {
            let entry: u64 = memory.read_obj(GuestAddress(table)).expect("tables lie in memory");
            table = entry & !0xfff;
        }
        memory.write_obj(NOWHERE | PRESENT | WRITE | USER, GuestAddress(table)).expect("tables lie in memory");
    };
    for (program, write) in [(program::reads_null(), false), (program::writes_null(), true)] {
        let expected = FaultKind::Unmapped { address: NOWHERE, write };
        for outcome in ends_spoilt(&kvm, &program, page_0_leads_nowhere) {
            assert!(matches!(&outcome, Outcome::Fault(f) if f.vcpu == 0 && f.kind == expected), "{outcome}");
        }
    }
}

#[test]
fn the_report_names_the_vcpu_that_did_it() {
    let kvm = require_kvm!();
    let program = program::third_vcpu_faults();
    for (outcome, _) in ends_alone(&kvm, "vCPU 2 of 4", &Recipe::program(&program).vcpus(4)) {
        let kind = FaultKind::Exception { vector: 6, error: None, address: None };
        assert_eq!(outcome, Outcome::Fault(Fault { vcpu: 2, rip: Some(program.mark()), kind }));
        assert_eq!(outcome.to_string(), format!("vCPU 2 at RIP {:#x}: exception 6 (invalid opcode)", program.mark()));
    }
}

#[test]
fn a_guest_that_masks_interrupts_neither_keeps_its_pcpu_nor_outlives_a_stop() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let neighbour = neighbour(&kvm, &domain);
        let culprit = Recipe::program(&program::spins_with_interrupts_off()).vcpus(4).start(&kvm, &domain);
        neighbour.all_progress(20);
        culprit.stop();
        let outcome = culprit.wait();
        // Some hosts run CPL 3 with I/O privilege 0, where masking is itself a fault.
        let fault = FaultKind::Exception { vector: 13, error: Some(0), address: None };
        assert!(
            outcome == Outcome::Stopped || matches!(&outcome, Outcome::Fault(f) if f.kind == fault),
            "{carrier}: {outcome}"
        );
    }
}

#[test]
fn a_guest_that_kicks_without_end_does_not_stop_its_neighbour() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        let neighbour = neighbour(&kvm, &domain);
        let culprit = Recipe::program(&program::kicks_all_others()).vcpus(4).start(&kvm, &domain);
        neighbour.all_progress(20);
        culprit.all_progress(1);
    }
}

#[test]
fn exit_codes_reach_the_host() {
    let kvm = require_kvm!();
    for code in [0, 1, 99, u32::MAX] {
        let recipe = Recipe::program(&program::writes_port(port::EXIT, code));
        for (outcome, _) in ends_alone(&kvm, "exit", &recipe) {
            assert_eq!(outcome, Outcome::Exit(code));
        }
    }
}

#[test]
fn the_first_of_many_ends_counts() {
    let kvm = require_kvm!();
    let program = program::writes_port(port::EXIT, 5);
    for (outcome, _) in ends_alone(&kvm, "8 vCPUs exit at once", &Recipe::program(&program).vcpus(8)) {
        assert_eq!(outcome, Outcome::Exit(5));
    }
}
