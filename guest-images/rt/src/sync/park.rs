//! How a vCPU blocks, is woken and yields: by doorbells, or as a thread in a test.

use crate::{Boot, Cpu, doorbell};
use stile_abi::{Hint, Presence};

/// A vCPU, as far as waiting is concerned.
pub trait Park {
    /// Its index within the VM.
    fn index(&self) -> u32;
    /// Blocks until an event; returns at once if one came since the last call. May return for no reason.
    fn idle(&self);
    /// Sends an event to another vCPU.
    fn kick(&self, vcpu: u32);
    /// Lets others run.
    fn yield_now(&self, hint: Hint);
    /// Whether another vCPU runs.
    fn presence(&self, vcpu: u16) -> Presence;
}

impl Park for Cpu {
    fn index(&self) -> u32 {
        Cpu::index(*self)
    }

    fn idle(&self) {
        doorbell::idle(*self, None);
    }

    fn kick(&self, vcpu: u32) {
        doorbell::kick(vcpu);
    }

    fn yield_now(&self, hint: Hint) {
        doorbell::yield_now(hint);
    }

    fn presence(&self, vcpu: u16) -> Presence {
        Boot::page().steal(vcpu.into()).presence()
    }
}
