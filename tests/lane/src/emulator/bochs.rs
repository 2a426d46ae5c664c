//! Bochs: a machine with VMX. Its CPUs take turns of some instructions each, in one thread of the host, and its time is
//! the number of instructions: a run repeats exactly, and nothing of the host disturbs it. What an exit takes are its
//! instructions; caches and memory take no time.

use super::{Boot, CPUS, CYLINDER_BYTES, MEMORY_MIB, Program, StartError, Started};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use stile_linux_images::tool;

/// The emulator, and what makes a disc that it boots.
pub(super) const PROGRAMS: [&str; 4] = ["bochs", "grub-mkrescue", "xorriso", "mformat"];
/// Debian's packages of them, of the firmware, and of the emulator's display.
pub(super) const PACKAGES: &str = "bochs bochsbios vgabios bochs-term grub-common grub-pc-bin xorriso mtools";
/// Instructions of a CPU before it is another one's turn.
const TURN: u32 = 16;

/// The most seconds of the host that a second of the machine takes: four times what it takes on a host with nothing
/// else to do, which makes 50 million instructions of each CPU in a second.
pub(super) fn slowness(ips: u32) -> u32 {
    (4 * ips).div_ceil(50_000_000)
}

pub(super) fn start(program: &Program, ips: u32, boot: &Boot<'_>) -> Result<Started, StartError> {
    let folder = boot.folder;
    let disc = disc(boot)?;
    let printed = folder.join("printed");
    let (settings, commands) = (folder.join("bochsrc"), folder.join("debugger"));
    let write = |path: &Path, text: String| std::fs::write(path, text).map_err(StartError::Prepare);
    write(&printed, String::new())?;
    // Debian's Bochs has a debugger, which begins and waits.
    write(&commands, "c\n".to_owned())?;
    write(&settings, settings_of(ips, boot, &disc, &printed, &folder.join("log")))?;

    let (display, screen) = terminal().map_err(StartError::Prepare)?;
    let stdio = || screen.try_clone().map_err(StartError::Prepare);
    let mut command = program.ends_with_this();
    command.arg("-q").arg("-f").arg(&settings).arg("-rc").arg(&commands).env("TERM", "linux");
    command.stdin(stdio()?).stdout(stdio()?).stderr(stdio()?);
    let child = command.spawn().map_err(|source| StartError::Spawn(program.path().to_owned(), source))?;
    let printed = File::open(&printed).map_err(StartError::Prepare)?;
    std::thread::spawn(move || drain(File::from(display)));
    Ok(Started { child, console: Some(Console(printed)) })
}

/// A disc that boots the system.
fn disc(boot: &Boot<'_>) -> Result<PathBuf, StartError> {
    let (disc, content) = (boot.folder.join("disc.iso"), boot.folder.join("disc"));
    let files = content.join("boot");
    // Its HPET stops the kernel's calibration of timers.
    let command_line = format!("{} hpet=disable no_timer_check", boot.command_line);
    let menu = format!("linux /boot/kernel {command_line}\ninitrd /boot/initramfs\nboot\n");
    let link = |from: &Path, name: &str| {
        let to = files.join(name);
        // The same file for every start of the machine.
        if to.exists() { Ok(()) } else { std::fs::hard_link(from, &to).or_else(|_| std::fs::copy(from, &to).map(drop)) }
    };
    std::fs::create_dir_all(files.join("grub"))
        .and_then(|()| std::fs::write(files.join("grub/grub.cfg"), menu))
        .and_then(|()| link(boot.kernel, "kernel"))
        .and_then(|()| link(boot.initramfs, "initramfs"))
        .map_err(StartError::Prepare)?;
    // For firmware of PCs only.
    let mut make = Command::new("grub-mkrescue");
    make.args(["-d", "/usr/lib/grub/i386-pc", "-o"]).arg(&disc).arg(&content);
    tool::output(&mut make, "grub-common")?;
    Ok(disc)
}

fn settings_of(ips: u32, boot: &Boot<'_>, disc: &Path, printed: &Path, log: &Path) -> String {
    let [disc, printed, told, log] = [disc, printed, boot.told, log].map(Path::display);
    let time = 1_600_000_000 + boot.ahead;
    let disk = boot.disk.map(disk_setting).unwrap_or_default();
    // The model has no TSC-deadline timer that Linux trusts, so timers are those of the LAPIC's counter.
    format!(
        "config_interface: textconfig
display_library: term
memory: guest={MEMORY_MIB}, host={MEMORY_MIB}
cpu: model=corei7_haswell_4770, count={CPUS}, quantum={TURN}, ips={ips}, reset_on_triple_fault=0, ignore_bad_msrs=1
clock: sync=none, time0={time}
ata0-master: type=cdrom, path={disc}, status=inserted
{disk}boot: cdrom
com1: enabled=1, mode=file, dev={printed}
com2: enabled=1, mode=file, dev={told}
log: {log}
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
"
    )
}

/// The line for a disk, on a cable of its own.
fn disk_setting(disk: &Path) -> String {
    let cylinders = std::fs::metadata(disk).map_or(0, |file| file.len() / CYLINDER_BYTES);
    let disk = disk.display();
    format!(
        "ata1: enabled=1, ioaddr1=0x170, ioaddr2=0x370, irq=15
ata1-master: type=disk, path={disk}, mode=flat, cylinders={cylinders}, heads=16, spt=63
"
    )
}

/// A terminal, as the emulator's display needs one: the side that reads what is displayed, and the display.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let reader = openpt(flags)?;
    grantpt(&reader)?;
    unlockpt(&reader)?;
    let screen = ioctl_tiocgptpeer(&reader, flags)?;
    Ok((reader, screen))
}

/// Reads what the emulator says and displays, which nobody wants to see: it waits while nobody reads. The display is a
/// terminal that it makes itself, and names in what it says.
fn drain(mut says: File) -> io::Result<()> {
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = says.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        text.extend_from_slice(&chunk[..read]);
        if let Some(path) = display_named_in(&String::from_utf8_lossy(&text)) {
            let mut display =
                File::options().read(true).write(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(path)?;
            // Else a line would have to end before any of it could be read.
            let mut modes = tcgetattr(&display)?;
            modes.make_raw();
            tcsetattr(&display, OptionalActions::Now, &modes)?;
            std::thread::spawn(move || io::copy(&mut display, &mut io::sink()));
            return io::copy(&mut says, &mut io::sink()).map(drop);
        }
    }
}

/// The path in `screen "/dev/pts/4"`, if all of it is there.
fn display_named_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("screen \"")?;
    Some(rest.split_once('"')?.0)
}

/// Shows what the machine prints on its first serial line, which is a file that grows.
#[derive(Debug)]
pub(crate) struct Console(File);

impl Console {
    /// Shows what has come since the last time.
    pub(crate) fn show(&mut self) -> io::Result<()> {
        let mut new = Vec::new();
        self.0.read_to_end(&mut new)?;
        io::stdout().write_all(&new)?;
        io::stdout().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_display_is_found_once_it_is_named() {
        assert_eq!(display_named_in("\r\nBochs connected to screen \"/dev/pts/1"), None);
        assert_eq!(display_named_in("Bochs connected to screen \"/dev/pts/12\"\r\n"), Some("/dev/pts/12"));
    }

    #[test]
    fn a_host_has_four_times_as_long_as_the_emulator_should_take() {
        assert_eq!((slowness(50_000_000), slowness(200_000_000), slowness(1)), (4, 16, 1));
    }
}
