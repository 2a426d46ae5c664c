//! A Linux guest that has the user's terminal: it gets the keys, and the terminal is restored however the run ends.
//!
//! The guest's kernel is forged: it echoes what is typed in upper case, and switches off at a `q`.

use super::linux::{kernel_of, with_kernel};
use super::program::{PROGRAM, stile};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A time that no sound run comes near.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(10);
/// ```text
///       mov  dx, 0x3fd        the serial port's state
/// wait: in   al, dx
///       test al, 1
///       jz   wait
///       mov  dl, 0xf8         its data
///       in   al, dx
///       cmp  al, 'q'
///       je   quit
///       xor  al, 0x20
///       out  dx, al
///       mov  dl, 0xfd
///       jmp  wait
/// quit: mov  dx, 0x600        ACPI's sleep control
///       mov  al, 0x34
///       out  dx, al
///       jmp  $
/// ```
const ECHO: [u8; 32] = [
    0x66, 0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74, 0xfb, 0xb2, 0xf8, 0xec, 0x3c, 0x71, 0x74, 0x07, 0x34, 0x20, 0xee,
    0xb2, 0xfd, 0xeb, 0xed, 0x66, 0xba, 0x00, 0x06, 0xb0, 0x34, 0xee, 0xeb, 0xfe,
];

/// A run on a terminal of its own.
struct Session {
    _folder: TempDir,
    stile: Child,
    /// The user's side.
    user: File,
    /// The program's side, so that the terminal stays when the program has gone.
    terminal: File,
    before: Termios,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself. That does no harm.
        let _ = self.stile.kill();
        let _ = self.stile.wait();
    }
}

impl Session {
    /// Starts the echoing guest; it has the keyboard when this returns.
    fn start() -> Self {
        let folder = with_kernel(&kernel_of(&ECHO));
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&user).and_then(|()| unlockpt(&user)).expect("the terminal is this test's own");
        let path = ptsname(&user, Vec::new()).expect("it has a name").into_string().expect("of plain letters");
        let terminal = OpenOptions::new().read(true).write(true).open(path).expect("it can be opened");
        let before = tcgetattr(&terminal).expect("it is a terminal");
        let side = || terminal.try_clone().expect("a file descriptor");
        let mut command = stile(folder.path(), &["run", "--try-linux", "stile.toml"]);
        command.stdin(side()).stdout(side()).stderr(side());
        let stile = command.spawn().unwrap_or_else(|e| panic!("cannot run {PROGRAM}: {e}"));
        drop(command);
        let user = File::from(user);
        let shown = shown(user.try_clone().expect("a file descriptor"));
        let mut session = Self { _folder: folder, stile, user, terminal, before, shown, seen: String::new() };
        session.shows("Ctrl-A x");
        session.type_keys("k");
        session.shows("K");
        session
    }

    fn type_keys(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// Waits until this was shown, after the text that was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            assert!(begun.elapsed() < LIMIT, "waited in vain for {text:?} after {:?}", self.seen);
            if let Ok(bytes) = self.shown.recv_timeout(PAUSE) {
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        }
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.terminal).expect("it is a terminal")
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.stile.try_wait().expect("it is this process' child") {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "the run does not end");
            std::thread::sleep(PAUSE);
        }
    }

    fn signal(&self, name: &str) {
        let sent =
            std::process::Command::new("sh").args(["-c", "kill -$0 $1", name, &self.stile.id().to_string()]).status();
        assert!(sent.expect("a shell").success());
    }

    /// The terminal is as it was before the run.
    #[track_caller]
    fn is_put_back(&self) {
        let (found, before) = (self.modes(), &self.before);
        let modes = |modes: &Termios| (modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes);
        assert_eq!(modes(&found), modes(before));
        assert_eq!(format!("{:?}", found.special_codes), format!("{:?}", before.special_codes));
    }
}

/// The output on the user's side. It is read at once, since a full terminal blocks the program that writes to it.
fn shown(mut user: File) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = [0; 256];
        while let Ok(length @ 1..) = user.read(&mut chunk) {
            if send.send(chunk[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}

/// Whether KVM can be used. If not, a message on stderr says so.
fn has_kvm() -> bool {
    stile_tests::kvm().is_some()
}

#[test]
fn keys_reach_the_guest_as_they_are_typed_and_its_end_gives_the_terminal_back() {
    if !has_kvm() {
        return;
    }
    let mut session = Session::start();
    let modes = session.modes();
    let edited = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    assert!(!modes.local_modes.intersects(edited), "keys come one by one, unseen, and are no signals");
    // Ctrl-C and Ctrl-Z go to the guest, and so does Ctrl-A if an `a` follows it.
    session.type_keys("\x03\x1a\x01ab");
    session.shows("\x23\x3a\x21B");
    session.type_keys("q");
    assert_eq!(session.ends().code(), Some(0));
    session.is_put_back();
}

#[test]
fn the_escape_sequence_ends_the_run_and_gives_the_terminal_back() {
    if !has_kvm() {
        return;
    }
    let mut session = Session::start();
    session.type_keys("\x01x");
    assert_eq!(session.ends().code(), Some(130));
    session.is_put_back();
}

#[test]
fn the_terminal_is_put_back_by_every_signal_that_ends_the_run() {
    if !has_kvm() {
        return;
    }
    for (name, code, number) in [
        ("INT", Some(130), None),
        ("TERM", Some(130), None),
        ("HUP", None, Some(1)),
        ("QUIT", None, Some(3)),
        ("ABRT", None, Some(6)),
        ("PIPE", None, Some(13)),
    ] {
        let mut session = Session::start();
        session.signal(name);
        let status = session.ends();
        assert_eq!((status.code(), status.signal()), (code, number), "SIG{name}");
        session.is_put_back();
    }
}
