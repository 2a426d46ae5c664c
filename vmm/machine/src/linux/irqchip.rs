//! Interrupts of a Linux guest: KVM's local APICs and its I/O APIC.
//!
//! KVM also makes a PC's two 8259, which this machine does not have. A kernel that knows this never sets them up, and
//! an interrupt from them would look like an exception. So no line leads to them, and the input of the local APICs to
//! which they are connected is masked.

use super::layout::{GSIS, KVM_PAGES, PAGE};
use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQCHIP_IOAPIC, KvmIrqRouting, kvm_irq_routing_entry,
    kvm_irq_routing_entry__bindgen_ty_1, kvm_irq_routing_irqchip, kvm_lapic_state,
};
use kvm_ioctls::{Error, VcpuFd, VmFd};

/// Registers of the local APIC: its two inputs.
const LINE_0: usize = 0x350;
const LINE_1: usize = 0x360;
const MASKED: u32 = 1 << 16;
const EXTERNAL: u32 = 7 << 8;
const NMI: u32 = 4 << 8;

/// Makes the VM's interrupt controllers. Called before its vCPUs are made.
pub(super) fn create(vm: &VmFd) -> Result<(), Error> {
    vm.set_identity_map_address(KVM_PAGES)?;
    vm.set_tss_address((KVM_PAGES + PAGE) as usize)?;
    vm.create_irq_chip()?;
    vm.set_gsi_routing(&routes())
}

/// Connects every line with the I/O APIC's pin of the same number.
fn routes() -> KvmIrqRouting {
    let to_pin = |pin| kvm_irq_routing_entry {
        gsi: pin,
        type_: KVM_IRQ_ROUTING_IRQCHIP,
        u: kvm_irq_routing_entry__bindgen_ty_1 {
            irqchip: kvm_irq_routing_irqchip { irqchip: KVM_IRQCHIP_IOAPIC, pin },
        },
        ..Default::default()
    };
    KvmIrqRouting::from_entries(&(0..GSIS).map(to_pin).collect::<Vec<_>>()).expect("few enough for any kernel")
}

/// Sets up a vCPU's local APIC as a kernel expects it from firmware.
pub(super) fn set_up_lines(vcpu: &VcpuFd) -> Result<(), Error> {
    let mut state = vcpu.get_lapic()?;
    set_lines(&mut state);
    vcpu.set_lapic(&state)
}

fn set_lines(state: &mut kvm_lapic_state) {
    for (register, value) in [(LINE_0, EXTERNAL | MASKED), (LINE_1, NMI)] {
        for (byte, value) in state.regs[register..].iter_mut().zip(value.to_le_bytes()) {
            *byte = value as _;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_interrupts_are_masked_and_nmis_come_in_on_line_1() {
        let mut state = kvm_lapic_state { regs: [0x7f; 1024] };
        set_lines(&mut state);
        let register = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| state.regs[at + n] as u8));
        assert_eq!((register(LINE_0), register(LINE_1)), (0x1_0700, 0x400));
        assert_eq!((register(0x340), register(0x370)), (0x7f7f_7f7f, 0x7f7f_7f7f));
    }

    #[test]
    fn every_line_has_a_route() {
        let routes = routes();
        let gsis: Vec<_> = routes.as_slice().iter().map(|entry| entry.gsi).collect();
        assert_eq!(gsis, (0..GSIS).collect::<Vec<_>>());
    }
}
