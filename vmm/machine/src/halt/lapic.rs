//! Computes when the timer of a vCPU's LAPIC fires, from the LAPIC's registers.

use kvm_bindings::{Msrs, kvm_lapic_state, kvm_msr_entry};
use kvm_ioctls::VcpuFd;
use stile_sched::Nanos;

const LVT_TIMER: usize = 0x320;
const CURRENT_COUNT: usize = 0x390;
const DIVIDE: usize = 0x3e0;
/// Bit of the timer's entry in the local vector table.
const MASKED: u32 = 1 << 16;

const IA32_TSC: u32 = 0x10;
const IA32_TSC_DEADLINE: u32 = 0x6e0;

/// Reads when the timer of one vCPU's LAPIC fires.
#[derive(Debug, Default)]
pub(super) struct LapicTimer {
    /// Of the guest's TSC, which does not change; read once.
    khz: Option<u32>,
}

impl LapicTimer {
    /// Time from now until the timer fires; `None` if it does not run. Cost: one system call where the timer has a
    /// deadline, as Linux sets it, and two otherwise.
    pub(super) fn fires_in(&mut self, fd: &VcpuFd) -> Option<Nanos> {
        let entries = [IA32_TSC, IA32_TSC_DEADLINE].map(|index| kvm_msr_entry { index, ..kvm_msr_entry::default() });
        let mut msrs = Msrs::from_entries(&entries).ok()?;
        // A CPU without deadlines has no such register.
        if fd.get_msrs(&mut msrs).is_ok_and(|read| read == entries.len()) {
            let [now, deadline] = [0, 1].map(|n: usize| msrs.as_slice()[n].data);
            // In another mode it reads as 0.
            if deadline != 0 {
                self.khz = self.khz.or_else(|| fd.get_tsc_khz().ok());
                return ticks(deadline.saturating_sub(now), self.khz);
            }
        }
        let lapic = fd.get_lapic().ok()?;
        let entry = register(&lapic, LVT_TIMER);
        (entry & MASKED == 0).then(|| counted(register(&lapic, CURRENT_COUNT), register(&lapic, DIVIDE)))?
    }
}

/// The time that a count stands for. KVM's LAPIC counts nanoseconds, divided as the guest has set.
fn counted(count: u32, divide: u32) -> Option<Nanos> {
    // Bits 0, 1 and 3 are a logarithm, one less than the divisor's: 7 divides by 1.
    let shift = ((divide & 3) | (divide >> 1 & 4)).wrapping_add(1) & 7;
    (count != 0).then_some(Nanos(u64::from(count) << shift))
}

/// The time of so many ticks of the guest's TSC.
fn ticks(ticks: u64, khz: Option<u32>) -> Option<Nanos> {
    let khz = u128::from(khz.filter(|khz| *khz > 0)?);
    Some(Nanos(u64::try_from(u128::from(ticks) * 1_000_000 / khz).unwrap_or(u64::MAX)))
}

fn register(lapic: &kvm_lapic_state, offset: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|n| lapic.regs[offset + n] as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_stretched_by_the_divisor() {
        for (divide, by) in [(0b1011, 1), (0b0000, 2), (0b0001, 4), (0b0011, 16), (0b1000, 32), (0b1010, 128)] {
            assert_eq!(counted(1_000, divide), Some(Nanos(1_000 * by)), "{divide:#b}");
        }
        assert_eq!(counted(0, 0b1011), None);
    }

    #[test]
    fn ticks_take_as_long_as_the_clock_says_and_none_without_it() {
        assert_eq!(ticks(3_000, Some(3_000_000)), Some(Nanos(1_000)));
        assert_eq!(ticks(u64::MAX, Some(1)), Some(Nanos(u64::MAX)));
        assert_eq!((ticks(1, None), ticks(1, Some(0))), (None, None));
    }
}
