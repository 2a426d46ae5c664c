//! QEMU: a machine with SVM.

use super::{CPUS, MEMORY_MIB, Machine, MachineError, Started, ends_with_this};
use std::path::Path;
use std::process::Stdio;

pub(super) fn start(machine: &Machine, command_line: &str, told: &Path) -> Result<Started, MachineError> {
    let mut command = ends_with_this(&machine.emulator);
    command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-nodefaults", "-no-reboot"]);
    command.args(["-m", &MEMORY_MIB.to_string(), "-smp", &CPUS.to_string(), "-display", "none"]);
    command.arg("-kernel").arg(machine.system.kernel()).arg("-initrd").arg(machine.system.initramfs());
    command.arg("-append").arg(format!("{command_line} panic=-1"));
    command.args(["-serial", "stdio"]).arg("-serial").arg(format!("file:{}", told.display()));
    let child = command.stdin(Stdio::null()).spawn();
    let child = child.map_err(|source| MachineError::Start(machine.emulator.clone(), source))?;
    Ok(Started { child, console: None })
}
