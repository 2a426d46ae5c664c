//! QEMU's microvm machine as the peer of booting: the same kernel, initramfs and command line, vCPUs and memory, on the
//! same pCPUs under the host's scheduler, and the same devices as far as it has them.
//!
//! A VM is a process. Its time begins before the process is started, and it is killed after its memory has been read.

use super::boot::{self, Batch, ORDERS, note};
use super::lab::{PATIENCE, cmdline, shape};
use super::outside::outside;
use crate::cells::at_once::at_once;
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::Measured;
use crate::plan::linux::{Linux, Peer};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use stile_host::{CpuList, memory};
use stile_machine::linux::cmdline::Cmdline;
use stile_sched::Time;
use stile_sched::time::monotonic;
use stile_suites::VmShape;

/// The end of its output that an error quotes (unit: bytes).
const COMPLAINT_MAX: u64 = 2000;

/// Why the peer did not boot its guests.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// The program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It has ended.
    #[error("{} ended before its guest had booted: {said}", Peer::LABEL)]
    Ended {
        /// Its output.
        said: String,
    },
    /// Its guest does not reach its first process.
    #[error("a guest of {} had not booted after {PATIENCE:?}", Peer::LABEL)]
    Stuck,
}

/// A process that boots a guest, with its serial port on standard output.
fn command(peer: &Peer, linux: &Linux, shape: VmShape) -> Command {
    let mut command = Command::new(&peer.program);
    // Of the PC's old devices only the serial port, as stile has.
    command.args(["-M", "microvm,rtc=off,pit=off,pic=off", "-accel", "kvm", "-cpu", "host"]);
    command.args(["-smp", &shape.vcpus.to_string(), "-m", &shape.mib.to_string()]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]);
    command.args(["-device", "virtio-rng-device", "-device", "virtio-serial-device"]);
    command.args(["-chardev", "null,id=hvc0", "-device", "virtconsole,chardev=hvc0"]);
    command.args([
        OsString::from("-kernel"),
        linux.kernel.clone().into(),
        "-initrd".into(),
        linux.initrd.clone().into(),
    ]);
    command.args(["-append", Cmdline::new(&cmdline(ORDERS)).as_str()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A process and its guest. Dropping it kills the process.
struct Running {
    child: Child,
    asked: Time,
    booted: Arc<OnceLock<Time>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself. That does no harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn measure(site: &Site<'_>, linux: &Linux, peer: &Peer) -> Result<Measured, CompareError> {
    boot::batches(site, || batch(site, linux, peer))
}

fn batch(site: &Site<'_>, linux: &Linux, peer: &Peer) -> Result<Option<Batch>, CompareError> {
    let size = site.planned.case.size as usize;
    let mut all = at_once(size, |_| {
        start(command(peer, linux, shape(site.planned.case)), &peer.program, &site.pcpus).map_err(CompareError::other)
    })?;
    let begun = Instant::now();
    let all_booted = site.look(|| {
        let Some(late) = all.iter_mut().find(|running| running.booted.get().is_none()) else { return Ok(Some(())) };
        if let Ok(Some(_)) = late.child.try_wait() {
            return Err(CompareError::other(PeerError::Ended { said: complaint(&mut late.child) }));
        }
        if begun.elapsed() > PATIENCE {
            return Err(CompareError::other(PeerError::Stuck));
        }
        Ok(None)
    })?;
    if all_booted.is_none() {
        return Ok(None);
    }
    let processes: Vec<u32> = all.iter().map(|running| running.child.id()).collect();
    let monitor = outside(move || processes.into_iter().map(memory::resident_beside_largest).sum());
    let monitor = monitor.map_err(CompareError::other)?;
    let booted = all.iter().filter_map(|running| Some((running.asked, *running.booted.get()?))).collect();
    Ok(Some(Batch { booted, monitor }))
}

/// Starts a process on these pCPUs, and notes the first report of its guest. Binds the thread that starts it to them as
/// well, since a process inherits that thread's affinity.
fn start(mut command: Command, program: &Path, pcpus: &CpuList) -> Result<Running, PeerError> {
    let failed = |source| PeerError::Start { program: program.to_owned(), source };
    let asked = monotonic();
    let mut set = rustix::thread::CpuSet::new();
    pcpus.iter().for_each(|cpu| set.set(cpu as usize));
    let spawn = move || {
        rustix::thread::sched_setaffinity(None, &set)?;
        command.spawn()
    };
    let child = outside(spawn).flatten().map_err(failed)?;
    let mut running = Running { child, asked, booted: Arc::default() };
    if let Some(serial) = running.child.stdout.take() {
        let said = Arc::clone(&running.booted);
        let hear = move || BufReader::new(serial).lines().map_while(Result::ok).for_each(|line| note(&line, &said));
        // The thread ends with the process.
        std::thread::Builder::new().name("peer".to_owned()).spawn(hear).map_err(failed)?;
    }
    Ok(running)
}

/// The output of a process that has ended.
fn complaint(child: &mut Child) -> String {
    let mut said = Vec::new();
    let _ = child.stderr.take().map(|stderr| stderr.take(COMPLAINT_MAX).read_to_end(&mut said));
    String::from_utf8_lossy(&said).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shell(script: &str) -> Result<Running, PeerError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        start(command, Path::new("sh"), &stile_host::allowed_cpus().unwrap())
    }

    #[test]
    fn a_first_word_is_noted_and_who_says_none_is_known_with_what_it_said() {
        let mut booted = shell("echo stile: started 5").unwrap();
        booted.child.wait().unwrap();
        let begun = Instant::now();
        while booted.booted.get().is_none() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        assert!(booted.booted.get().is_some_and(|ready| *ready >= booted.asked));
        let mut failed = shell("echo no kvm >&2; echo here >&2; exit 1").unwrap();
        failed.child.wait().unwrap();
        assert_eq!((failed.booted.get(), complaint(&mut failed.child).as_str()), (None, "no kvm; here"));
    }

    #[test]
    fn a_process_ends_with_who_holds_it() {
        let running = shell("sleep 1000").unwrap();
        let folder = PathBuf::from(format!("/proc/{}", running.child.id()));
        assert!(folder.exists());
        drop(running);
        assert!(!folder.exists());
    }
}
