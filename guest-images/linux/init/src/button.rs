//! The power button: once it is pressed, the guest ends its programs and powers off.
//!
//! A thread of its own waits for the press, so that it is obeyed whatever order is carried out.
//!
//! 1. The thread loads the drivers. That is after the start, which is measured, and beside the first order.
//! 2. It waits until one of the kernel's input devices tells that the key is down.
//! 3. Programs are asked to end, and killed if they take long. The thread of the orders [gives way](Button::give_way).
//! 4. What was written is stored, and the guest is off.

use crate::drivers;
use crate::report::Reporter;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};
use rustix::system::RebootCommand;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The input devices that have files: a folder `eventN` for each.
const INPUTS: &str = "/sys/class/input";
/// The files, under the same names.
const FILES: &str = "/dev/input";
/// What the kernel calls the button (`KEY_POWER`).
const KEY: u16 = 116;
/// What the kernel calls a change of a key (`EV_KEY`), and a key that goes down.
const KEY_CHANGED: u16 = 1;
const DOWN: i32 = 1;
/// Length of an event: the time in two words of 8 bytes, its kind, the key, its value.
const EVENT: usize = 24;
/// How long programs may take to end. Monitors wait for a guest for tens of seconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is looked whether they have ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The button of the guest.
pub(crate) struct Button {
    pressed: AtomicBool,
}

impl Button {
    /// Watches the button from now on.
    pub(crate) fn watch(reporter: &Arc<Reporter>) -> Arc<Self> {
        let button = Arc::new(Self { pressed: AtomicBool::new(false) });
        let (this, told) = (Arc::clone(&button), Arc::clone(reporter));
        let watch = std::thread::Builder::new().name("power-button".into()).spawn(move || this.obey(&told));
        if let Err(error) = watch {
            reporter.complain(&format!("the power button does nothing: {error}"));
        }
        button
    }

    /// Returns at once, unless the button was pressed: then the guest is about to be off, and nothing else is begun.
    pub(crate) fn give_way(&self) {
        // Pairs with the store in `obey`, which comes before the programs are ended.
        while self.pressed.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    fn obey(&self, reporter: &Reporter) {
        drivers::load_later().iter().for_each(|problem| reporter.complain(problem));
        if let Err(error) = find().and_then(wait_for_press) {
            reporter.complain(&format!("the power button does nothing: {error}"));
            return;
        }
        self.pressed.store(true, Ordering::Release);
        reporter.remark("the power button was pressed");
        end_programs();
        rustix::fs::sync();
        let error = rustix::system::reboot(RebootCommand::PowerOff);
        reporter.complain(&format!("cannot power off: {error:?}"));
    }
}

/// The file of the device that has the button.
fn find() -> io::Result<File> {
    let has_button = |folder: &PathBuf| {
        let keys = fs::read_to_string(folder.join("device/capabilities/key"));
        keys.is_ok_and(|keys| has_key(&keys, KEY))
    };
    let mut folders = fs::read_dir(INPUTS)?.filter_map(Result::ok).map(|entry| entry.path());
    let folder = folders.find(|folder| is_event(folder) && has_button(folder));
    let name = folder.as_ref().and_then(|folder| folder.file_name());
    File::open(PathBuf::from(FILES).join(name.ok_or_else(|| io::Error::other("no input device has one"))?))
}

/// Whether an input device has a file for its events.
fn is_event(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("event"))
}

/// Whether a list of keys has this one: a bit for each key, in hexadecimal words of 64 bits, the last keys first.
fn has_key(keys: &str, key: u16) -> bool {
    let word = keys.split_whitespace().rev().nth(usize::from(key / 64));
    word.and_then(|word| u64::from_str_radix(word, 16).ok()).is_some_and(|word| word >> (key % 64) & 1 == 1)
}

/// Reads events up to the one of the button.
fn wait_for_press(mut events: impl Read) -> io::Result<()> {
    let mut event = [0; EVENT];
    loop {
        events.read_exact(&mut event)?;
        if is_press(&event) {
            return Ok(());
        }
    }
}

fn is_press(event: &[u8; EVENT]) -> bool {
    let [.., k0, k1, c0, c1, v0, v1, v2, v3] = *event;
    let (kind, code) = (u16::from_le_bytes([k0, k1]), u16::from_le_bytes([c0, c1]));
    (kind, code, i32::from_le_bytes([v0, v1, v2, v3])) == (KEY_CHANGED, KEY, DOWN)
}

/// Ends all programs: asks them, and kills those that take long.
fn end_programs() {
    for signal in [Signal::TERM, Signal::KILL] {
        // The group of the first process stands for all processes but that itself.
        let _ = kill_process_group(Pid::INIT, signal);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            // It is the parent of all that have lost theirs. The thread of the orders may wait for one of them as well.
            match rustix::process::wait(WaitOptions::NOHANG) {
                Err(Errno::CHILD) => return,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
        [&[7; 16][..], &kind.to_le_bytes(), &code.to_le_bytes(), &value.to_le_bytes()].concat()
    }

    #[test]
    fn a_device_with_the_button_is_told_from_others() {
        // As the kernel has them for a power button, for a sleep button, and for one of many keys without either.
        assert!(has_key("10000000000000 0\n", KEY));
        assert!(!has_key("4000 0 0\n", KEY));
        assert!(!has_key("402000000 3803078f800d001 feefffdfffefffff fffffffffffffffe\n", KEY));
        for keys in ["", "0", "0 0 0", "x 0"] {
            assert!(!has_key(keys, KEY), "{keys}");
        }
    }

    #[test]
    fn only_the_button_going_down_is_a_press() {
        let others = [event(0, 0, 0), event(KEY_CHANGED, KEY, 0), event(KEY_CHANGED, 30, DOWN), event(4, KEY, DOWN)];
        let press = event(KEY_CHANGED, KEY, DOWN);
        assert!(wait_for_press(&[&others.concat()[..], &press].concat()[..]).is_ok());
        assert!(wait_for_press(&others.concat()[..]).is_err());
    }

    #[test]
    fn orders_go_on_as_long_as_nobody_has_pressed_it() {
        Button { pressed: AtomicBool::new(false) }.give_way();
    }
}
