//! The memory and registers with which a unikernel guest starts.
//!
//! vCPUs start at CPL 3 in 64-bit mode. The program never runs in ring 0, so it runs natively also on hosts that
//! emulate ring 0. Port output needs two permissions, because hosts differ in which one they honour: I/O privilege
//! level 3 in RFLAGS, and a task-state segment with a clear I/O bitmap. Exceptions enter ring 0 at stubs of one
//! instruction that tell the monitor the vector. The program does not return from there.

use super::image::Image;
use super::layout::{GDT, IDT, Layout, PAGE, STUBS, TSS_STRIDE};
use super::paging::{PageTables, PagingError, Rights};
use crate::vm::Range;
use kvm_bindings::{kvm_dtable, kvm_regs, kvm_segment, kvm_sregs};
use stile_abi::{BOOT_INFO_GPA, BootInfo, CMDLINE_MAX, CallBlock, Gauge, MAGIC, Steal, VERSION, port};
use vm_memory::{ByteValued, Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

const KERNEL_CODE: u16 = 0x08;
const USER_DATA: u16 = 0x18 | 3;
const USER_CODE: u16 = 0x20 | 3;
const TSS_SELECTOR: u16 = 0x28;
/// Flat descriptors, as the SDM's volume 3 lays them out: null, ring-0 code, ring-0 data, ring-3 data, ring-3 code.
const DESCRIPTORS: [u64; 5] =
    [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x00cf_f300_0000_ffff, 0x00af_fb00_0000_ffff];
const VECTORS: u64 = 32;
const BREAKPOINT: u64 = 3;
const STUB_BYTES: u64 = 4;
const TSS_HEADER: u64 = 104;
/// The bitmap covers the ports below this one; the others are denied.
const IO_PORTS: u64 = 0x600;

/// The interrupt flag is set, though no interrupt reaches these guests. An interrupt of the host ends a run whatever
/// the flag is, but Bochs' VMX holds it back while the guest's flag is clear.
const RFLAGS: u64 = 0x2 | 1 << 9 | 3 << 12;
const CR0: u64 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 31;
const CR4: u64 = 1 << 5 | 1 << 9 | 1 << 10;
const EFER: u64 = 1 << 8 | 1 << 10 | 1 << 11;

/// Guest memory could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A structure lies outside memory.
    #[error("boot structures do not fit guest memory")]
    Memory(#[from] GuestMemoryError),
    /// The page tables cannot be built.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// The command line is too long.
    #[error("command line of {0} bytes is longer than {CMDLINE_MAX}")]
    Cmdline(usize),
}

/// Contents of the boot page that do not follow from the layout.
#[derive(Debug, Clone, Copy)]
pub struct BootParams<'a> {
    /// Command line.
    pub cmdline: &'a str,
    /// TSC frequency (units: kHz).
    pub tsc_khz: u32,
    /// Address of the device's registers, if there is a device.
    pub device_mmio: Option<u64>,
}

/// Wraps [`BootInfo`] for writing to guest memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Page(BootInfo);

#[allow(unsafe_code, reason = "a promise about layout")]
// SAFETY: BootInfo is repr(C) without padding (the ABI crate keeps unused words for that) and of plain integers.
unsafe impl ByteValued for Page {}

/// Writes all boot structures into memory that is still all zeroes. Returns the address of the page-table root.
pub fn prepare(
    memory: &GuestMemoryMmap,
    layout: &Layout,
    image: &Image<'_>,
    params: &BootParams<'_>,
) -> Result<u64, BootError> {
    image.load(memory)?;
    memory.write_obj(boot_info(layout, params)?, GuestAddress(BOOT_INFO_GPA))?;
    write_tables(memory)?;
    (0..layout.vcpus).try_for_each(|vcpu| write_tss(memory, layout.tss(vcpu)))?;
    map(memory, layout, image, params)
}

fn boot_info(layout: &Layout, params: &BootParams<'_>) -> Result<Page, BootError> {
    let mut cmdline = [0; CMDLINE_MAX];
    let text = params.cmdline.as_bytes();
    cmdline.get_mut(..text.len()).ok_or(BootError::Cmdline(text.len()))?.copy_from_slice(text);
    Ok(Page(BootInfo {
        magic: MAGIC,
        version: VERSION,
        boot_info_size: size_of::<BootInfo>() as u32,
        call_block_size: size_of::<CallBlock>() as u32,
        gauge_size: size_of::<Gauge>() as u32,
        steal_size: size_of::<Steal>() as u32,
        unused: 0,
        vcpus: layout.vcpus,
        tsc_khz: params.tsc_khz,
        calls: layout.calls.start,
        gauges: layout.gauges.start,
        steals: layout.steals.start,
        heap_start: layout.heap.start,
        heap_end: layout.heap.end,
        device_mmio: params.device_mmio.unwrap_or(0),
        cmdline_len: text.len() as u32,
        reserved: 0,
        cmdline,
    }))
}

/// Writes descriptor tables and exception stubs.
fn write_tables(memory: &GuestMemoryMmap) -> Result<(), GuestMemoryError> {
    for (i, descriptor) in DESCRIPTORS.iter().enumerate() {
        memory.write_obj(*descriptor, GuestAddress(GDT + 8 * i as u64))?;
    }
    for vector in 0..VECTORS {
        let stub = STUBS + vector * STUB_BYTES;
        // out imm8, al; hlt
        memory.write_slice(&[0xe6, port::FAULT as u8 + vector as u8, 0xf4], GuestAddress(stub))?;
        // Present 64-bit interrupt gate. The program itself may raise a breakpoint only.
        let kind: u64 = if vector == BREAKPOINT { 0xee } else { 0x8e };
        let gate = stub & 0xffff | u64::from(KERNEL_CODE) << 16 | kind << 40 | (stub >> 16 & 0xffff) << 48;
        memory.write_obj(gate, GuestAddress(IDT + vector * 16))?;
    }
    Ok(())
}

/// Writes a task-state segment: ring-0 stack at the end of its area, all ports below [`IO_PORTS`] allowed.
fn write_tss(memory: &GuestMemoryMmap, tss: u64) -> Result<(), GuestMemoryError> {
    memory.write_obj(tss + TSS_STRIDE, GuestAddress(tss + 4))?;
    memory.write_obj(TSS_HEADER as u16, GuestAddress(tss + 102))?;
    // The CPU requires a byte of ones after the bitmap.
    memory.write_obj(0xffu8, GuestAddress(tss + TSS_HEADER + IO_PORTS / 8))
}

fn map(
    memory: &GuestMemoryMmap,
    layout: &Layout,
    image: &Image<'_>,
    params: &BootParams<'_>,
) -> Result<u64, BootError> {
    let mut tables = PageTables::new(memory, layout.tables)?;
    let page = |start| Range { start, end: start + PAGE };
    tables.map(page(BOOT_INFO_GPA), Rights::Read)?;
    tables.map(Range { start: GDT, end: layout.tables.start }, Rights::System)?;
    for segment in &image.segments {
        let rights = match (segment.write, segment.execute) {
            (true, _) => Rights::Write,
            (false, true) => Rights::Execute,
            (false, false) => Rights::Read,
        };
        let start = segment.start & !(PAGE - 1);
        tables.map(Range { start, end: (segment.start + segment.size).next_multiple_of(PAGE) }, rights)?;
    }
    tables.map(Range { start: layout.calls.start, end: layout.stacks.start }, Rights::Write)?;
    (0..layout.vcpus).try_for_each(|vcpu| tables.map(layout.stack(vcpu), Rights::Write))?;
    tables.map(layout.heap, Rights::Write)?;
    if let Some(registers) = params.device_mmio {
        tables.map(page(registers), Rights::Device)?;
    }
    Ok(tables.root())
}

/// Special registers of a vCPU, made from those with which KVM creates it.
pub fn special_registers(layout: &Layout, vcpu: u32, root: u64, made: kvm_sregs) -> kvm_sregs {
    let flat = |selector, kind, long: bool| kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector,
        type_: kind,
        present: 1,
        dpl: 3,
        db: u8::from(!long),
        s: 1,
        l: u8::from(long),
        g: 1,
        ..Default::default()
    };
    let data = flat(USER_DATA, 3, false);
    let tss = kvm_segment {
        base: layout.tss(vcpu),
        limit: (TSS_HEADER + IO_PORTS / 8) as u32,
        selector: TSS_SELECTOR,
        type_: 11,
        present: 1,
        ..Default::default()
    };
    kvm_sregs {
        cs: flat(USER_CODE, 11, true),
        ds: data,
        es: data,
        fs: data,
        gs: data,
        ss: data,
        tr: tss,
        gdt: kvm_dtable { base: GDT, limit: 8 * DESCRIPTORS.len() as u16 - 1, ..Default::default() },
        idt: kvm_dtable { base: IDT, limit: 16 * VECTORS as u16 - 1, ..Default::default() },
        cr0: CR0,
        cr3: root,
        cr4: CR4,
        efer: EFER,
        ..made
    }
}

/// General registers of a vCPU.
pub fn registers(layout: &Layout, vcpu: u32, entry: u64) -> kvm_regs {
    kvm_regs {
        rip: entry,
        rsp: layout.stack(vcpu).end,
        rdi: BOOT_INFO_GPA,
        rsi: u64::from(vcpu),
        rflags: RFLAGS,
        ..Default::default()
    }
}
