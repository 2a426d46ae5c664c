//! Kernel files made for tests: valid ones, and ones with changes.

use super::bzimage::{BOOT_FLAG, HEADER_AT, MAGIC};
use super::elf::PVH_NOTE;
use linux_loader::loader::bootparam::setup_header;
use vm_memory::ByteValued;

/// End of the memory that the forged bzImage asks for.
pub(in crate::linux) const END: u64 = 0x100_0000 + INIT_SIZE as u64;
const INIT_SIZE: u32 = 0x80_0000;
/// Bytes that the forged bzImage reads of its command line.
pub(in crate::linux) const CMDLINE_SIZE: u32 = 2047;
/// Sectors of real-mode code besides the first.
const SETUP_SECTORS: u8 = 1;
const SETUP: usize = 1024;
const CODE: usize = 4096;

/// A bzImage with a header that a test may change.
pub(in crate::linux) fn bzimage(change: impl FnOnce(&mut setup_header)) -> Vec<u8> {
    let mut header = setup_header {
        setup_sects: SETUP_SECTORS,
        boot_flag: BOOT_FLAG,
        header: MAGIC,
        version: 0x20f,
        loadflags: 1,
        code32_start: 0x10_0000,
        syssize: (CODE / 16) as u32,
        initrd_addr_max: 0x7fff_ffff,
        kernel_alignment: 0x20_0000,
        relocatable_kernel: 1,
        xloadflags: 1,
        cmdline_size: CMDLINE_SIZE,
        payload_offset: 0x400,
        payload_length: 0x800,
        pref_address: 0x100_0000,
        init_size: INIT_SIZE,
        ..Default::default()
    };
    change(&mut header);
    let mut file = vec![0; SETUP + CODE];
    let at = HEADER_AT as usize;
    file[at..at + size_of::<setup_header>()].copy_from_slice(header.as_slice());
    file[SETUP..].fill(0x90);
    file
}

/// One of the forged vmlinux's program headers.
#[derive(Clone, Copy)]
pub(in crate::linux) struct Segment {
    pub(in crate::linux) kind: u32,
    pub(in crate::linux) offset: u64,
    pub(in crate::linux) start: u64,
    pub(in crate::linux) in_file: u64,
    pub(in crate::linux) in_memory: u64,
    pub(in crate::linux) align: u64,
}

/// Address at which the forged vmlinux is loaded and entered.
pub(in crate::linux) const VMLINUX: u64 = 0x100_0000;
const TEXT: u64 = 0x1000;
const NOTE: u64 = 0x800;

/// The segments of a vmlinux: code, and a note with the PVH entry.
pub(in crate::linux) fn segments() -> Vec<Segment> {
    vec![
        Segment { kind: 1, offset: TEXT, start: VMLINUX, in_file: 0x1000, in_memory: 0x3000, align: 0x20_0000 },
        Segment { kind: 4, offset: NOTE, start: 0, in_file: 20, in_memory: 20, align: 4 },
    ]
}

/// A vmlinux of these segments.
pub(in crate::linux) fn vmlinux(segments: &[Segment]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let words = |file: &mut Vec<u8>, words: &[u64]| words.iter().for_each(|word| file.extend(word.to_le_bytes()));
    // Executable, x86-64, version 1.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    words(&mut file, &[VMLINUX, 64, 0]);
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, segments.len() as u8, 0, 64, 0, 0, 0, 0, 0]);
    for s in segments {
        file.extend(s.kind.to_le_bytes());
        file.extend(5u32.to_le_bytes());
        words(&mut file, &[s.offset, s.start, s.start, s.in_file, s.in_memory, s.align]);
    }
    file.resize(NOTE as usize, 0);
    for word in [4, 4, PVH_NOTE] {
        file.extend(word.to_le_bytes());
    }
    file.extend(b"Xen\0");
    file.extend((VMLINUX as u32 + 0x40).to_le_bytes());
    file.resize(TEXT as usize, 0);
    file.resize(TEXT as usize + 0x1000, 0x90);
    file
}
