//! The emulated machine: QEMU from start to end, watched by the events that the outer system sends.
//!
//! No process stays behind. QEMU ends when its parent does, however that ends. QEMU is killed if the outer system does
//! not come to its first test, or does not end a test, long after it should have.

use crate::outer::OuterSystem;
use crate::results::{self, Event, Verdict};
use crate::script::Script;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Program and package of the emulator.
const EMULATOR: (&str, &str) = ("qemu-system-x86_64", "qemu-system-x86");
/// Enough for the tests' programs, twice while they are unpacked, and for four Linux guests.
const MEMORY_MIB: u32 = 2048;
/// As many CPUs as test machines have.
const CPUS: u32 = 2;
/// From start to first test; takes some 7 s on an idle host.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Time beyond a test's limit, within which the outer system should have killed the test.
const GRACE: Duration = Duration::from_secs(30);
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(100);
/// The most time between two checks of a lane that is neither stopped nor suspended.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Why the machine did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    /// It cannot be started.
    #[error("cannot start {0}")]
    Start(PathBuf, #[source] std::io::Error),
    /// The machine ended or hung.
    #[error("cannot watch the emulator")]
    Watch(#[source] std::io::Error),
    /// The user ended the run.
    #[error("ended before the tests were")]
    Interrupted,
}

/// The emulator is not installed.
#[derive(Debug, thiserror::Error)]
#[error("there is no program {program}; `apt-get install --no-install-recommends {package}` brings it", program = EMULATOR.0, package = EMULATOR.1)]
pub(crate) struct NoEmulator;

/// The emulator's program.
pub(crate) fn emulator() -> Result<PathBuf, NoEmulator> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(EMULATOR.0)).find(|program| program.is_file());
    found.ok_or(NoEmulator)
}

/// A machine that can be started.
#[derive(Debug)]
pub(crate) struct Machine {
    emulator: PathBuf,
    system: OuterSystem,
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
    /// Makes a machine of this emulator and system.
    pub(crate) fn new(emulator: PathBuf, system: OuterSystem) -> Self {
        Self { emulator, system }
    }

    /// Boots the system, which runs the tests from the first of these on. Returns the verdict on each, unless it is
    /// `interrupted` before.
    pub(crate) fn run(&self, scripts: &[Script], interrupted: &AtomicBool) -> Result<Vec<Verdict>, MachineError> {
        let told = self.system.folder().join("results");
        std::fs::write(&told, "").map_err(MachineError::Watch)?;
        let mut command = self.command(scripts.first().map_or("", |script| &script.name), &told);
        let child = command.spawn().map_err(|source| MachineError::Start(self.emulator.clone(), source))?;
        let mut running = Running(child);
        let mut watch = Watch::new(scripts);
        let mut awake = Awake { last: Instant::now(), sum: Duration::ZERO };
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(MachineError::Interrupted);
            }
            let ended = running.0.try_wait().map_err(MachineError::Watch)?;
            let now = awake.look(Instant::now(), is_stopped(running.0.id()));
            let text = std::fs::read(&told).map_err(MachineError::Watch)?;
            watch.look(&results::events(&String::from_utf8_lossy(&text)), now);
            if let Some(status) = ended {
                if !watch.done {
                    eprintln!("\nhardware-lane: the emulated machine ended by itself; its emulator's {status}");
                }
                return Ok(watch.verdicts(Verdict::Ended));
            }
            if let Some(why) = watch.overdue(now) {
                eprintln!("\nhardware-lane: {why}; ending the machine");
                return Ok(watch.verdicts(Verdict::Lost));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn command(&self, first: &str, told: &Path) -> Command {
        // Sent by the kernel when the parent ends, so that even a killed lane leaves no emulator.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.emulator);
        command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-nodefaults", "-no-reboot"]);
        command.args(["-m", &MEMORY_MIB.to_string(), "-smp", &CPUS.to_string(), "-display", "none"]);
        command.arg("-kernel").arg(self.system.kernel()).arg("-initrd").arg(self.system.initramfs());
        // Mitigations cost time and protect nothing here. The outer system sends results on the second line.
        command.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 mitigations=off lane.from={first}"));
        command.args(["-serial", "stdio"]).arg("-serial").arg(format!("file:{}", told.display()));
        command.stdin(Stdio::null());
        command
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

/// The progress of the tests while the machine runs. Times count from its start.
#[derive(Debug)]
struct Watch<'a> {
    scripts: &'a [Script],
    /// Number of events that have been processed.
    seen: usize,
    /// The test that runs, and its start; or when the machine set out for the first or next test.
    current: Option<String>,
    since: Duration,
    /// Number of tries of the test that runs.
    tries: u32,
    ended: Vec<(String, Verdict)>,
    /// All tests were run, and the machine has only to end.
    done: bool,
}

impl<'a> Watch<'a> {
    fn new(scripts: &'a [Script]) -> Self {
        Self { scripts, seen: 0, current: None, since: Duration::ZERO, tries: 0, ended: Vec::new(), done: false }
    }

    fn look(&mut self, events: &[Event], now: Duration) {
        for event in events.iter().skip(self.seen) {
            match event {
                Event::Begin(name) => (self.current, self.tries) = (Some(name.clone()), 1),
                Event::Again(_) => self.tries += 1,
                Event::End(name, code) => {
                    let time = now - self.since;
                    let limit = self.limit(name);
                    self.ended.push((name.clone(), Verdict::of(*code, time, limit, self.tries)));
                    self.current = None;
                }
                Event::Done => self.done = true,
            }
            self.since = now;
        }
        self.seen = self.seen.max(events.len());
    }

    fn limit(&self, name: &str) -> Duration {
        self.scripts.iter().find(|script| script.name == name).map_or(Duration::ZERO, |script| script.limit)
    }

    /// Why the machine is killed.
    fn overdue(&self, now: Duration) -> Option<String> {
        let (limit, what) = match &self.current {
            Some(name) => (self.limit(name) + GRACE, format!("test {name} did not end, nor could it be killed")),
            None if self.done => (GRACE, "the outer system did not power off".to_owned()),
            None if self.seen == 0 => (BOOT_LIMIT, "the outer system did not come to its first test".to_owned()),
            None => (GRACE, "the outer system hangs between tests".to_owned()),
        };
        (now - self.since > limit).then(|| format!("{what} within {} s", limit.as_secs()))
    }

    /// The verdict on each test. The first test that did not end has the verdict `last`.
    fn verdicts(&self, last: Verdict) -> Vec<Verdict> {
        let mut last = Some(last);
        let verdict = |script: &Script| match self.ended.iter().find(|(name, _)| *name == script.name) {
            Some((_, verdict)) => verdict.clone(),
            None => last.take().unwrap_or(Verdict::NotRun),
        };
        self.scripts.iter().map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(name: &str) -> Script {
        let (name, limit) = (name.to_owned(), Duration::from_secs(10));
        Script { name, description: String::new(), limit, needs: Vec::new(), text: String::new() }
    }

    #[test]
    fn tests_that_did_not_end_have_failed() {
        let scripts = ["a", "b", "c"].map(script);
        let mut watch = Watch::new(&scripts);
        let mut events = vec![Event::Begin("a".into())];
        watch.look(&events, Duration::from_secs(7));
        events.extend([Event::End("a".into(), 0), Event::Begin("b".into())]);
        watch.look(&events, Duration::from_secs(10));
        assert_eq!(
            watch.verdicts(Verdict::Lost),
            [Verdict::Passed(Duration::from_secs(3)), Verdict::Lost, Verdict::NotRun]
        );
    }

    #[test]
    fn each_try_of_a_test_has_the_whole_limit() {
        let scripts = [script("a")];
        let mut watch = Watch::new(&scripts);
        let mut events = vec![Event::Begin("a".into())];
        watch.look(&events, Duration::ZERO);
        events.push(Event::Again("a".into()));
        let limit = Duration::from_secs(10) + GRACE;
        watch.look(&events, limit);
        assert_eq!(watch.overdue(2 * limit), None);
        events.push(Event::End("a".into(), 0));
        watch.look(&events, 2 * limit);
        assert_eq!(watch.verdicts(Verdict::Ended), [Verdict::PassedAfterAll(limit, 2)]);
    }

    #[test]
    fn a_machine_is_given_up_only_when_a_limit_and_the_grace_have_passed() {
        let scripts = [script("a")];
        let mut watch = Watch::new(&scripts);
        assert_eq!(watch.overdue(BOOT_LIMIT), None);
        assert!(watch.overdue(BOOT_LIMIT + PAUSE).is_some());
        watch.look(&[Event::Begin("a".into())], BOOT_LIMIT);
        let last = BOOT_LIMIT + Duration::from_secs(10) + GRACE;
        assert_eq!(watch.overdue(last), None);
        assert!(watch.overdue(last + PAUSE).is_some_and(|why| why.contains("test a")));
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
        let machine = Machine::new(emulator, system);
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
            assert!(child.0.try_wait().unwrap().is_none() && begun.elapsed() < BOOT_LIMIT);
            std::thread::sleep(PAUSE);
        }
    }
}
