//! The emulated machine: an emulator from start to end, watched by the events that the outer system sends.
//!
//! No process stays behind. The emulator ends when its parent does, however that ends. It is killed if the outer system
//! does not come to its first test, or does not end a test, long after it should have.

mod watch;

use crate::emulator::{Boot, Emulator, StartError, Started};
use crate::outer::OuterSystem;
use crate::results::{self, Verdict};
use crate::script::Script;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch::Watch;

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(100);
/// The most time between two checks of a lane that is neither stopped nor suspended.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Why the machine did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The machine ended or hung.
    #[error("cannot watch the emulator")]
    Watch(#[source] std::io::Error),
    /// The user ended the run.
    #[error("ended before the tests were")]
    Interrupted,
}

/// A machine that can be started.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) emulator: Emulator,
    pub(crate) system: OuterSystem,
    /// The disk for results, if there is one.
    pub(crate) disk: Option<PathBuf>,
    /// The seconds that its clock is ahead at the start.
    pub(crate) ahead: u32,
}

/// A running emulator. Dropping it kills the emulator.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself. That does no harm.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    /// Boots the system, which runs the tests from the first of these on. Returns the verdict on each, unless it is
    /// `interrupted` before.
    pub(crate) fn run(&self, scripts: &[Script], interrupted: &AtomicBool) -> Result<Vec<Verdict>, MachineError> {
        let told = self.system.folder().join("results");
        std::fs::write(&told, "").map_err(MachineError::Watch)?;
        // Mitigations cost time and protect nothing here, and addresses are to be found in the kernel's table of
        // symbols. The outer system sends results on the second serial line. On Bochs the first is as slow as it is
        // set, and what a test said at its end would not be sent before the machine is off.
        let first = scripts.first().map_or("", |script| &script.name);
        let boot = Boot {
            kernel: self.system.kernel(),
            initramfs: &self.system.initramfs(),
            command_line: format!("console=ttyS0,115200 quiet nokaslr mitigations=off lane.from={first}"),
            told: &told,
            disk: self.disk.as_deref(),
            ahead: self.ahead,
            folder: self.system.folder(),
        };
        let Started { child, mut console } = self.emulator.start(&boot)?;
        let mut running = Running(child);
        let mut watch = Watch::new(scripts, self.emulator.slowness());
        let mut awake = Awake { last: Instant::now(), sum: Duration::ZERO };
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(MachineError::Interrupted);
            }
            let ended = running.0.try_wait().map_err(MachineError::Watch)?;
            if let Some(console) = &mut console {
                console.show().map_err(MachineError::Watch)?;
            }
            let now = awake.look(Instant::now(), is_stopped(running.0.id()));
            let text = std::fs::read(&told).map_err(MachineError::Watch)?;
            watch.look(&results::events(&String::from_utf8_lossy(&text)), now);
            if let Some(status) = ended {
                if !watch.done {
                    eprintln!("\nhardware-lane: the emulated machine ended by itself; its emulator's {status}");
                }
                return Ok(watch.verdicts(Verdict::Ended));
            }
            if let Some((why, verdict)) = watch.overdue(now) {
                eprintln!("\nhardware-lane: {why}; ending the machine");
                eprintln!("{}", self.emulator.whereabouts(self.system.folder()));
                return Ok(watch.verdicts(verdict));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether a process is stopped, as by SIGSTOP.
fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the program's name, which may contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// For how long the machine has been running. Time in which it or the lane was stopped does not count.
#[derive(Debug)]
struct Awake {
    last: Instant,
    sum: Duration,
}

impl Awake {
    /// Adds the time up at a check that finds the machine stopped or running.
    fn look(&mut self, now: Instant, stopped: bool) -> Duration {
        let step = now.duration_since(std::mem::replace(&mut self.last, now));
        if !stopped {
            self.sum += step.min(STEP_MAX);
        }
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{Kind, Program};
    use std::path::Path;
    use std::process::Command;

    fn script(name: &str) -> Script {
        let (name, limit) = (name.to_owned(), Duration::from_secs(10));
        Script { name, description: String::new(), limit, needs: Vec::new(), text: String::new() }
    }

    #[test]
    fn time_in_which_the_machine_or_the_lane_was_stopped_does_not_count() {
        let begun = Instant::now();
        let mut awake = Awake { last: begun, sum: Duration::ZERO };
        assert_eq!(awake.look(begun + PAUSE, false), PAUSE);
        assert_eq!(awake.look(begun + Duration::from_secs(600), true), PAUSE);
        assert_eq!(awake.look(begun + Duration::from_secs(600) + PAUSE, false), 2 * PAUSE);
        assert_eq!(awake.look(begun + Duration::from_secs(6000), false), 2 * PAUSE + STEP_MAX);
    }

    #[test]
    fn a_run_that_the_user_ends_leaves_neither_files_nor_an_emulator() {
        use std::os::unix::fs::PermissionsExt;
        let system = crate::outer::testing::empty();
        let folder = system.folder().to_owned();
        let (emulator, pid) = (folder.join("emulator"), folder.with_extension("pid"));
        std::fs::write(&emulator, format!("#!/bin/sh\necho $$ >{}\nexec sleep 60\n", pid.display())).unwrap();
        std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
        let emulator = Emulator { kind: Kind::Svm, program: Program::installed(emulator), ips: 1, on_one_cpu: true };
        let machine = Machine { emulator, system, disk: None, ahead: 0 };
        let interrupted = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let run = scope.spawn(|| machine.run(&[script("a")], &interrupted));
            while !run.is_finished() && !std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
                std::thread::sleep(PAUSE);
            }
            interrupted.store(true, Ordering::Relaxed);
            run.join().unwrap()
        });
        assert!(matches!(outcome, Err(MachineError::Interrupted)), "{outcome:?}");
        let process = std::fs::read_to_string(&pid).unwrap();
        assert!(!Path::new("/proc").join(process.trim()).exists());
        drop(machine);
        assert!(!folder.exists());
        std::fs::remove_file(pid).unwrap();
    }

    #[test]
    fn a_process_that_was_sent_sigstop_is_told_from_one_that_runs() {
        let mut child = Running(Command::new("sleep").arg("60").spawn().unwrap());
        let process = child.0.id();
        assert!(!is_stopped(process));
        assert!(Command::new("sh").args(["-c", "kill -STOP $0", &process.to_string()]).status().unwrap().success());
        let begun = Instant::now();
        while !is_stopped(process) {
            assert!(child.0.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(120));
            std::thread::sleep(PAUSE);
        }
    }
}
