//! Looks at one vCPU that was kicked.

use super::registers::{Registers, general};
use super::{AHEAD, LOOP_MAX, Spin, Spot};
use kvm_ioctls::{Kvm, VcpuFd};
use stile_sched::{Wait, Yield};

/// What is kept of a vCPU between two looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looks {
    registers: Registers,
    /// Where the vCPU was spinning at the last look, if it was.
    spot: Option<Spot>,
}

impl Looks {
    /// For a vCPU of this KVM.
    pub(crate) fn new(kvm: &Kvm) -> Self {
        Self { registers: Registers::new(kvm), spot: None }
    }

    /// Looks at a vCPU that has just left KVM_RUN. `read` reads the guest's code from an address on, and returns how
    /// much of it there is.
    pub(crate) fn look(
        &mut self,
        fd: &mut VcpuFd,
        read: impl FnOnce(&VcpuFd, u64, &mut [u8]) -> Option<usize>,
    ) -> Option<Yield> {
        let spot = self.spot(fd, read);
        self.registers.come_with_exits(fd, spot.is_some());
        let before = std::mem::replace(&mut self.spot, spot);
        spot.map(|_| Yield { wait: Wait::Spin, again: spot == before })
    }

    fn spot(&self, fd: &VcpuFd, read: impl FnOnce(&VcpuFd, u64, &mut [u8]) -> Option<usize>) -> Option<Spot> {
        let registers = self.registers.read(fd)?;
        let start = registers.rip.saturating_sub(LOOP_MAX as u64);
        let next = (registers.rip - start) as usize;
        let mut code = [0; LOOP_MAX + AHEAD];
        let length = read(fd, start, &mut code[..next + AHEAD])?;
        Some(Spin::around(code.get(..length)?, next)?.spot(start, general(&registers)))
    }
}
