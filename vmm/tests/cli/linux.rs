//! Linux guests on the command line: refused files and keys, and how a guest ends the program. The kernels here are
//! forged. The hardware lane shows that real ones boot.

use super::program::{folder, output, refused, stile};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where a bzImage's code is entered, in the file.
const ENTRY: usize = 1024 + 0x200;
/// ```text
///       lea  rsi, [words]
///       mov  dx, 0x3f8        the serial port
/// next: mov  al, [rsi]
///       inc  rsi
///       test al, al
///       jz   done
///       out  dx, al
///       jmp  next
/// done: hlt
///       jmp  done
/// words:
/// ```
const SAY: [u8; 26] = [
    0x48, 0x8d, 0x35, 0x13, 0x00, 0x00, 0x00, 0x66, 0xba, 0xf8, 0x03, 0x8a, 0x06, 0x48, 0xff, 0xc6, 0x84, 0xc0, 0x74,
    0x03, 0xee, 0xeb, 0xf4, 0xf4, 0xeb, 0xfd,
];

/// A kernel that does this.
pub(crate) fn kernel_of(code: &[u8]) -> Vec<u8> {
    let mut kernel = kernel();
    kernel[ENTRY..ENTRY + code.len()].copy_from_slice(code);
    kernel
}

/// A kernel that is accepted: a bzImage's header of the right length.
fn kernel() -> Vec<u8> {
    let mut file = vec![0x90; 1024 + 4096];
    file[0x1f1..0x270].fill(0);
    let fields: [(usize, &[u8]); 12] = [
        (0x1f1, &[1]),
        (0x1f4, &256u32.to_le_bytes()),
        (0x1fe, &[0x55, 0xaa]),
        (0x202, b"HdrS"),
        (0x206, &[0x0f, 2]),
        (0x211, &[1]),
        (0x214, &0x10_0000u32.to_le_bytes()),
        (0x22c, &0x7fff_ffffu32.to_le_bytes()),
        (0x230, &0x20_0000u32.to_le_bytes()),
        (0x236, &[1, 0]),
        (0x238, &2047u32.to_le_bytes()),
        (0x258, &0x100_0000u64.to_le_bytes()),
    ];
    for (at, bytes) in fields {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }
    // init_size.
    file[0x260..0x264].copy_from_slice(&0x80_0000u32.to_le_bytes());
    file
}

/// A folder with a configuration that has these keys, a valid kernel and a valid initramfs.
fn with(keys: &str) -> TempDir {
    let folder = folder(&format!("[[vm]]\nname = \"tux\"\n{keys}\n"));
    fs::write(folder.path().join("vmlinuz"), kernel()).expect("the folder is this test's own");
    fs::write(folder.path().join("initrd"), b"070701").expect("as above");
    folder
}

/// A folder with a configuration of one guest with this kernel.
pub(crate) fn with_kernel(kernel: &[u8]) -> TempDir {
    let folder = with("kernel = \"vmlinuz\"\nmemory = \"64M\"");
    fs::write(folder.path().join("vmlinuz"), kernel).expect("the folder is this test's own");
    folder
}

#[track_caller]
fn refused_keys(keys: &str, told: &[&str]) {
    refused(with(keys).path(), told);
}

/// The result with this in place of the kernel.
#[track_caller]
fn refused_kernel(bytes: &[u8], told: &[&str]) {
    let folder = with_kernel(bytes);
    refused(folder.path(), &[told, &["VM tux", "kernel", "vmlinuz"]].concat());
}

#[test]
fn a_sound_linux_guest_is_told_as_any_other() {
    let keys = "kernel = \"vmlinuz\"\ninitrd = \"initrd\"\nvcpus = 64\nmemory = \"64G\"\ncmdline = \"quiet\"\n";
    // Only interrupt controllers in the kernel decide what carries the vCPUs.
    for (interrupts, policy) in [("kernel", "under rsdl:leases\n"), ("user", "under rsdl\n"), ("auto", "under rsdl\n")]
    {
        let folder = with(&format!("{keys}interrupts = \"{interrupts}\""));
        let (status, stdout, stderr) = output(stile(folder.path(), &["check", "stile.toml"]));
        assert_eq!(status, Some(0), "{stderr}");
        assert!(stdout.contains("1 VM with 64 vCPUs") && stdout.contains(policy), "{stdout}");
    }
}

#[test]
fn kernels_that_are_none_are_refused_with_file_fact_and_remedy() {
    let whole = kernel();
    refused_kernel(b"#!/bin/sh\n", &["neither a bzImage nor an ELF file", "/boot/vmlinuz"]);
    refused_kernel(b"", &["is empty", "fetch it again"]);
    refused_kernel(&whole[..2000], &["truncated", "syssize", "5120", "has 2000", "again"]);
    refused_kernel(b"\x7fELF\x02\x01\x01", &["truncated", "ELF header"]);
    let mut lies = whole.clone();
    lies[0x1f4..0x1f8].fill(0xff);
    refused_kernel(&lies, &["truncated", "68719477744"]);
    let mut greedy = whole;
    greedy[0x258..0x264].fill(0xff);
    refused_kernel(&greedy, &["cannot be right", "init_size"]);
}

#[test]
fn files_that_are_not_there_or_none_are_refused_at_their_line() {
    refused_keys("kernel = \"none\"", &["stile.toml:3:10", "vm[0].kernel", "none does not exist"]);
    refused_keys("kernel = \"/\"", &["vm[0].kernel", "/ is not a file"]);
    refused_keys("kernel = \"vmlinuz\"\ninitrd = \"/tmp\"", &["stile.toml:4:10", "vm[0].initrd", "not a file"]);
    refused_keys("kernel = \"\"", &["names no file"]);
}

#[test]
fn an_initramfs_that_is_none_or_too_large_is_refused_with_what_would_do() {
    let linux = "kernel = \"vmlinuz\"\ninitrd = \"initrd\"\nmemory = \"32M\"";
    let folder = with(linux);
    fs::write(folder.path().join("initrd"), b"garbage").expect("the folder is this test's own");
    refused(folder.path(), &["VM tux", "initrd", "no cpio archive", "newc"]);
    // Only its start is read.
    let large = fs::File::create(folder.path().join("initrd")).expect("as above");
    std::io::Write::write_all(&mut &large, b"070701").expect("as above");
    large.set_len(1 << 40).expect("files may have holes");
    refused(folder.path(), &["of 1048576 MiB", "32 MiB", "set `memory`"]);
}

#[test]
fn memory_too_small_for_the_kernel_is_refused_with_what_is_needed() {
    refused_keys("kernel = \"vmlinuz\"\nmemory = \"16M\"", &["VM tux", "needs 24 MiB", "16 MiB", "\"24M\" at least"]);
}

#[test]
fn a_command_line_longer_than_the_kernel_reads_is_refused_with_its_limit() {
    let long = |length| format!("kernel = \"vmlinuz\"\ncmdline = \"{}\"", "x".repeat(length));
    refused_keys(&long(2040), &["VM tux", "reads 2047", "shorten `cmdline`"]);
    assert_eq!(output(stile(with(&long(1990)).path(), &["check", "stile.toml"])).0, Some(0));
}

#[test]
fn keys_of_one_kind_of_guest_are_refused_on_the_other() {
    refused_keys("", &["vm[0].image", "`image` and `kernel`"]);
    refused_keys("image = \"builtin:hello\"\nkernel = \"vmlinuz\"", &["stile.toml:4:10", "not both"]);
    refused_keys("image = \"builtin:hello\"\ninitrd = \"initrd\"", &["stile.toml:4:10", "only a Linux guest"]);
    refused_keys("image = \"builtin:hello\"\nmemory = \"4G\"", &["stile.toml:4:10", "4M to 3328M"]);
    refused_keys("kernel = \"vmlinuz\"\nvcpus = 65", &["stile.toml:4:9", "1 to 64"]);
    refused_keys("image = \"builtin:hello\"\ninterrupts = \"user\"", &["stile.toml:4:14", "only a Linux guest"]);
}

#[test]
fn executors_carry_linux_guests_whose_interrupt_controllers_are_not_in_the_kernel() {
    let inside = "kernel = \"vmlinuz\"\ninterrupts = \"kernel\"\n[policy]\nmechanism = \"executors\"";
    refused_keys(inside, &["stile.toml:4:14", "vm[0].interrupts", "executors", "\"user\"", "\"leases\""]);
    let accepted = [
        "[policy]\nmechanism = \"executors\"",
        "interrupts = \"user\"\n[policy]\nmechanism = \"executors\"",
        "interrupts = \"user\"\n[policy]\nmechanism = \"leases\"",
        "interrupts = \"kernel\"\n[policy]\nmechanism = \"leases\"",
        // The host carries its own threads.
        "interrupts = \"kernel\"\n[policy]\nalgorithm = \"host\"\nmechanism = \"executors\"",
    ];
    for keys in accepted {
        let folder = with(&format!("kernel = \"vmlinuz\"\n{keys}"));
        assert_eq!(output(stile(folder.path(), &["check", "stile.toml"])).0, Some(0), "{keys}");
    }
}

#[test]
fn on_a_host_whose_kvm_cannot_carry_linux_that_is_said_at_once_with_what_to_do() {
    if stile_host::backend() != stile_host::Backend::Pvm {
        eprintln!("skipped: only where KVM is kvm_pvm");
        return;
    }
    let folder = with("kernel = \"vmlinuz\"\ninitrd = \"initrd\"");
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml"]));
    assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
    for words in ["kvm_pvm", "VMX or SVM", "scripts/hardware-lane", "--try-linux"] {
        assert!(stderr.contains(words), "no `{words}` in: {stderr}");
    }
}

#[test]
fn a_comparison_of_linux_guests_is_refused_at_once_where_none_can_run() {
    if stile_host::backend() != stile_host::Backend::Pvm {
        eprintln!("skipped: only where KVM is kvm_pvm");
        return;
    }
    let folder = TempDir::new().expect("a test may write temporary files");
    for suite in ["hackbench", "tbench", "cyclictest", "boot"] {
        let (status, stdout, stderr) = output(stile(folder.path(), &["compare", suite, "--guest", "linux"]));
        assert_eq!((status, stdout.as_str()), (Some(3), ""), "{suite}: {stderr}");
        for words in ["kvm_pvm", "VMX or SVM", "scripts/hardware-lane", "--try-linux"] {
            assert!(stderr.contains(words), "{suite}: no `{words}` in: {stderr}");
        }
    }
    assert!(!folder.path().join("stile-report").exists());
}

#[test]
fn a_comparison_of_linux_guests_that_is_forced_is_made_with_a_warning_where_none_can_run() {
    if stile_tests::kvm().is_none() {
        return;
    }
    let folder = TempDir::new().expect("a test may write temporary files");
    let said_first = [&SAY[..], b"stile: started 5\n\0"].concat();
    fs::write(folder.path().join("vmlinuz"), kernel_of(&said_first)).expect("the folder is this test's own");
    fs::write(folder.path().join("initramfs.cpio"), b"070701").expect("as above");
    let small = ["--setup", "1x64M", "--vms", "1,2", "--reps", "1", "--duration", "0.01"];
    let mut command =
        stile(folder.path(), &[&["compare", "boot", "--guest", "linux:.", "--try-linux"][..], &small].concat());
    // Without the peer, which would refuse this kernel.
    command.env("PATH", "");
    let (status, stdout, stderr) = output(command);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("rsdl") && folder.path().join("stile-report/report.json").exists(), "{stdout}");
    let is_unsuited = stile_host::backend() == stile_host::Backend::Pvm;
    assert_eq!(stderr.contains("warning: Linux comes no further"), is_unsuited, "{stderr}");
}

/// A cache in a folder, which has this kernel as the image of Linux guests, with a manifest that says so.
fn cached(cache: &Path, kernel: &[u8]) -> PathBuf {
    use stile_linux_images::{digest, manifest};
    let image = cache.join("stile/guests/linux");
    fs::create_dir_all(&image).expect("a test may write temporary files");
    let initramfs = b"070701";
    let files = [("vmlinuz", kernel), ("initramfs.cpio", initramfs)];
    files.iter().for_each(|(name, bytes)| fs::write(image.join(name), bytes).expect("as above"));
    let inputs = manifest::Inputs { recipe: String::new(), init: String::new(), packages: Vec::new() };
    let files = files.map(|(name, bytes)| (name.to_owned(), digest::of_bytes(bytes))).into();
    manifest::Manifest { release: "6.1".to_owned(), inputs, files }.write(&image).expect("as above");
    image
}

#[test]
fn an_image_of_the_cache_is_refused_once_it_was_changed_or_others_may_write_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = with("kernel = \"cache/stile/guests/linux/vmlinuz\"");
    let cache = folder.path().join("cache");
    let image = cached(&cache, &kernel());
    let run = |arguments: &[&str]| {
        let mut command = stile(folder.path(), arguments);
        command.env("XDG_CACHE_HOME", &cache);
        output(command)
    };
    let compare = ["compare", "boot", "--guest", "linux", "--try-linux"];
    let refused = |told: &[&str]| {
        for arguments in [&["check", "stile.toml"][..], &["run", "stile.toml", "--try-linux"], &compare] {
            let (status, _, stderr) = run(arguments);
            assert_eq!(status, Some(2), "{arguments:?}: {stderr}");
            assert!(told.iter().all(|word| stderr.contains(word)), "{arguments:?}: no {told:?} in {stderr}");
        }
    };
    assert_eq!(run(&["check", "stile.toml"]).0, Some(0));
    let allow = |mode| fs::set_permissions(&image, fs::Permissions::from_mode(mode)).expect("as above");
    allow(0o777);
    refused(&["may be written by others", "mode 777", "chmod go-w"]);
    allow(0o755);
    fs::write(image.join("vmlinuz"), kernel_of(&SAY)).expect("as above");
    refused(&["vmlinuz is not what manifest.json beside it says", "make the image again"]);
    fs::remove_file(image.join("manifest.json")).expect("as above");
    refused(&["has no manifest.json", "make the image again"]);
}

#[test]
fn what_does_not_go_together_with_linux_guests_is_refused() {
    let folder = TempDir::new().expect("a test may write temporary files");
    for (arguments, told) in [
        (&["tbench"][..], "--guest linux"),
        (&["ticket", "--guest", "linux"], "ticket has no Linux guests"),
        (&["reports", "--guest", "linux"], "built-in guests"),
        (&["boot", "--guest", "linux", "--sim"], "no model"),
        (&["hackbench", "--guest", "linux", "--set", "users=3"], "fan and loops"),
        (&["hackbench", "--guest", "linux", "--set", "fan=65"], "1 to 64"),
        (&["hackbench", "--guest", "linux", "--hint", "none"], "--hint none"),
        (&["hackbench", "--guest", "linux", "--setup", "up"], "2x256M"),
        (&["hackbench", "--guest", "windows"], "linux:DIR"),
        (&["hackbench", "--guest", "linux", "--interrupts", "both"], "auto, kernel and user"),
        (&["hackbench", "--interrupts", "user"], "--guest linux"),
        (
            &["hackbench", "--guest", "linux", "--interrupts", "kernel", "--policies", "rsdl:executors"],
            "halt inside the kernel",
        ),
        (&["hackbench", "--setup", "2x256M"], "has none to choose"),
    ] {
        let (status, stdout, stderr) = output(stile(folder.path(), &[&["compare"], arguments].concat()));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: no `{told}` in: {stderr}");
    }
}
