//! SDM, sections "Interrupt, Task, and Processor Priority", "Interrupt Acceptance for Fixed Interrupts", "Signaling
//! Interrupt Servicing Completion", "Spurious Interrupt", "Error Handling".

use super::super::local::msr;
use super::super::{Delivery, Effect, LocalApic, Message, Trigger};
use super::{NOW, apic, fixed, level};

fn requested(vectors: &[u8]) -> LocalApic {
    let mut apic = apic();
    vectors.iter().for_each(|vector| assert!(apic.accept(fixed(*vector))));
    apic
}

#[test]
fn the_highest_class_above_the_processors_comes_first() {
    // Requested, task priority, taken in order without an end of interrupt between them.
    let cases: [(&[u8], u8, &[u8]); 9] = [
        (&[0x31, 0x40, 0x52], 0, &[0x52]),
        (&[0x52], 0x50, &[]),
        (&[0x52], 0x4f, &[0x52]),
        (&[0x52], 0x51, &[]),
        (&[0x52], 0x60, &[]),
        (&[0x1f], 0x0f, &[0x1f]),
        (&[0x1f], 0x10, &[]),
        (&[0xff], 0xf0, &[]),
        (&[0x10], 0, &[0x10]),
    ];
    for (vectors, task, taken) in cases {
        let mut apic = requested(vectors);
        assert_eq!(apic.write(msr::TPR, task.into(), NOW), Ok(Effect::Nothing));
        let all: Vec<u8> = std::iter::from_fn(|| apic.acknowledge()).collect();
        assert_eq!(all, taken, "{vectors:x?} at task priority {task:#x}");
    }
}

#[test]
fn a_higher_class_interrupts_a_lower_one_and_an_equal_one_waits_for_its_end() {
    let mut apic = requested(&[0x45]);
    assert_eq!(apic.acknowledge(), Some(0x45));
    apic.accept(fixed(0x4a));
    assert_eq!(apic.acknowledge(), None, "the same class");
    apic.accept(fixed(0x50));
    assert_eq!(apic.acknowledge(), Some(0x50));
    assert_eq!(apic.read(msr::PPR, NOW), Ok(0x50));
    assert_eq!(apic.end_of_interrupt(), Effect::Nothing);
    assert_eq!((apic.read(msr::PPR, NOW), apic.acknowledge()), (Ok(0x40), None));
    assert_eq!(apic.end_of_interrupt(), Effect::Nothing);
    assert_eq!((apic.read(msr::PPR, NOW), apic.acknowledge()), (Ok(0), Some(0x4a)));
}

#[test]
fn the_processors_priority_is_the_tasks_or_that_of_the_interrupt_in_service() {
    // Task priority, vector in service, processor priority.
    for (task, serviced, priority) in
        [(0x25, 0, 0x25), (0, 0x31, 0x30), (0x35, 0x31, 0x35), (0x2f, 0x31, 0x30), (0x40, 0x31, 0x40)]
    {
        let mut apic = if serviced == 0 { apic() } else { requested(&[serviced]) };
        assert_eq!(apic.acknowledge().unwrap_or(0), serviced);
        assert_eq!(apic.write(msr::TPR, task, NOW), Ok(Effect::Nothing));
        assert_eq!(apic.read(msr::PPR, NOW), Ok(priority), "task {task:#x}, in service {serviced:#x}");
    }
}

#[test]
fn a_class_that_cr8_sets_is_the_upper_half_of_the_task_priority() {
    let mut apic = apic();
    assert_eq!(apic.write(msr::TPR, 0x25, NOW), Ok(Effect::Nothing));
    apic.set_task_class(2);
    assert_eq!(apic.task_priority(), 0x25, "no change keeps the lower half");
    apic.set_task_class(3);
    assert_eq!(apic.task_priority(), 0x30);
}

#[test]
fn one_request_can_wait_behind_one_in_service_and_more_are_one() {
    let mut apic = requested(&[0x60]);
    assert!(!apic.accept(fixed(0x60)), "it was requested");
    assert_eq!(apic.acknowledge(), Some(0x60));
    assert!(apic.accept(fixed(0x60)));
    assert_eq!(apic.end_of_interrupt(), Effect::Nothing);
    assert_eq!(apic.acknowledge(), Some(0x60));
    assert_eq!((apic.end_of_interrupt(), apic.acknowledge()), (Effect::Nothing, None));
}

#[test]
fn only_the_end_of_a_level_triggered_interrupt_is_told() {
    let mut apic = apic();
    apic.accept(level(0x71));
    apic.accept(fixed(0x81));
    assert_eq!(apic.read(msr::TMR + 3, NOW), Ok(1 << 0x11));
    assert_eq!((apic.acknowledge(), apic.end_of_interrupt()), (Some(0x81), Effect::Nothing));
    assert_eq!((apic.acknowledge(), apic.end_of_interrupt()), (Some(0x71), Effect::Ended(0x71)));
    assert_eq!(apic.end_of_interrupt(), Effect::Nothing, "none is in service");
    apic.accept(fixed(0x71));
    assert_eq!(apic.read(msr::TMR + 3, NOW), Ok(0), "as edge it is no level any more");
}

#[test]
fn requests_and_services_show_in_their_registers() {
    let mut apic = requested(&[0x20, 0x3f, 0xff]);
    assert_eq!([1, 7].map(|word| apic.read(msr::IRR + word, NOW)), [Ok(1 | 1 << 31), Ok(1 << 31)]);
    apic.acknowledge();
    assert_eq!((apic.read(msr::IRR + 7, NOW), apic.read(msr::ISR + 7, NOW)), (Ok(0), Ok(1 << 31)));
}

#[test]
fn while_it_is_off_fixed_interrupts_are_dropped_and_others_come_through() {
    let mut apic = apic();
    apic.accept(fixed(0x50));
    assert_eq!(apic.write(msr::SVR, 0xff, NOW), Ok(Effect::Nothing));
    assert!(!apic.accept(fixed(0x51)));
    assert_eq!(apic.deliverable(), None);
    assert!(apic.accept(Message { delivery: Delivery::Nmi, ..fixed(0) }));
    assert!(apic.take_nmi() && !apic.take_nmi());
    assert_eq!(apic.write(msr::SVR, 0x1ff, NOW), Ok(Effect::Nothing));
    assert_eq!((apic.acknowledge(), apic.acknowledge()), (Some(0x50), None), "what was pending is kept");
}

#[test]
fn an_interrupt_that_goes_away_before_it_is_taken_leaves_nothing_to_take() {
    // A real processor takes the spurious vector then. Here nothing is taken before it is known which: the priority
    // was raised first.
    let mut apic = requested(&[0x50]);
    assert_eq!(apic.deliverable(), Some(0x50));
    assert_eq!(apic.write(msr::TPR, 0x50, NOW), Ok(Effect::Nothing));
    assert_eq!((apic.deliverable(), apic.acknowledge()), (None, None));
    assert_eq!(apic.read(msr::IRR + 2, NOW), Ok(1 << 16), "it stays requested");
}

type Happening = fn(&mut LocalApic);

#[test]
fn illegal_vectors_are_errors_that_show_after_a_write_and_interrupt_once() {
    // What happens, and the bit that it sets ("Error Status Register").
    let send = |apic: &mut LocalApic| assert_eq!(apic.write(msr::ICR, 0x4_000f, NOW), Ok(Effect::Nothing));
    let receive = |apic: &mut LocalApic| {
        apic.accept(fixed(0xf));
    };
    let itself = |apic: &mut LocalApic| assert_eq!(apic.write(msr::SELF_IPI, 3, NOW), Ok(Effect::Nothing));
    let timer = |apic: &mut LocalApic| {
        assert_eq!(apic.write(msr::LVT, 5, NOW), Ok(Effect::Nothing));
        assert_eq!(apic.write(msr::INITIAL, 1, NOW), Ok(Effect::Nothing));
        apic.advance(super::later(1_000));
    };
    let cases: [(Happening, u64); 4] = [(send, 1 << 5), (receive, 1 << 6), (itself, 1 << 5), (timer, 1 << 6)];
    for (number, (happens, bit)) in cases.into_iter().enumerate() {
        let mut apic = apic();
        assert_eq!(apic.write(msr::LVT + 5, 0xfe, NOW), Ok(Effect::Nothing));
        happens(&mut apic);
        happens(&mut apic);
        assert_eq!(apic.read(msr::ESR, NOW), Ok(0), "case {number}");
        assert_eq!(apic.acknowledge(), Some(0xfe), "case {number}");
        assert_eq!(apic.write(msr::ESR, 0, NOW), Ok(Effect::Nothing));
        assert_eq!(apic.read(msr::ESR, NOW), Ok(bit), "case {number}");
        assert_eq!(apic.write(msr::ESR, 0, NOW), Ok(Effect::Nothing));
        assert_eq!(apic.read(msr::ESR, NOW), Ok(0), "case {number}");
        assert_eq!(apic.end_of_interrupt(), Effect::Nothing);
        assert_eq!(apic.acknowledge(), None, "case {number}");
    }
}

#[test]
fn an_error_whose_own_vector_is_illegal_makes_no_further_error() {
    let mut apic = apic();
    assert_eq!(apic.write(msr::LVT + 5, 2, NOW), Ok(Effect::Nothing));
    apic.accept(fixed(1));
    assert_eq!(apic.deliverable(), None);
}

#[test]
fn trigger_modes_of_messages_do_not_change_what_is_delivered() {
    for trigger in [Trigger::Edge, Trigger::Level] {
        for delivery in [Delivery::Fixed, Delivery::Lowest] {
            let mut apic = apic();
            assert!(apic.accept(Message { delivery, vector: 0x99, trigger }));
            assert_eq!(apic.acknowledge(), Some(0x99));
        }
    }
}

#[test]
fn an_interrupt_ends_alone_unless_another_waits_or_is_in_service_or_it_is_a_level() {
    assert!(!apic().ends_alone(), "none is in service");
    let mut apic = requested(&[0x50]);
    assert!(!apic.ends_alone());
    apic.acknowledge();
    assert!(apic.ends_alone());
    apic.accept(fixed(0x40));
    assert!(!apic.ends_alone(), "a lower one waits");
    let mut apic = requested(&[0x50]);
    apic.acknowledge();
    apic.accept(fixed(0x60));
    apic.acknowledge();
    assert!(!apic.ends_alone(), "it interrupted another");
    let mut apic = super::apic();
    apic.accept(level(0x50));
    apic.acknowledge();
    assert!(!apic.ends_alone(), "a level");
}
