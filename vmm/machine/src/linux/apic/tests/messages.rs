//! SDM, sections "Interrupt Command Register (ICR)", "Determining IPI Destination", "Delivering IPIs in x2APIC Mode",
//! "SELF IPI Register", "MP Initialization Protocol", "Local APIC State After It Receives an INIT Reset".

use super::super::local::msr;
use super::super::{Delivery, Destination, Effect, GeneralProtection, Ipi, LocalApic, Message, Startup, Trigger};
use super::{NOW, apic, clock, fixed, later};

fn command(value: u64) -> Result<Effect, GeneralProtection> {
    apic().write(msr::ICR, value, NOW)
}

fn sent(to: Destination, delivery: Delivery, vector: u8) -> Result<Effect, GeneralProtection> {
    Ok(Effect::Send(Ipi { to, message: Message { delivery, vector, trigger: Trigger::Edge } }))
}

#[test]
fn commands_name_message_and_destination() {
    use Delivery::*;
    use Destination::*;
    let cases = [
        (0x0000_0003_0000_0041, sent(Physical(3), Fixed, 0x41)),
        (0x0000_0003_0000_4041, sent(Physical(3), Fixed, 0x41)),
        (0x0000_0003_0000_1041, sent(Physical(3), Fixed, 0x41)),
        (0x0001_0003_0000_0841, sent(Logical(0x1_0003), Fixed, 0x41)),
        (0xffff_ffff_0000_0041, sent(All, Fixed, 0x41)),
        (0xffff_ffff_0000_0841, sent(All, Fixed, 0x41)),
        (0x0000_0002_0000_0141, sent(Physical(2), Lowest, 0x41)),
        (0x0000_0002_0000_0400, sent(Physical(2), Nmi, 0)),
        (0x0000_0001_0000_4500, sent(Physical(1), Init, 0)),
        (0x0000_0001_0000_c500, sent(Physical(1), Init, 0)),
        (0x0000_0001_0000_0699, sent(Physical(1), Startup, 0x99)),
        (0x0000_0000_0004_0041, sent(Itself, Fixed, 0x41)),
        (0x0000_0000_0008_0041, sent(All, Fixed, 0x41)),
        (0x0000_0000_000c_0041, sent(Others, Fixed, 0x41)),
        (0x0000_0000_000c_0400, sent(Others, Nmi, 0)),
        // INIT level de-assert; SMI, the reserved mode and that of an 8259; a vector of an exception.
        (0x0000_0001_0000_8500, Ok(Effect::Nothing)),
        (0x0000_0001_0000_0200, Ok(Effect::Nothing)),
        (0x0000_0001_0000_0341, Ok(Effect::Nothing)),
        (0x0000_0001_0000_0741, Ok(Effect::Nothing)),
        (0x0000_0001_0000_000f, Ok(Effect::Nothing)),
    ];
    for (value, effect) in cases {
        assert_eq!(command(value), effect, "{value:#x}");
    }
}

#[test]
fn the_last_command_can_be_read_in_one_access() {
    let mut apic = apic();
    assert!(apic.write(msr::ICR, 0x0000_0003_0000_1841, NOW).is_ok());
    assert_eq!(apic.read(msr::ICR, NOW), Ok(0x0000_0003_0000_0841), "the delivery status is no more");
}

#[test]
fn destinations_contain_the_apics_that_the_table_names() {
    use Destination::*;
    // Destination, sender, ids of 0 to 33 that it contains.
    let cases: [(Destination, Option<u32>, &[u32]); 9] = [
        (Physical(3), Some(0), &[3]),
        (Physical(99), Some(0), &[]),
        (Logical(0x0000_000a), Some(0), &[1, 3]),
        (Logical(0x0001_8001), Some(0), &[16, 31]),
        (Logical(0x0002_ffff), Some(0), &[32, 33]),
        (Logical(0x0003_ffff), Some(0), &[]),
        (Logical(0), Some(0), &[]),
        (Itself, Some(7), &[7]),
        (Itself, None, &[]),
    ];
    for (destination, sender, ids) in cases {
        let contained: Vec<u32> = (0..34).filter(|id| destination.contains(*id, sender)).collect();
        assert_eq!(contained, ids, "{destination:?}");
    }
    assert_eq!((0..34).filter(|id| All.contains(*id, Some(7))).count(), 34);
    assert!((0..34).all(|id| Others.contains(id, Some(7)) == (id != 7)));
}

#[test]
fn an_interrupt_to_itself_is_requested_at_once() {
    let mut apic = apic();
    assert_eq!(apic.write(msr::SELF_IPI, 0x77, NOW), Ok(Effect::Nothing));
    assert_eq!(apic.acknowledge(), Some(0x77));
}

#[test]
fn smis_and_what_comes_from_an_8259_are_dropped() {
    for delivery in [Delivery::Smi, Delivery::Reserved, Delivery::External] {
        let mut apic = apic();
        assert!(!apic.accept(Message { delivery, vector: 0x50, trigger: Trigger::Edge }));
        assert_eq!((apic.deliverable(), apic.must_run()), (None, false));
    }
}

const INIT: Message = Message { delivery: Delivery::Init, vector: 0, trigger: Trigger::Edge };

fn start(page: u8) -> Message {
    Message { delivery: Delivery::Startup, vector: page, trigger: Trigger::Edge }
}

#[test]
fn a_processor_that_does_not_boot_waits_for_init_and_start() {
    let mut apic = LocalApic::new(1, clock(), true);
    assert!(apic.waits_for_start());
    assert!(apic.accept(INIT));
    assert!(!apic.waits_for_start() && apic.must_run());
    assert_eq!((apic.take_startup(), apic.take_startup()), (Some(Startup::Reset), None));
    assert!(apic.waits_for_start());
    assert!(apic.accept(start(0x9a)));
    assert!(!apic.waits_for_start());
    assert_eq!((apic.take_startup(), apic.take_startup()), (Some(Startup::At(0x9a)), None));
    assert!(!apic.waits_for_start());
    // Kernels send two start-up messages. The second has no effect.
    assert!(!apic.accept(start(0x9b)));
    assert_eq!(apic.take_startup(), None);
}

#[test]
fn init_and_start_that_come_before_the_processor_looks_are_taken_in_order() {
    let mut apic = LocalApic::new(1, clock(), true);
    apic.accept(INIT);
    apic.accept(start(7));
    assert!(!apic.waits_for_start());
    let taken: Vec<_> = std::iter::from_fn(|| apic.take_startup()).collect();
    assert_eq!(taken, [Startup::Reset, Startup::At(7)]);
    apic.accept(start(8));
    apic.accept(INIT);
    let taken: Vec<_> = std::iter::from_fn(|| apic.take_startup()).collect();
    assert_eq!(taken, [Startup::Reset], "a start before the INIT is void");
}

#[test]
fn inits_that_come_before_the_processor_looks_need_no_second_look() {
    let mut apic = LocalApic::new(1, clock(), true);
    assert!(apic.accept(INIT) && !apic.accept(INIT));
    assert!(apic.accept(start(7)) && apic.accept(INIT), "the start is void");
    assert!(!apic.accept(INIT));
    assert_eq!((apic.take_startup(), apic.take_startup()), (Some(Startup::Reset), None));
    assert!(apic.accept(INIT));
}

#[test]
fn an_init_resets_all_but_the_identity() {
    let mut apic = LocalApic::new(5, clock(), true);
    apic.accept(start(1));
    apic.take_startup();
    for (register, value) in [(msr::SVR, 0x1ff), (msr::TPR, 0x30), (msr::LVT, 0x40), (msr::INITIAL, 100)] {
        assert_eq!(apic.write(register, value, NOW), Ok(Effect::Nothing));
    }
    apic.accept(fixed(0x55));
    apic.accept(INIT);
    assert_eq!(apic.take_startup(), Some(Startup::Reset));
    let read = [msr::ID, msr::SVR, msr::TPR, msr::LVT, msr::LVT + 4, msr::INITIAL, msr::IRR + 2];
    let read = read.map(|register| apic.read(register, NOW).unwrap());
    assert_eq!(read, [5, 0xff, 0, 0x1_0000, 0x1_0000, 0, 0]);
    apic.advance(later(1_000_000));
    assert!(apic.waits_for_start());
}

#[test]
fn the_processor_that_boots_does_not_wait_after_an_init() {
    let mut apic = LocalApic::new(0, clock(), true);
    assert!(!apic.waits_for_start());
    apic.accept(INIT);
    assert_eq!(apic.take_startup(), Some(Startup::Reset));
    assert!(!apic.waits_for_start());
}

#[test]
fn nmis_do_not_add_up_and_pass_the_priorities() {
    let mut apic = apic();
    assert_eq!(apic.write(msr::TPR, 0xff, NOW), Ok(Effect::Nothing));
    let nmi = Message { delivery: Delivery::Nmi, ..fixed(2) };
    assert!(apic.accept(nmi) && !apic.accept(nmi));
    assert!(apic.must_run() && apic.take_nmi() && !apic.must_run());
}
