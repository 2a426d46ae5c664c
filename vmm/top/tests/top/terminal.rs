//! The terminal is given back however the program ends. The program is this test's own binary, started anew on a
//! pseudoterminal with the test [`child`].

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{read, write};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use stile_api::{Frame, Problem, SchedulingRequest};
use stile_top::{Frames, Node, TopOptions, run};

use crate::figures::two;

/// Set for the program on the pseudoterminal.
const CHILD: &str = "STILE_TOP_CHILD";
/// Much more than the program takes for anything here (unit: s).
const LIMIT_S: i64 = 60;
/// Begins and ends the screen that a program has for itself.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// A node with one frame. To pause a VM makes it panic.
struct OneFrame;

struct Once(Option<Frame>);

impl Node for OneFrame {
    fn frames(&self, _: Duration) -> Result<Box<dyn Frames>, Problem> {
        Ok(Box::new(Once(Some(two()))))
    }

    fn pause(&self, vm: &str) -> Result<(), Problem> {
        panic!("made up for {vm}");
    }

    fn resume(&self, _: &str) -> Result<(), Problem> {
        Ok(())
    }

    fn schedule(&self, _: &str, _: &SchedulingRequest) -> Result<(), Problem> {
        Ok(())
    }
}

impl Frames for Once {
    fn next(&mut self, limit: Duration) -> Result<Option<Frame>, Problem> {
        if self.0.is_none() {
            std::thread::park_timeout(limit);
        }
        Ok(self.0.take())
    }
}

/// The program on a pseudoterminal.
struct Program {
    process: Child,
    master: OwnedFd,
    terminal: OwnedFd,
    printed: String,
}

impl Program {
    fn start() -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there are pseudoterminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is this test's own");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let terminal =
            open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("it was unlocked");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).expect("it is a terminal");
        let end = || Stdio::from(terminal.try_clone().expect("there are descriptors"));
        let process = Command::new(std::env::current_exe().expect("it runs"))
            .args(["--exact", "terminal::child", "--nocapture"])
            .env(CHILD, "1")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("it ran before");
        Self { process, master, terminal, printed: String::new() }
    }

    /// Reads until it has printed a text.
    fn until(&mut self, text: &str) {
        let limit = Timespec { tv_sec: LIMIT_S, tv_nsec: 0 };
        let mut buffer = [0; 4096];
        while !self.printed.contains(text) {
            let ready = poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&limit)).expect("it is open");
            assert!(ready > 0, "no `{text}` in {:?}", self.printed);
            let length = read(&self.master, &mut buffer).expect("it is open");
            self.printed += &String::from_utf8_lossy(&buffer[..length]);
        }
    }

    /// Whether keys reach the program one by one, unseen.
    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("it is a terminal").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn press(&self, key: &[u8]) {
        write(&self.master, key).expect("it is open");
    }

    /// Waits for its end. Returns what it has printed after giving the terminal back.
    fn end(mut self) -> (ExitStatus, String) {
        self.until(GIVEN_BACK);
        self.until("test result");
        let status = self.process.wait().expect("it was started");
        assert!(!self.is_raw(), "{:?}", self.printed);
        let after = self.printed.split(GIVEN_BACK).skip(1);
        (status, after.collect::<Vec<_>>().join(GIVEN_BACK))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test: the program, if this is started by one of the tests.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        run(OneFrame, TopOptions::default()).expect("it ends well");
    }
}

#[test]
fn a_terminal_that_hangs_up_ends_it() {
    let mut program = Program::start();
    program.until("web");
    let Program { process, master, terminal, .. } = &mut program;
    // Without a session, no signal tells of it.
    let gone = || open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("there is one");
    (*master, *terminal) = (gone(), gone());
    let until = std::time::Instant::now() + Duration::from_secs(LIMIT_S as u64);
    while process.try_wait().expect("it was started").is_none() {
        assert!(std::time::Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_terminal_is_taken_over_and_given_back_by_q() {
    let mut program = Program::start();
    program.until(TAKEN);
    program.until("web");
    assert!(program.is_raw());
    program.press(b"q");
    let (status, after) = program.end();
    assert!(status.success() && !after.contains(GIVEN_BACK), "{after:?}");
}

#[test]
fn a_signal_that_ends_the_program_gives_the_terminal_back() {
    let mut program = Program::start();
    program.until("web");
    let pid = Pid::from_child(&program.process);
    kill_process(pid, Signal::TERM).expect("it runs");
    assert!(program.end().0.success());
}

#[test]
fn a_panic_of_another_thread_gives_the_terminal_back_once_and_is_printed_after_it() {
    let mut program = Program::start();
    program.until("web");
    program.press(b"p");
    let (status, after) = program.end();
    assert!(!status.success());
    assert!(after.contains("made up for web") && !after.contains(GIVEN_BACK), "{after:?}");
}
