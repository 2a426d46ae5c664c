//! Addresses of everything in a Linux guest's memory, and the memory map that the guest gets.
//!
//! The monitor's structures for the kernel lie below 1 MiB: descriptor table, boot parameters, page tables, command
//! line, and ACPI tables where a BIOS would put them. The kernel is loaded from 1 MiB up, the initramfs as high as it
//! may be. Memory that would reach beyond [`HOLE`] continues at 4 GiB. In the hole are device registers and interrupt
//! controllers.

use crate::vm::Range;
use vm_memory::GuestAddress;

/// Bytes in a page.
pub const PAGE: u64 = 4096;
/// Descriptor table of the boot vCPU.
pub const GDT: u64 = 0x500;
/// Start information of a PVH kernel, in the first 64 bytes; then its list of modules, then its memory map.
pub const PVH_INFO: u64 = 0x6000;
/// The one module of a PVH kernel.
pub const PVH_MODULES: u64 = PVH_INFO + 0x40;
/// The memory map of a PVH kernel.
pub const PVH_MEMORY_MAP: u64 = PVH_INFO + 0x100;
/// The Linux boot protocol's "zero page".
pub const BOOT_PARAMS: u64 = 0x7000;
/// Page tables of the boot vCPU: one page for each of the upper levels, and four below for 4 GiB.
pub const PAGE_TABLES: u64 = 0x9000;
/// Command line.
pub const CMDLINE: u64 = 0x2_0000;
/// Room for the command line (units: bytes).
pub const CMDLINE_ROOM: u64 = 0x1_0000;
/// Conventional memory ends here, as on a PC with a BIOS.
const LOW_END: u64 = 0x9_fc00;
/// ACPI tables, in the area that kernels search for them. The first table there is the root.
pub const ACPI: u64 = 0xe_0000;
/// Room for ACPI tables (units: bytes).
pub const ACPI_ROOM: u64 = KERNEL - ACPI;
/// Lowest address of a kernel.
pub const KERNEL: u64 = 0x10_0000;
/// First address without memory behind it. The hole ends at 4 GiB.
pub const HOLE: u64 = stile_abi::MMIO_BASE;
/// Memory continues here.
const ABOVE_HOLE: u64 = 1 << 32;
/// Device registers, a page for each device.
pub const DEVICES: u64 = HOLE;
/// First interrupt line of devices. A PC uses those below for its own hardware.
pub const FIRST_DEVICE_GSI: u32 = 5;
/// Interrupt lines of the I/O APIC.
pub const GSIS: u32 = 24;
/// Greatest number of devices.
pub const DEVICES_MAX: usize = (GSIS - FIRST_DEVICE_GSI) as usize;
/// Interrupt line of the serial port.
pub const SERIAL_GSI: u32 = 4;
/// Interrupt line of the power button.
pub const POWER_BUTTON_GSI: u32 = 3;
/// Registers of the I/O APIC, as KVM has them.
pub const IO_APIC: u32 = 0xfec0_0000;
/// Registers of each vCPU's local APIC.
pub const LOCAL_APIC: u32 = 0xfee0_0000;
/// Four pages that KVM needs on Intel hosts: one for its identity map, three for a task state.
pub const KVM_PAGES: u64 = 0xfffb_c000;

/// The type of a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Memory that the guest may use.
    Ram,
    /// Memory that holds ACPI tables.
    Reserved,
}

/// The memory of one VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Memory size (units: bytes).
    memory: u64,
}

impl Layout {
    /// The memory of a VM with so much of it (units: bytes).
    pub fn new(memory: u64) -> Self {
        Self { memory }
    }

    /// Its memory (units: bytes).
    pub fn memory(self) -> u64 {
        self.memory
    }

    /// One past the last byte of memory below the hole.
    pub fn low_end(self) -> u64 {
        self.memory.min(HOLE)
    }

    /// The ranges to map: start and size (units: bytes).
    pub fn regions(self) -> Vec<(GuestAddress, usize)> {
        let low = self.low_end();
        let low_and_high = [(0, low), (ABOVE_HOLE, self.memory - low)];
        let there = low_and_high.into_iter().filter(|(_, size)| *size > 0);
        there.map(|(start, size)| (GuestAddress(start), size as usize)).collect()
    }

    /// The guest's memory map: ranges in ascending order, without overlap.
    pub fn map(self) -> Vec<(Range, Use)> {
        let low = self.low_end();
        let high = ABOVE_HOLE + (self.memory - low);
        let ranges = [
            (0, LOW_END, Use::Ram),
            (LOW_END, KERNEL, Use::Reserved),
            (KERNEL, low, Use::Ram),
            (ABOVE_HOLE, high, Use::Ram),
        ];
        let there = ranges.into_iter().filter(|(start, end, _)| start < end);
        there.map(|(start, end, what)| (Range { start, end }, what)).collect()
    }

    /// Address for an initramfs of this size: the highest possible one, at the start of a page. `None` if it would be
    /// below `floor`, where the kernel ends.
    pub fn place_initrd(self, size: u64, highest: u64, floor: u64) -> Option<u64> {
        let end = self.low_end().min(highest.saturating_add(1));
        let start = end.checked_sub(size)? & !(PAGE - 1);
        (start >= floor).then_some(start)
    }
}

/// Registers of the device with this number, counted from 0.
pub fn device_base(number: usize) -> u64 {
    DEVICES + number as u64 * PAGE
}

/// Interrupt line of the device with this number.
pub fn device_gsi(number: usize) -> u32 {
    FIRST_DEVICE_GSI + number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn memory_that_fits_below_the_hole_is_one_region() {
        let layout = Layout::new(256 << 20);
        assert_eq!(layout.regions(), [(GuestAddress(0), 256 << 20)]);
        assert_eq!(Layout::new(HOLE).regions().len(), 1);
    }

    #[test]
    fn memory_that_does_not_goes_on_at_4_gib_and_none_is_lost() {
        for memory in [HOLE + PAGE, 4 * GIB, 64 * GIB] {
            let regions = Layout::new(memory).regions();
            assert_eq!(regions[0], (GuestAddress(0), HOLE as usize));
            assert_eq!(regions[1].0, GuestAddress(1 << 32));
            assert_eq!(regions.iter().map(|(_, size)| *size as u64).sum::<u64>(), memory);
        }
    }

    #[test]
    fn what_the_guest_is_told_is_in_order_and_lies_within_what_is_mapped() {
        for memory in [4 << 20, 256 << 20, 4 * GIB, 64 * GIB] {
            let layout = Layout::new(memory);
            let map = layout.map();
            assert!(map.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start), "{map:?}");
            let mapped = |range: &Range| {
                let within = |(start, size): &(GuestAddress, usize)| {
                    start.0 <= range.start && range.end <= start.0 + *size as u64
                };
                layout.regions().iter().any(within)
            };
            assert!(map.iter().all(|(range, _)| mapped(range)), "{map:?}");
            let told: u64 = map.iter().map(|(range, _)| range.end - range.start).sum();
            assert_eq!(told, memory);
        }
    }

    #[test]
    fn no_structure_below_1_mib_overlaps_another_or_lies_in_reserved_memory() {
        let tables = PAGE_TABLES + 6 * PAGE;
        let ends =
            [(GDT, GDT + 64), (PVH_INFO, PVH_INFO + PAGE), (BOOT_PARAMS, BOOT_PARAMS + PAGE), (PAGE_TABLES, tables)];
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert!(tables <= CMDLINE && CMDLINE + CMDLINE_ROOM <= LOW_END && LOW_END <= ACPI);
    }

    #[test]
    fn an_initramfs_goes_as_high_as_it_may_and_never_into_the_kernel() {
        let layout = Layout::new(256 << 20);
        let place = |size, highest, floor| layout.place_initrd(size, highest, floor);
        assert_eq!(place(PAGE + 1, u64::MAX, KERNEL), Some((256 << 20) - 2 * PAGE));
        assert_eq!(place(PAGE, 0x7ff_ffff, KERNEL), Some((128 << 20) - PAGE));
        assert_eq!(place(PAGE, u64::MAX, 256 << 20), None);
        assert_eq!(place(512 << 20, u64::MAX, KERNEL), None);
        assert_eq!(place(u64::MAX, u64::MAX, KERNEL), None);
        assert_eq!(Layout::new(64 * GIB).place_initrd(PAGE, u64::MAX, KERNEL), Some(HOLE - PAGE));
    }

    #[test]
    fn devices_keep_clear_of_each_other_and_of_the_interrupt_controllers() {
        assert_eq!((device_base(0), device_gsi(0)), (0xd000_0000, 5));
        assert_eq!((device_base(1), device_gsi(1)), (0xd000_1000, 6));
        assert!(device_gsi(DEVICES_MAX - 1) < GSIS && device_base(DEVICES_MAX) < u64::from(IO_APIC));
    }
}
