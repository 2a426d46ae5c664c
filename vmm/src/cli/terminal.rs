//! The keyboard of a guest's serial port: keys go to the guest one by one.
//!
//! While a guest has the terminal, the terminal does not edit lines, echo, or make signals of keys. Ctrl-A is the one
//! key that stile takes ([`Escape`]). The terminal is restored when [`Keyboard`] is dropped, when a thread panics, and
//! when a signal ends the program at once. Output is not changed.
//!
//! Input that is not a terminal, a file or a pipe, goes to the guest byte by byte, to its end.
#![allow(
    unsafe_code,
    reason = "handlers of signals: the terminal has to be put back also by those that end the program"
)]

use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGQUIT};
use std::io::{self, IsTerminal, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use stile_jail::Kind;
use stile_machine::linux::LinuxState;
use tracing::info;

/// Ctrl-A.
const ESCAPE: u8 = 1;
/// Bytes read at a time.
const CHUNK: usize = 256;
/// Signals that end the program at once.
const ENDING: [i32; 3] = [SIGABRT, SIGHUP, SIGQUIT];

/// The settings of the terminal before they were changed.
static FOUND: OnceLock<Termios> = OnceLock::new();
/// The terminal's settings are changed.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// A guest has the keyboard until this is dropped.
pub(super) struct Keyboard(Raw);

/// The terminal delivers keys one by one until this is dropped, if standard input is one.
pub(super) struct Raw(());

impl Raw {
    pub(super) fn enter() -> io::Result<Self> {
        if io::stdin().is_terminal() {
            make_raw()?;
        }
        Ok(Self(()))
    }
}

impl Keyboard {
    /// Sends what is typed to this guest. Ctrl-A x sets `quit`, and a second one ends the program at once.
    pub(super) fn lead_to(guest: &Arc<LinuxState>, quit: &Arc<AtomicBool>) -> io::Result<Self> {
        let has_terminal = io::stdin().is_terminal();
        if has_terminal {
            let name = guest.status().name();
            info!("the keyboard is {name}'s; Ctrl-A x ends it, Ctrl-A a is Ctrl-A for the guest");
        }
        let keyboard = Self(Raw::enter()?);
        // The thread must not keep the guest: its console is finished when the guest is dropped.
        let (guest, quit) = (Arc::downgrade(guest), Arc::clone(quit));
        let escape = has_terminal.then(Escape::default);
        // The thread may wait for a key for ever. It ends with the program.
        thread::Builder::new().name("keyboard".into()).spawn(move || {
            stile_jail::narrow(Kind::Device);
            read(&guest, &quit, escape);
        })?;
        Ok(keyboard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        put_back();
    }
}

/// The thread: until input ends or the guest has ended.
fn read(guest: &Weak<LinuxState>, quit: &AtomicBool, mut escape: Option<Escape>) {
    let mut chunk = [0; CHUNK];
    let mut input = io::stdin().lock();
    while let Ok(length @ 1..) = input.read(&mut chunk) {
        let mut keys = Vec::with_capacity(length);
        match &mut escape {
            Some(escape) => {
                if chunk[..length].iter().any(|key| escape.take(*key, &mut keys)) && quit.swap(true, Ordering::Relaxed)
                {
                    end_at_once();
                }
            }
            None => keys.extend_from_slice(&chunk[..length]),
        }
        let Some(guest) = guest.upgrade() else { break };
        guest.serial().receive(&keys, || !guest.status().has_ended() && !quit.load(Ordering::Relaxed));
        if guest.status().has_ended() {
            break;
        }
    }
}

/// Finds the keys that stile takes: the one after Ctrl-A.
#[derive(Debug, Default)]
pub(super) struct Escape {
    pending: bool,
}

impl Escape {
    /// Takes a key and appends the guest's keys to the others. Returns true if the user wants to quit.
    pub(super) fn take(&mut self, key: u8, guests: &mut Vec<u8>) -> bool {
        match (std::mem::take(&mut self.pending), key) {
            (false, ESCAPE) => self.pending = true,
            (false, key) => guests.push(key),
            (true, b'x' | b'X') => return true,
            (true, b'a' | b'A' | ESCAPE) => guests.push(ESCAPE),
            // Not a command of stile: the keys were meant for the guest, for example for a shell.
            (true, key) => guests.extend([ESCAPE, key]),
        }
        false
    }
}

/// Makes the terminal deliver keys one by one, and restores it however the program ends.
fn make_raw() -> io::Result<()> {
    let found = tcgetattr(io::stdin())?;
    let mut raw = found.clone();
    raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
    raw.input_modes &= !(InputModes::IXON | InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR);
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    if FOUND.set(found).is_ok() {
        put_back_whatever_happens()?;
    }
    // The flag is set before the terminal is changed: a signal may come in between.
    CHANGED.store(true, Ordering::Release);
    Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
}

/// Restores the terminal, once. May run in a signal handler: it takes no lock and allocates nothing.
pub(super) fn put_back() {
    if CHANGED.swap(false, Ordering::AcqRel)
        && let Some(found) = FOUND.get()
    {
        // SAFETY: standard input is never closed.
        let input = unsafe { rustix::fd::BorrowedFd::borrow_raw(0) };
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(input, OptionalActions::Now, found);
    }
}

/// Ends the program with the exit code of an interrupt. Nothing is finished or freed. May run in a signal handler.
pub(super) fn end_at_once() -> ! {
    put_back();
    signal_hook::low_level::exit(130)
}

fn put_back_whatever_happens() -> io::Result<()> {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        put_back();
        before(panic);
    }));
    for signal in ENDING {
        let end = move || {
            put_back();
            // Ends the program as the signal would have.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        };
        // SAFETY: the handler changes the terminal by a system call and ends the program; both may be done in a
        // handler.
        unsafe { signal_hook::low_level::register(signal, end) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits these keys into those for the guest and the wish to quit.
    fn typed(keys: &[u8]) -> (Vec<u8>, bool) {
        let (mut escape, mut guests) = (Escape::default(), Vec::new());
        let quits = keys.iter().any(|key| escape.take(*key, &mut guests));
        (guests, quits)
    }

    #[test]
    fn keys_are_the_guests_but_for_what_follows_ctrl_a() {
        assert_eq!(typed(b"ls\r\x03\x1a"), (b"ls\r\x03\x1a".to_vec(), false));
        assert_eq!(typed(b"a\x01x"), (b"a".to_vec(), true));
        assert!(typed(b"\x01X").1);
        assert_eq!(typed(b"\x01a\x01\x01b"), (b"\x01\x01b".to_vec(), false));
        assert_eq!(typed(b"\x01e"), (b"\x01e".to_vec(), false));
        assert_eq!(typed(b"\x01ax"), (b"\x01x".to_vec(), false));
    }
}
