//! A local APIC in x2APIC mode.
//!
//! SDM, sections "Extended XAPIC (x2APIC)", "Local APIC", "Handling Interrupts", "Error Handling".

use super::lvt::{self, Source};
use super::message::{Delivery, Destination, Ipi, Message, Trigger, logical_id};
use super::timer::{Now, Timer};
use super::vectors::Vectors;
use crate::vm::clock::TscClock;
use stile_sched::Time;

/// Model-specific registers of the local APIC (SDM, table "Local APIC Register Address Map Supported by x2APIC").
pub mod msr {
    /// First of them.
    pub const FIRST: u32 = 0x800;
    /// Last of them.
    pub const LAST: u32 = 0x8ff;
    /// Identity.
    pub const ID: u32 = 0x802;
    /// Version.
    pub const VERSION: u32 = 0x803;
    /// Task priority.
    pub const TPR: u32 = 0x808;
    /// Processor priority.
    pub const PPR: u32 = 0x80a;
    /// End of interrupt.
    pub const EOI: u32 = 0x80b;
    /// Logical destination.
    pub const LDR: u32 = 0x80d;
    /// Spurious-interrupt vector.
    pub const SVR: u32 = 0x80f;
    /// In service, eight words.
    pub const ISR: u32 = 0x810;
    /// Trigger mode, eight words.
    pub const TMR: u32 = 0x818;
    /// Requested, eight words.
    pub const IRR: u32 = 0x820;
    /// Error status.
    pub const ESR: u32 = 0x828;
    /// Interrupt command.
    pub const ICR: u32 = 0x830;
    /// Local vector table, six entries.
    pub const LVT: u32 = 0x832;
    /// The timer's initial count.
    pub const INITIAL: u32 = 0x838;
    /// The timer's current count.
    pub const CURRENT: u32 = 0x839;
    /// The timer's divide configuration.
    pub const DIVIDE: u32 = 0x83e;
    /// Interrupt to itself.
    pub const SELF_IPI: u32 = 0x83f;
    /// The timer's TSC deadline.
    pub const TSC_DEADLINE: u32 = 0x6e0;
}

/// Version register: an integrated APIC, and the number of the last entry of the vector table.
const VERSION: u32 = 0x14 | (lvt::SOURCES as u32 - 1) << 16;
/// Spurious vector register: the APIC is on; and the vector.
const ENABLED: u32 = 1 << 8;
const FOCUS_OFF: u32 = 1 << 9;
const SVR_BITS: u32 = ENABLED | FOCUS_OFF | 0xff;
const SVR_RESET: u32 = 0xff;
/// Divide configuration: its bits.
const DIVIDE_BITS: u64 = 0xb;
/// Vectors below are exceptions of the processor.
const FIRST_VECTOR: u8 = 16;
/// Error status: an illegal vector was sent, or received.
const SENT_ILLEGAL: u32 = 1 << 5;
const RECEIVED_ILLEGAL: u32 = 1 << 6;
/// Interrupt command: bits that are reserved. Bit 12 was the delivery status of older APICs and is ignored.
const ICR_RESERVED: u64 = 0xfff0_0000 | 3 << 16 | 1 << 13;
const ICR_OLD_STATUS: u64 = 1 << 12;
const LOGICAL: u64 = 1 << 11;
const ASSERT: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;

/// The access makes a general-protection exception in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneralProtection;

/// What a write does to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// A message is sent.
    Send(Ipi),
    /// A level-triggered interrupt with this vector has ended, and I/O APICs are to know.
    Ended(u8),
}

/// What becomes of a processor by INIT and start-up messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Startup {
    /// It is reset, and waits for its start unless it is the one that boots.
    Reset,
    /// It starts in real mode, at the page with this number.
    At(u8),
}

/// A local APIC.
#[derive(Debug, Clone)]
pub struct LocalApic {
    id: u32,
    /// Its processor boots the machine, and does not wait for a start.
    boots: bool,
    clock: TscClock,
    has_deadline: bool,
    tpr: u8,
    svr: u32,
    lvt: [u32; lvt::SOURCES],
    irr: Vectors,
    isr: Vectors,
    tmr: Vectors,
    icr: u64,
    /// What the error status register shows, and what it will show after the next write.
    errors: (u32, u32),
    timer: Timer,
    nmi: bool,
    reset: bool,
    start: Option<u8>,
    waits_for_start: bool,
}

impl LocalApic {
    /// A local APIC as firmware leaves it. `has_deadline`: its timer has the TSC deadline mode.
    pub fn new(id: u32, clock: TscClock, has_deadline: bool) -> Self {
        let mut apic = Self {
            id,
            boots: id == 0,
            clock,
            has_deadline,
            tpr: 0,
            svr: SVR_RESET,
            lvt: [lvt::MASKED; lvt::SOURCES],
            irr: Vectors::default(),
            isr: Vectors::default(),
            tmr: Vectors::default(),
            icr: 0,
            errors: (0, 0),
            timer: Timer::new(clock),
            nmi: false,
            reset: false,
            start: None,
            waits_for_start: id != 0,
        };
        apic.lvt[Source::Line0 as usize] |= lvt::EXTERNAL;
        apic.lvt[Source::Line1 as usize] = lvt::NMI;
        apic
    }

    /// Whether software has turned it on.
    pub fn is_enabled(&self) -> bool {
        self.svr & ENABLED != 0
    }

    /// The processor's priority: that of the task or of the interrupt in service (section "Task and Processor
    /// Priorities").
    pub fn processor_priority(&self) -> u8 {
        let in_service = self.isr.highest().map_or(0, |vector| vector & 0xf0);
        if self.tpr & 0xf0 >= in_service { self.tpr } else { in_service }
    }

    /// The task priority.
    pub fn task_priority(&self) -> u8 {
        self.tpr
    }

    /// Sets the task priority's class, as a write of CR8 does.
    pub fn set_task_class(&mut self, class: u8) {
        if class != self.tpr >> 4 {
            self.tpr = class << 4;
        }
    }

    /// The interrupt that the processor would take now if it takes interrupts.
    pub fn deliverable(&self) -> Option<u8> {
        if !self.is_enabled() {
            return None;
        }
        self.irr.highest().filter(|vector| vector & 0xf0 > self.processor_priority() & 0xf0)
    }

    /// The processor takes that interrupt.
    pub fn acknowledge(&mut self) -> Option<u8> {
        let vector = self.deliverable()?;
        self.irr.remove(vector);
        self.isr.insert(vector);
        Some(vector)
    }

    /// Ends the interrupt in service, as a write of the EOI register does.
    pub fn end_of_interrupt(&mut self) -> Effect {
        let Some(vector) = self.isr.highest() else { return Effect::Nothing };
        self.isr.remove(vector);
        if self.tmr.contains(vector) { Effect::Ended(vector) } else { Effect::Nothing }
    }

    /// Whether the end of the interrupt in service would change nothing but that: no other interrupt is in service or
    /// requested, and no I/O APIC has to know.
    pub fn ends_alone(&self) -> bool {
        let mut others = self.isr;
        let Some(vector) = others.highest() else { return false };
        others.remove(vector);
        others.highest().is_none() && self.irr.highest().is_none() && !self.tmr.contains(vector)
    }

    /// A message has come. False if it changes nothing that the processor would have to look at.
    pub fn accept(&mut self, message: Message) -> bool {
        match message.delivery {
            Delivery::Fixed | Delivery::Lowest => self.request(message.vector, message.trigger),
            Delivery::Nmi => !std::mem::replace(&mut self.nmi, true),
            // A second one while the first waits changes nothing, unless a start came between.
            Delivery::Init => !std::mem::replace(&mut self.reset, true) | self.start.take().is_some(),
            Delivery::Startup if self.reset || self.waits_for_start => {
                self.start = Some(message.vector);
                true
            }
            Delivery::Startup | Delivery::Smi | Delivery::Reserved | Delivery::External => false,
        }
    }

    fn request(&mut self, vector: u8, trigger: Trigger) -> bool {
        if !self.is_enabled() {
            return false;
        }
        if vector < FIRST_VECTOR {
            return self.fail(RECEIVED_ILLEGAL);
        }
        match trigger {
            Trigger::Edge => self.tmr.remove(vector),
            Trigger::Level => drop(self.tmr.insert(vector)),
        }
        self.irr.insert(vector)
    }

    /// An error is noted, and makes an interrupt if that is set up (section "Error Handling").
    fn fail(&mut self, error: u32) -> bool {
        let is_new = self.errors.1 & error == 0;
        self.errors.1 |= error;
        let entry = self.lvt[Source::Error as usize];
        // An error entry with an illegal vector would fail again.
        is_new
            && entry & lvt::MASKED == 0
            && lvt::vector(entry) >= FIRST_VECTOR
            && self.request(lvt::vector(entry), Trigger::Edge)
    }

    /// Time has passed: the timer may have fired.
    pub fn advance(&mut self, now: Time) {
        if !self.timer.fire(now) {
            return;
        }
        let entry = self.lvt[Source::Timer as usize];
        if entry & lvt::MASKED == 0 {
            self.request(lvt::vector(entry), Trigger::Edge);
        }
    }

    /// When the timer makes an interrupt, if it does.
    pub fn deadline(&self) -> Time {
        let heard = self.is_enabled() && self.lvt[Source::Timer as usize] & lvt::MASKED == 0;
        self.timer.next().filter(|_| heard).unwrap_or(Time::NEVER)
    }

    /// Takes a pending NMI out.
    pub fn take_nmi(&mut self) -> bool {
        std::mem::take(&mut self.nmi)
    }

    /// Whether the processor waits for a start-up message.
    pub fn waits_for_start(&self) -> bool {
        self.waits_for_start && !self.reset && self.start.is_none()
    }

    /// Whether an event is pending that ends any halt: an NMI, or an INIT.
    pub fn must_run(&self) -> bool {
        self.nmi || self.reset
    }

    /// Takes out what an INIT or a start-up message asks for; an INIT comes first.
    pub fn take_startup(&mut self) -> Option<Startup> {
        if std::mem::take(&mut self.reset) {
            let start = self.start.take();
            *self = Self::after_init(self);
            self.start = start;
            return Some(Startup::Reset);
        }
        let page = self.start.take()?;
        self.waits_for_start = false;
        Some(Startup::At(page))
    }

    /// Section "Local APIC State After It Receives an INIT Reset", and "x2APIC States": its mode is kept.
    fn after_init(old: &Self) -> Self {
        Self {
            lvt: [lvt::MASKED; lvt::SOURCES],
            waits_for_start: !old.boots,
            ..Self::new(old.id, old.clock, old.has_deadline)
        }
    }
}

/// Registers.
impl LocalApic {
    /// Reads a model-specific register.
    pub fn read(&mut self, register: u32, now: Now) -> Result<u64, GeneralProtection> {
        self.advance(now.time);
        let words = |vectors: &Vectors, first: u32| u64::from(vectors.word((register - first) as usize));
        Ok(match register {
            msr::ID => self.id.into(),
            msr::VERSION => VERSION.into(),
            msr::TPR => self.tpr.into(),
            msr::PPR => self.processor_priority().into(),
            msr::LDR => logical_id(self.id).into(),
            msr::SVR => self.svr.into(),
            msr::ISR..msr::TMR => words(&self.isr, msr::ISR),
            msr::TMR..msr::IRR => words(&self.tmr, msr::TMR),
            msr::IRR..msr::ESR => words(&self.irr, msr::IRR),
            msr::ESR => self.errors.0.into(),
            msr::ICR => self.icr,
            msr::LVT..msr::INITIAL => self.lvt[(register - msr::LVT) as usize].into(),
            msr::INITIAL => self.timer.initial().into(),
            msr::CURRENT => self.timer.current(now).into(),
            msr::DIVIDE => self.timer.divide().into(),
            msr::TSC_DEADLINE if self.has_deadline => self.timer.tsc(),
            _ => return Err(GeneralProtection),
        })
    }

    /// Writes a model-specific register.
    pub fn write(&mut self, register: u32, value: u64, now: Now) -> Result<Effect, GeneralProtection> {
        self.advance(now.time);
        match register {
            msr::TPR => self.tpr = u8::try_from(value).or(Err(GeneralProtection))?,
            msr::EOI => {
                must_be_zero(value)?;
                return Ok(self.end_of_interrupt());
            }
            msr::SVR => self.set_svr(value)?,
            msr::ESR => {
                must_be_zero(value)?;
                self.errors = (self.errors.1, 0);
            }
            msr::ICR => return self.command(value),
            msr::LVT..msr::INITIAL => self.set_entry(Source::ALL[(register - msr::LVT) as usize], value)?,
            msr::INITIAL => self.timer.set_initial(u32::try_from(value).or(Err(GeneralProtection))?, now),
            msr::DIVIDE if value & !DIVIDE_BITS == 0 => self.timer.set_divide(value as u32, now),
            msr::SELF_IPI => return self.interrupt_itself(value),
            msr::TSC_DEADLINE if self.has_deadline => self.timer.set_tsc(value, now),
            _ => return Err(GeneralProtection),
        }
        Ok(Effect::Nothing)
    }

    fn set_svr(&mut self, value: u64) -> Result<(), GeneralProtection> {
        let value = u32::try_from(value).ok().filter(|value| value & !SVR_BITS == 0).ok_or(GeneralProtection)?;
        self.svr = value;
        if !self.is_enabled() {
            // Section "Local APIC State After It Has Been Software Disabled".
            self.lvt.iter_mut().for_each(|entry| *entry |= lvt::MASKED);
        }
        Ok(())
    }

    fn set_entry(&mut self, source: Source, value: u64) -> Result<(), GeneralProtection> {
        let mut entry = source.entry(value).ok_or(GeneralProtection)?;
        if !self.is_enabled() {
            entry |= lvt::MASKED;
        }
        if source == Source::Timer {
            let mode = lvt::mode(entry).ok_or(GeneralProtection)?;
            if mode == super::timer::Mode::TscDeadline && !self.has_deadline {
                return Err(GeneralProtection);
            }
            self.timer.set_mode(mode);
        }
        self.lvt[source as usize] = entry;
        Ok(())
    }

    fn command(&mut self, value: u64) -> Result<Effect, GeneralProtection> {
        if value & ICR_RESERVED != 0 {
            return Err(GeneralProtection);
        }
        self.icr = value & !ICR_OLD_STATUS;
        let message = Message { delivery: Delivery::of(value >> 8), vector: value as u8, trigger: Trigger::Edge };
        let to = match value >> 18 & 3 {
            0 => Destination::of_x2apic(value & LOGICAL != 0, (value >> 32) as u32),
            1 => Destination::Itself,
            2 => Destination::All,
            _ => Destination::Others,
        };
        let deasserts = value & (ASSERT | LEVEL) == LEVEL;
        match message.delivery {
            // "INIT Level De-assert" does nothing since the Pentium 4.
            Delivery::Init if deasserts => return Ok(Effect::Nothing),
            Delivery::Smi | Delivery::Reserved | Delivery::External => return Ok(Effect::Nothing),
            delivery if delivery.has_vector() && message.vector < FIRST_VECTOR => {
                self.fail(SENT_ILLEGAL);
                return Ok(Effect::Nothing);
            }
            _ => {}
        }
        Ok(Effect::Send(Ipi { to, message }))
    }

    fn interrupt_itself(&mut self, value: u64) -> Result<Effect, GeneralProtection> {
        let vector = u8::try_from(value).or(Err(GeneralProtection))?;
        if vector < FIRST_VECTOR {
            self.fail(SENT_ILLEGAL);
        } else {
            self.request(vector, Trigger::Edge);
        }
        Ok(Effect::Nothing)
    }
}

fn must_be_zero(value: u64) -> Result<(), GeneralProtection> {
    if value == 0 { Ok(()) } else { Err(GeneralProtection) }
}
