//! QEMU: a machine with SVM.

use super::{Boot, CPUS, MEMORY_MIB, Program, StartError, Started};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The socket of its monitor.
pub(super) fn monitor(folder: &Path) -> PathBuf {
    folder.join("monitor")
}

/// On one CPU of the host its emulated CPUs take turns, and then QEMU does not lose guests (docs/adr/0019).
pub(super) fn start(program: &Program, on_one_cpu: bool, boot: &Boot<'_>) -> Result<Started, StartError> {
    let mut command = if on_one_cpu { program.ends_with_this_on_its_cpu() } else { program.ends_with_this() };
    command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-nodefaults", "-no-reboot"]);
    command.args(["-m", &MEMORY_MIB.to_string(), "-smp", &CPUS.to_string(), "-display", "none"]);
    command.arg("-kernel").arg(boot.kernel).arg("-initrd").arg(boot.initramfs);
    // The emulated CPUs' counters are one. Without the word the kernel reads its time from a device, by a system call.
    command.arg("-append").arg(format!("{} panic=-1 tsc=reliable", boot.command_line));
    command.args(["-serial", "stdio"]).arg("-serial").arg(format!("file:{}", boot.told.display()));
    command.arg("-monitor").arg(format!("unix:{},server=on,wait=off", monitor(boot.folder).display()));
    if let Some(disk) = boot.disk {
        command.args(["-device", "virtio-blk-pci,drive=results", "-drive"]);
        command.arg(format!("if=none,id=results,format=raw,file={}", disk.display()));
    }
    let child = command.stdin(Stdio::null()).spawn();
    let child = child.map_err(|source| StartError::Spawn(program.path().to_owned(), source))?;
    Ok(Started { child, console: None })
}
