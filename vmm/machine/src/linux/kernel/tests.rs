//! Files that are kernels, damaged kernels, and files that only look like kernels.

use super::forge::{self, Segment, VMLINUX, segments};
use super::*;
use linux_loader::loader::bootparam::setup_header;
use proptest::prelude::*;
use std::fs;
use vm_memory::Bytes;

fn open(bytes: &[u8]) -> Result<Kernel, KernelError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    Kernel::open(file.path())
}

#[track_caller]
fn refused(bytes: &[u8], told: &[&str]) {
    let error = open(bytes).expect_err("refused").to_string();
    for words in told {
        assert!(error.contains(words), "no `{words}` in: {error}");
    }
}

#[track_caller]
fn refused_header(change: impl FnOnce(&mut setup_header), told: &[&str]) {
    refused(&forge::bzimage(change), told);
}

#[track_caller]
fn refused_segments(change: impl FnOnce(&mut Vec<Segment>), told: &[&str]) {
    let mut segments = segments();
    change(&mut segments);
    refused(&forge::vmlinux(&segments), told);
}

fn memory(mib: usize) -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), mib << 20)]).unwrap()
}

#[test]
fn a_bzimage_is_loaded_at_1_mib_and_entered_behind_its_first_sector() {
    let kernel = open(&forge::bzimage(|_| ())).unwrap();
    assert_eq!((kernel.end(), kernel.cmdline_max(), kernel.initrd_last()), (forge::END, 2047, 0x7fff_ffff));
    let memory = memory(32);
    let Protocol::Linux64 { entry, header: Some(header) } = kernel.load(&memory).unwrap() else { panic!("64-bit") };
    assert_eq!((entry, { header.version }), (KERNEL + 0x200, 0x20f));
    let mut code = [0; 4097];
    memory.read_slice(&mut code, GuestAddress(KERNEL)).unwrap();
    assert!(code[..4096].iter().all(|byte| *byte == 0x90) && code[4096] == 0);
}

#[test]
fn a_vmlinux_is_loaded_where_it_says_and_entered_by_pvh_or_in_64_bit_mode() {
    let kernel = open(&forge::vmlinux(&segments())).unwrap();
    assert_eq!((kernel.end(), kernel.cmdline_max()), (VMLINUX + 0x3000, 2047));
    let memory = memory(32);
    assert!(matches!(kernel.load(&memory).unwrap(), Protocol::Pvh { entry } if entry == VMLINUX + 0x40));
    assert_eq!(memory.read_obj::<u8>(GuestAddress(VMLINUX)).unwrap(), 0x90);
    let without_note = forge::vmlinux(&segments()[..1]);
    let protocol = open(&without_note).unwrap().load(&memory).unwrap();
    assert!(matches!(protocol, Protocol::Linux64 { entry: VMLINUX, header: None }));
}

#[test]
fn what_is_no_kernel_at_all_is_refused() {
    refused(b"#!/bin/sh\n", &["neither a bzImage nor an ELF file"]);
    refused(&vec![0; 4096], &["neither"]);
    refused(b"", &["empty"]);
    assert!(Kernel::open(Path::new("/")).unwrap_err().to_string().contains("directory"));
    assert!(Kernel::open(Path::new("/none")).unwrap_err().to_string().contains("cannot be opened"));
}

#[test]
fn a_bzimage_that_is_cut_short_is_refused_wherever_it_is_cut() {
    let whole = forge::bzimage(|_| ());
    refused(&whole[..600], &["neither"]);
    refused(&whole[..1024], &["truncated", "real-mode code", "1024"]);
    refused(&whole[..2000], &["truncated", "syssize", "5120", "has 2000"]);
    // The last paragraph may be incomplete.
    assert!(open(&whole[..whole.len() - 15]).is_ok());
    refused(&whole[..whole.len() - 16], &["truncated"]);
}

#[test]
fn a_bzimage_that_lies_about_sizes_is_refused() {
    refused_header(|h| h.syssize = u32::MAX, &["truncated", "syssize", "68719477744"]);
    refused_header(|h| h.syssize = 0, &["syssize", "0 bytes"]);
    refused_header(|h| h.setup_sects = 255, &["truncated", "real-mode code", "131072"]);
    refused_header(|h| h.payload_length = u32::MAX, &["truncated", "payload_length"]);
    refused_header(|h| h.init_size = u32::MAX, &["cannot be right", "init_size"]);
    refused_header(|h| h.pref_address = u64::MAX, &["cannot be right", "pref_address"]);
    refused_header(|h| h.kernel_alignment = 0, &["kernel_alignment"]);
}

#[test]
fn a_bzimage_without_a_64_bit_entry_is_refused_with_why() {
    refused_header(|h| h.version = 0x20b, &["without a 64-bit entry", "2.11"]);
    refused_header(|h| h.xloadflags = 0, &["32-bit CPUs"]);
    refused_header(|h| h.loadflags = 0, &["zImage"]);
    refused_header(|h| h.code32_start = 0x1000, &["zImage"]);
}

#[test]
fn a_vmlinux_that_is_cut_short_is_refused_wherever_it_is_cut() {
    let whole = forge::vmlinux(&segments());
    refused(&whole[..10], &["truncated", "ELF header"]);
    refused(&whole[..100], &["truncated", "program headers"]);
    refused(&whole[..0x804], &["truncated", "segment 0", "8192"]);
    refused(&whole[..whole.len() - 1], &["truncated", "segment 0", "has 8191"]);
}

#[test]
fn a_vmlinux_that_lies_about_sizes_or_places_is_refused() {
    refused_segments(|s| s[0].in_file = u64::MAX, &["truncated", "segment 0"]);
    refused_segments(|s| s[0].in_memory = 0x800, &["more bytes in the file than in memory"]);
    refused_segments(|s| s[0].in_memory = u64::MAX, &["segment 0", "outside 0x100000"]);
    refused_segments(|s| s[0].start = 0, &["outside 0x100000"]);
    refused_segments(|s| s[0].align = 0x1000, &["aligned"]);
    refused_segments(|s| s[0].start = VMLINUX + 0x20_0000, &["entry point", "in no segment"]);
    refused_segments(|s| s[1].in_file = 1 << 40, &["notes take 1099511627776 bytes"]);
    refused_segments(|s| s[1].offset = 1 << 40, &["truncated", "notes"]);
    let mut many = forge::vmlinux(&segments());
    many[56..58].copy_from_slice(&[0xff, 0xff]);
    refused(&many, &["65535 program headers"]);
    many[56..58].copy_from_slice(&[0xfe, 0xff]);
    refused(&many, &["truncated", "program headers"]);
}

#[test]
fn a_vmlinux_for_another_cpu_is_refused_with_which() {
    let mut foreign = forge::vmlinux(&segments());
    // AArch64.
    foreign[18] = 183;
    refused(&foreign, &["machine type 183"]);
}

#[test]
fn every_refusal_says_what_to_do() {
    for bytes in [&b"#!"[..], b"", &forge::bzimage(|h| h.xloadflags = 0), &forge::bzimage(|h| h.syssize = 0)] {
        assert!(!open(bytes).unwrap_err().remedy().is_empty());
    }
}

proptest! {
    // Whatever is accepted can be loaded, and no kernel asks for more memory than there is.
    #[test]
    fn a_bzimage_with_any_header_is_refused_or_loads(at in 0x1f1usize..0x270, bytes in prop::collection::vec(any::<u8>(), 1..9)) {
        let mut file = forge::bzimage(|_| ());
        file[at..at + bytes.len()].copy_from_slice(&bytes);
        if let Ok(kernel) = open(&file) && kernel.end() <= 64 << 20 {
            prop_assert!(kernel.load(&memory(64)).is_ok());
        }
    }

    #[test]
    fn a_vmlinux_with_any_header_is_refused_or_loads(at in 0usize..176, bytes in prop::collection::vec(any::<u8>(), 1..9)) {
        let mut file = forge::vmlinux(&segments());
        file[at..at + bytes.len()].copy_from_slice(&bytes);
        if let Ok(kernel) = open(&file) && kernel.end() <= 64 << 20 {
            prop_assert!(kernel.load(&memory(64)).is_ok());
        }
    }
}
