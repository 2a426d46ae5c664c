//! Runs whose standard output is a full pipe or a terminal that nobody reads, with a guest that prints without end.

use super::program::{folder, stile};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{Read, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use stile_machine::unikernel::image::forge::code;
use stile_tests::{require_kvm, wait_for};
use tempfile::TempDir;

/// Writes a line to its serial port, over and over: mov edx, 0x3f8; then mov al, 'x'; out dx, al; mov al, '\n'; out dx,
/// al; jmp.
const CHATTER: [u8; 13] = [0xba, 0xf8, 0x03, 0, 0, 0xb0, b'x', 0xee, 0xb0, b'\n', 0xee, 0xeb, 0xf8];
/// No sound run needs that long to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run of the chatter and of a VM that computes, on one pCPU. It is killed if a test forgets it.
struct Run {
    child: Child,
    unread: OwnedFd,
    folder: TempDir,
}

impl Run {
    fn start(more: &[&str]) -> Self {
        let (unread, out) = pipe().expect("a process may make pipes");
        Self::writing_to(out.into(), unread.into(), more)
    }

    /// With a terminal for its output.
    fn on_terminal(size: Option<Winsize>, more: &[&str]) -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&user).and_then(|()| unlockpt(&user)).expect("the terminal is this test's own");
        size.into_iter().for_each(|size| tcsetwinsize(&user, size).expect("it may have any size"));
        let path = ptsname(&user, Vec::new()).expect("it has a name").into_string().expect("of plain letters");
        let terminal = OpenOptions::new().read(true).write(true).open(path).expect("it can be opened");
        Self::writing_to(terminal.into(), user, more)
    }

    fn writing_to(out: Stdio, unread: OwnedFd, more: &[&str]) -> Self {
        let vms =
            "[[vm]]\nname = \"chatter\"\nimage = \"chatter.elf\"\n[[vm]]\nname = \"worker\"\nimage = \"builtin:hog\"\n";
        let folder = folder(&format!("[host]\npcpus = [0]\n{vms}"));
        fs::write(folder.path().join("chatter.elf"), code(&CHATTER)).expect("the folder is this test's own");
        let arguments = [&["run", "stile.toml", "--stats-json", "stats"], more].concat();
        let child = stile(folder.path(), &arguments)
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()
            .expect("cargo built the program");
        Self { child, unread, folder }
    }

    /// Waits until the pipe takes no more: it has taken more than half of what it holds, and nothing for a second. How
    /// much it takes in all depends on the lengths of the pieces.
    fn fills_the_pipe(&self) {
        let last = Cell::new((0, Instant::now()));
        wait_for("the pipe is full", || {
            let held = ioctl_fionread(&self.unread).expect("it is a pipe");
            if held != last.get().0 {
                last.set((held, Instant::now()));
            }
            held > 32_768 && last.get().1.elapsed() > Duration::from_secs(1)
        });
    }

    /// CPU time of the VM that computes, as the run's last reading tells it.
    fn worked(&self) -> f64 {
        figure(&self.folder.path().join("stats"), 1, "run_seconds")
    }

    /// Waits until the guest has printed more than a terminal and the monitor's queue can hold together.
    fn has_printed(&self) {
        wait_for("the guest prints", || figure(&self.folder.path().join("stats"), 0, "exits") > 40_000.0);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// How it ended, and what it told on standard error.
    fn ends(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("it is a child").is_none() {
            assert!(Instant::now() < until, "the run does not end");
            sleep(Duration::from_millis(20));
        }
        let mut told = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut told).expect("it is text");
        (self.child.wait().expect("it is a child"), told)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A figure of a VM in the last reading of a run.
fn figure(stats: &Path, vm: usize, name: &str) -> f64 {
    let text = fs::read_to_string(stats).unwrap_or_default();
    let last = text.split_inclusive('\n').rfind(|line| line.ends_with('\n'));
    let reading = last.map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    reading.map_or(0.0, |reading| reading["vms"][vm][name].as_f64().expect("a number"))
}

#[test]
fn other_vms_run_on_and_the_run_ends_in_time_and_names_the_reader_and_what_was_lost() {
    let _ = require_kvm!();
    let run = Run::start(&[]);
    run.fills_the_pipe();
    let before = run.worked();
    wait_for("the other VM runs on", || run.worked() > before + 1.5);
    run.signal(Signal::TERM);
    let (status, told) = run.ends();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("standard output is not read"), "{told}");
    assert!(told.contains("[chatter]") && told.contains("of its output were lost"), "{told}");
}

#[test]
fn a_run_with_tables_ends_in_time_too() {
    let _ = require_kvm!();
    let run = Run::start(&["--stats=0.05"]);
    run.fills_the_pipe();
    run.signal(Signal::TERM);
    let (status, told) = run.ends();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("standard output is not read"), "{told}");
}

#[test]
fn a_second_interrupt_ends_the_run_at_once() {
    let _ = require_kvm!();
    let run = Run::start(&[]);
    run.fills_the_pipe();
    let mut run = Some(run);
    while let Some(mut now) = run.take() {
        if now.child.try_wait().unwrap().is_some() {
            let (status, told) = now.ends();
            assert!(status.code() == Some(130) && !told.contains("is not read"), "{status}: {told}");
            return;
        }
        now.signal(Signal::INT);
        sleep(Duration::from_millis(50));
        run = Some(now);
    }
}

#[test]
fn a_run_with_a_table_in_place_on_a_terminal_that_nobody_reads_ends_in_time_too() {
    let _ = require_kvm!();
    let run = Run::on_terminal(None, &["--stats=0.05"]);
    run.has_printed();
    run.signal(Signal::TERM);
    let (status, told) = run.ends();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("standard output is not read"), "{told}");
}

#[test]
fn a_table_in_place_stands_below_what_guests_print_on_terminals_of_any_size() {
    let _ = require_kvm!();
    let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    for size in [None, Some(size), Some(Winsize { ws_row: 1, ws_col: 1, ..size })] {
        let run = Run::on_terminal(size, &["--stats=0.05"]);
        let mut shown = File::from(run.unread.try_clone().expect("a descriptor"));
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            // The terminal ends with an error when the program has gone.
            let _ = shown.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        run.has_printed();
        run.signal(Signal::TERM);
        let (status, told) = run.ends();
        assert!(status.code() == Some(130) && !told.contains("panicked"), "{size:?}: {status}: {told}");
        let shown = reader.join().unwrap();
        assert!(shown.contains("[chatter] x") && shown.contains("[worker] stopped"), "{size:?}: {shown}");
    }
}
