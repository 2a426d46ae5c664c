//! The memory that a Linux kernel finds when it is entered: boot parameters, command line, initramfs, ACPI tables.

use super::acpi;
use super::kernel::{LoadError, Protocol};
use super::layout::{ACPI, ACPI_ROOM, BOOT_PARAMS, CMDLINE, PVH_INFO, PVH_MEMORY_MAP, PVH_MODULES, Use};
use super::payload::Payload;
use crate::vm::Range;
use linux_loader::configurator::linux::LinuxBootConfigurator;
use linux_loader::configurator::pvh::PvhBootConfigurator;
use linux_loader::configurator::{BootConfigurator, BootParams};
use linux_loader::loader::bootparam::{LOADED_HIGH, boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::elf::start_info::{hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info};
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

/// Type of boot loader in the boot protocol: a loader without a number of its own.
const OTHER_LOADER: u8 = 0xff;
/// "HdrS", and the version for a kernel that has no header but is entered by the same protocol.
const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"HdrS");
const HEADER_VERSION: u16 = 0x20f;
const BOOT_FLAG: u16 = 0xaa55;
/// Magic number and version of PVH's start information. It has a memory map since version 1.
const PVH_MAGIC: u32 = 0x336e_c578;
const PVH_VERSION: u32 = 1;
/// Types of memory, alike in both protocols' maps.
const MAP_RAM: u32 = 1;
const MAP_RESERVED: u32 = 2;

/// Why guest memory could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The kernel cannot be loaded.
    #[error(transparent)]
    Kernel(#[from] LoadError),
    /// The initramfs cannot be loaded.
    #[error("the initrd {path} cannot be loaded, although it could be when it was checked")]
    Initrd {
        /// The file.
        path: String,
        /// Cause.
        #[source]
        source: GuestMemoryError,
    },
    /// A structure of the monitor does not fit.
    #[error("boot structures do not fit guest memory")]
    Memory(#[from] GuestMemoryError),
    /// A structure of the boot protocol does not fit.
    #[error("boot parameters do not fit guest memory")]
    Params(#[from] linux_loader::configurator::Error),
    /// The ACPI tables do not fit.
    #[error("{bytes} bytes of ACPI tables do not fit the {ACPI_ROOM} there are for them")]
    Acpi {
        /// Size of the tables (units: bytes).
        bytes: usize,
    },
}

/// Writes everything into memory that is still all zeroes. Returns how the kernel is entered.
pub fn prepare(memory: &GuestMemoryMmap, payload: &Payload, machine: &acpi::Machine) -> Result<Protocol, BootError> {
    let protocol = payload.kernel.load(memory)?;
    let initrd = payload.initrd.as_ref().map(|(_, range)| *range);
    if let Some((file, range)) = &payload.initrd {
        let path = || file.path().display().to_string();
        file.load(memory, range.start).map_err(|source| BootError::Initrd { path: path(), source })?;
    }
    memory.write_slice(payload.cmdline.as_str().as_bytes(), GuestAddress(CMDLINE))?;
    let tables = acpi::tables(machine, ACPI);
    if tables.len() as u64 > ACPI_ROOM {
        return Err(BootError::Acpi { bytes: tables.len() });
    }
    memory.write_slice(&tables, GuestAddress(ACPI))?;
    match &protocol {
        Protocol::Linux64 { header, .. } => {
            let params = linux_params(payload, *header, initrd);
            LinuxBootConfigurator::write_bootparams(&BootParams::new(&params, GuestAddress(BOOT_PARAMS)), memory)?;
        }
        Protocol::Pvh { .. } => write_pvh(memory, payload, initrd)?,
    }
    Ok(protocol)
}

/// Makes the boot protocol's "zero page".
fn linux_params(payload: &Payload, header: Option<setup_header>, initrd: Option<Range>) -> boot_params {
    let mut params = boot_params {
        hdr: header.unwrap_or(setup_header {
            boot_flag: BOOT_FLAG,
            header: HEADER_MAGIC,
            version: HEADER_VERSION,
            loadflags: LOADED_HIGH,
            ..Default::default()
        }),
        acpi_rsdp_addr: ACPI,
        ..Default::default()
    };
    params.hdr.type_of_loader = OTHER_LOADER;
    params.hdr.cmd_line_ptr = CMDLINE as u32;
    if let Some(range) = initrd {
        // This is below the hole, and so below 4 GiB.
        params.hdr.ramdisk_image = range.start as u32;
        params.hdr.ramdisk_size = (range.end - range.start) as u32;
    }
    let map = payload.layout.map();
    params.e820_entries = map.len() as u8;
    for (entry, (range, what)) in params.e820_table.iter_mut().zip(map) {
        *entry = boot_e820_entry { addr: range.start, size: range.end - range.start, r#type: kind(what) };
    }
    params
}

fn write_pvh(memory: &GuestMemoryMmap, payload: &Payload, initrd: Option<Range>) -> Result<(), BootError> {
    let map: Vec<_> = payload.layout.map().into_iter().map(|(range, what)| pvh_entry(range, what)).collect();
    let mut info = hvm_start_info {
        magic: PVH_MAGIC,
        version: PVH_VERSION,
        cmdline_paddr: CMDLINE,
        rsdp_paddr: ACPI,
        memmap_paddr: PVH_MEMORY_MAP,
        memmap_entries: map.len() as u32,
        ..Default::default()
    };
    if let Some(range) = initrd {
        let module = hvm_modlist_entry { paddr: range.start, size: range.end - range.start, ..Default::default() };
        memory.write_obj(module, GuestAddress(PVH_MODULES))?;
        (info.nr_modules, info.modlist_paddr) = (1, PVH_MODULES);
    }
    let mut params = BootParams::new(&info, GuestAddress(PVH_INFO));
    params.set_sections(&map, GuestAddress(PVH_MEMORY_MAP));
    Ok(PvhBootConfigurator::write_bootparams(&params, memory)?)
}

fn pvh_entry(range: Range, what: Use) -> hvm_memmap_table_entry {
    hvm_memmap_table_entry { addr: range.start, size: range.end - range.start, type_: kind(what), reserved: 0 }
}

fn kind(what: Use) -> u32 {
    match what {
        Use::Ram => MAP_RAM,
        Use::Reserved => MAP_RESERVED,
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::forge;
    use super::*;
    use std::fs;

    fn prepared(kernel: &[u8], memory: u64) -> (GuestMemoryMmap, Protocol) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("kernel"), kernel).unwrap();
        fs::write(at("initrd"), b"070701 and so on").unwrap();
        let payload = Payload::open(&at("kernel"), Some(&at("initrd")), "quiet", memory).unwrap();
        let guest = GuestMemoryMmap::from_ranges(&payload.layout.regions()).unwrap();
        let protocol = prepare(&guest, &payload, &acpi::Machine { vcpus: 2, devices: 1 }).unwrap();
        (guest, protocol)
    }

    fn text(memory: &GuestMemoryMmap, at: u64, length: usize) -> String {
        let mut bytes = vec![0; length];
        memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    const LINE: &str = "console=ttyS0 panic=-1 reboot=panic_warm quiet\0";

    #[test]
    fn a_bzimage_finds_memory_initramfs_command_line_and_acpi_in_the_zero_page() {
        for size in [64 << 20, 8 << 30] {
            let (memory, protocol) = prepared(&forge::bzimage(|_| ()), size);
            assert!(matches!(protocol, Protocol::Linux64 { .. }));
            let params: boot_params = memory.read_obj(GuestAddress(BOOT_PARAMS)).unwrap();
            let header = params.hdr;
            assert_eq!(({ header.header }, { header.version }), (HEADER_MAGIC, 0x20f));
            assert_eq!((header.type_of_loader, params.acpi_rsdp_addr), (0xff, ACPI));
            assert_eq!(text(&memory, header.cmd_line_ptr.into(), LINE.len()), LINE);
            assert_eq!({ header.ramdisk_size }, 16);
            assert_eq!(text(&memory, header.ramdisk_image.into(), 16), "070701 and so on");
            let map = &params.e820_table[..params.e820_entries.into()];
            let ram: u64 = map.iter().filter(|e| e.r#type == MAP_RAM).map(|e| e.size).sum();
            let reserved: u64 = map.iter().filter(|e| e.r#type == MAP_RESERVED).map(|e| e.size).sum();
            assert_eq!((ram + reserved, map.len()), (size, if size > 4 << 30 { 4 } else { 3 }));
        }
    }

    #[test]
    fn a_pvh_kernel_finds_the_same_in_its_start_info() {
        let (memory, protocol) = prepared(&forge::vmlinux(&forge::segments()), 64 << 20);
        assert!(matches!(protocol, Protocol::Pvh { .. }));
        let info: hvm_start_info = memory.read_obj(GuestAddress(PVH_INFO)).unwrap();
        assert_eq!((info.magic, info.version, info.rsdp_paddr, info.nr_modules), (PVH_MAGIC, 1, ACPI, 1));
        assert_eq!(text(&memory, info.cmdline_paddr, LINE.len()), LINE);
        let module: hvm_modlist_entry = memory.read_obj(GuestAddress(info.modlist_paddr)).unwrap();
        assert_eq!((module.size, text(&memory, module.paddr, 6)), (16, "070701".to_owned()));
        let first: hvm_memmap_table_entry = memory.read_obj(GuestAddress(info.memmap_paddr)).unwrap();
        assert_eq!((info.memmap_entries, first.addr, first.type_), (3, 0, MAP_RAM));
    }

    #[test]
    fn a_vmlinux_without_pvh_finds_a_zero_page_too() {
        let (memory, protocol) = prepared(&forge::vmlinux(&forge::segments()[..1]), 64 << 20);
        assert!(matches!(protocol, Protocol::Linux64 { header: None, .. }));
        let params: boot_params = memory.read_obj(GuestAddress(BOOT_PARAMS)).unwrap();
        assert_eq!(({ params.hdr.header }, { params.hdr.ramdisk_size }), (HEADER_MAGIC, 16));
    }
}
