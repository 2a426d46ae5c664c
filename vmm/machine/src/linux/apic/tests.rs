//! Tests of the model, by sections of the reference.

mod io;
mod messages;
mod priorities;
mod registers;
mod timer;

use super::local::msr;
use super::{Delivery, Effect, LocalApic, Message, Now, Trigger};
use crate::vm::clock::TscClock;
use stile_sched::{Nanos, Time};

/// A present.
const NOW: Now = Now { time: Time(1_000_000_000), tsc: 5_000_000_000 };

/// A TSC that ticks twice in a nanosecond.
fn clock() -> TscClock {
    TscClock::new(2_000_000)
}

/// A point so many nanoseconds after the present.
fn later(nanos: u64) -> Time {
    NOW.time + Nanos(nanos)
}

/// The same, by both clocks.
fn at(nanos: u64) -> Now {
    Now { time: later(nanos), tsc: NOW.tsc + 2 * nanos }
}

/// The local APIC of the processor that boots, turned on.
fn apic() -> LocalApic {
    let mut apic = LocalApic::new(0, clock(), true);
    assert_eq!(apic.write(msr::SVR, 0x1ff, NOW), Ok(Effect::Nothing));
    apic
}

fn fixed(vector: u8) -> Message {
    Message { delivery: Delivery::Fixed, vector, trigger: Trigger::Edge }
}

fn level(vector: u8) -> Message {
    Message { trigger: Trigger::Level, ..fixed(vector) }
}
