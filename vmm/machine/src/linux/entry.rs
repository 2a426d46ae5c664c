//! The registers, descriptors and page tables with which the boot vCPU enters the kernel. All other vCPUs wait until
//! the kernel starts them, and need nothing from here.

use super::kernel::Protocol;
use super::layout::{BOOT_PARAMS, GDT, PAGE, PAGE_TABLES, PVH_INFO};
use kvm_bindings::{kvm_dtable, kvm_fpu, kvm_regs, kvm_segment, kvm_sregs};
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

/// The boot protocol's selectors.
const CODE: u16 = 0x10;
const DATA: u16 = 0x18;
const TASK: u16 = 0x20;
/// Flat descriptors: null, unused, 64-bit code, data, and an unused task state.
const DESCRIPTORS: [u64; 5] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x0000_8b00_0000_0067];
const RFLAGS: u64 = 2;
const CR0_PROTECTED: u64 = 1;
const CR0_PAGING: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
/// Long mode enabled, and active.
const EFER_LONG: u64 = 1 << 8 | 1 << 10;
/// Present and writable.
const ENTRY: u64 = 3;
/// A page of 2 MiB instead of a table.
const LARGE: u64 = 1 << 7;
const LARGE_PAGE: u64 = 2 << 20;
const ENTRIES: u64 = 512;
/// The first 4 GiB are mapped one to one (units: GiB).
const MAPPED: u64 = 4;
/// x87 and SSE as after a reset.
const FPU_CONTROL: u16 = 0x37f;
const SSE_CONTROL: u32 = 0x1f80;

/// Writes descriptors and page tables.
pub fn write(memory: &GuestMemoryMmap, protocol: &Protocol) -> Result<(), GuestMemoryError> {
    for (n, descriptor) in DESCRIPTORS.into_iter().enumerate() {
        memory.write_obj(descriptor, GuestAddress(GDT + 8 * n as u64))?;
    }
    match protocol {
        Protocol::Linux64 { .. } => write_page_tables(memory),
        // Entered without paging.
        Protocol::Pvh { .. } => Ok(()),
    }
}

fn write_page_tables(memory: &GuestMemoryMmap) -> Result<(), GuestMemoryError> {
    let (top, middle, bottom) = (PAGE_TABLES, PAGE_TABLES + PAGE, PAGE_TABLES + 2 * PAGE);
    memory.write_obj(middle | ENTRY, GuestAddress(top))?;
    for gib in 0..MAPPED {
        memory.write_obj((bottom + gib * PAGE) | ENTRY, GuestAddress(middle + 8 * gib))?;
    }
    for page in 0..MAPPED * ENTRIES {
        memory.write_obj((page * LARGE_PAGE) | ENTRY | LARGE, GuestAddress(bottom + 8 * page))?;
    }
    Ok(())
}

/// Where the boot vCPU starts, and the address of the boot parameters.
pub fn registers(protocol: &Protocol) -> kvm_regs {
    match protocol {
        Protocol::Linux64 { entry, .. } => {
            kvm_regs { rip: *entry, rsi: BOOT_PARAMS, rflags: RFLAGS, ..Default::default() }
        }
        Protocol::Pvh { entry } => kvm_regs { rip: *entry, rbx: PVH_INFO, rflags: RFLAGS, ..Default::default() },
    }
}

/// Special registers of the boot vCPU, made from those with which KVM creates it.
pub fn special_registers(protocol: &Protocol, made: kvm_sregs) -> kvm_sregs {
    let long = matches!(protocol, Protocol::Linux64 { .. });
    let data = segment(DATA, 3, false);
    let (cr0, cr3, cr4, efer) = match long {
        true => (CR0_PROTECTED | CR0_PAGING, PAGE_TABLES, CR4_PAE, EFER_LONG),
        false => (CR0_PROTECTED, 0, 0, 0),
    };
    kvm_sregs {
        cs: segment(CODE, 11, long),
        ds: data,
        es: data,
        fs: data,
        gs: data,
        ss: data,
        tr: kvm_segment { selector: TASK, type_: 11, limit: 0x67, present: 1, ..Default::default() },
        gdt: kvm_dtable { base: GDT, limit: 8 * DESCRIPTORS.len() as u16 - 1, ..Default::default() },
        idt: kvm_dtable::default(),
        cr0,
        cr3,
        cr4,
        efer,
        ..made
    }
}

/// A flat segment.
fn segment(selector: u16, type_: u8, long: bool) -> kvm_segment {
    kvm_segment {
        selector,
        type_,
        limit: u32::MAX,
        present: 1,
        s: 1,
        g: 1,
        l: long.into(),
        db: (!long).into(),
        ..Default::default()
    }
}

/// Floating point as after a reset.
pub fn fpu() -> kvm_fpu {
    kvm_fpu { fcw: FPU_CONTROL, mxcsr: SSE_CONTROL, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: Protocol = Protocol::Linux64 { entry: 0x10_0200, header: None };
    const PVH: Protocol = Protocol::Pvh { entry: 0x100_0040 };

    /// The physical address to which the tables map an address.
    fn translate(memory: &GuestMemoryMmap, address: u64) -> Option<u64> {
        let entry = |table: u64, shift: u32| {
            let at = (table & !0xfff) + 8 * (address >> shift & (ENTRIES - 1));
            memory.read_obj::<u64>(GuestAddress(at)).ok().filter(|entry| entry & ENTRY == ENTRY)
        };
        let large = entry(entry(entry(PAGE_TABLES, 39)?, 30)?, 21)?;
        (large & LARGE != 0).then_some((large & !(LARGE_PAGE - 1)) + address % LARGE_PAGE)
    }

    #[test]
    fn the_64_bit_entry_finds_4_gib_mapped_one_to_one() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap();
        write(&memory, &LINUX).unwrap();
        for address in [0, 0x10_0200, 0x100_0000, 0x3fff_ffff, 0x4000_0000, (4 << 30) - 1] {
            assert_eq!(translate(&memory, address), Some(address));
        }
        assert_eq!(translate(&memory, 4 << 30), None);
        let registers = special_registers(&LINUX, kvm_sregs::default());
        assert_eq!((registers.cs.selector, registers.cs.l, registers.cs.db), (0x10, 1, 0));
        assert_eq!((registers.cr3, registers.efer), (PAGE_TABLES, 0x500));
        assert_eq!(super::registers(&LINUX).rsi, BOOT_PARAMS);
    }

    #[test]
    fn pvh_starts_in_32_bit_mode_without_paging() {
        let registers = special_registers(&PVH, kvm_sregs::default());
        assert_eq!((registers.cr0, registers.efer, registers.cs.l, registers.cs.db), (1, 0, 0, 1));
        assert_eq!((super::registers(&PVH).rbx, super::registers(&PVH).rip), (PVH_INFO, 0x100_0040));
    }

    #[test]
    fn what_kvm_made_besides_is_kept() {
        let made = kvm_sregs { apic_base: 0xfee0_0900, ..Default::default() };
        assert_eq!(special_registers(&LINUX, made).apic_base, 0xfee0_0900);
    }
}
