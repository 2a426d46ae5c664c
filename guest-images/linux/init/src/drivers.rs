//! Kernel modules for the devices that the guest has, and for no others: loading takes time that a guest's start is
//! measured by.
//!
//! The image has a table of them in the order to load them: the file's path, and the virtio devices that need it by
//! number, `later`, or nothing if it is always needed. What is always needed comes first, as it makes devices visible.
//! What is needed later is loaded while the guest works already.

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;

/// The table.
const TABLE: &str = "/lib/modules/table";
/// A folder for each virtio device that is there.
const DEVICES: &str = "/sys/bus/virtio/devices";
/// In the table: not needed for the start.
const LATER: &str = "later";
/// Modules get no parameters.
const NO_PARAMETERS: &CStr = c"";

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    path: &'a str,
    needed: Needed,
}

/// When a module is needed.
#[derive(Debug, PartialEq, Eq)]
enum Needed {
    Always,
    /// If there is a device of one of these kinds.
    By(Vec<u32>),
    Later,
}

/// Loads what is needed for the start, and says what went wrong.
pub(crate) fn load_needed() -> Vec<String> {
    let table = table();
    let lines: Vec<Line<'_>> = table.lines().filter_map(Line::parse).collect();
    let mut problems = load(&lines, |needed| *needed == Needed::Always);
    let present = devices();
    problems.extend(load(&lines, |needed| needed.is_by(&present)));
    problems
}

/// Loads what is not needed for the start, and says what went wrong.
pub(crate) fn load_later() -> Vec<String> {
    let table = table();
    let lines: Vec<Line<'_>> = table.lines().filter_map(Line::parse).collect();
    load(&lines, |needed| *needed == Needed::Later)
}

/// The table's text. An image of one's own may have none.
fn table() -> String {
    fs::read_to_string(TABLE).unwrap_or_default()
}

fn load(lines: &[Line<'_>], which: impl Fn(&Needed) -> bool) -> Vec<String> {
    lines.iter().filter(|line| which(&line.needed)).filter_map(load_one).collect()
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let path = words.next()?;
        let words: Vec<&str> = words.collect();
        let needed = match words[..] {
            [] => Needed::Always,
            [LATER] => Needed::Later,
            ref devices => Needed::By(devices.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?),
        };
        Some(Self { path, needed })
    }
}

impl Needed {
    fn is_by(&self, present: &BTreeSet<u32>) -> bool {
        matches!(self, Self::By(devices) if devices.iter().any(|device| present.contains(device)))
    }
}

fn load_one(line: &Line<'_>) -> Option<String> {
    let module = match fs::File::open(line.path) {
        Ok(module) => module,
        Err(error) => return Some(format!("cannot open {}: {error}", line.path)),
    };
    match rustix::system::finit_module(module, NO_PARAMETERS, 0) {
        // A kernel that takes no modules has its drivers built in.
        Ok(()) | Err(Errno::NOSYS) => None,
        Err(error) => Some(format!("cannot load {}: {error}", line.path)),
    }
}

/// The kinds of virtio devices that are there.
fn devices() -> BTreeSet<u32> {
    let folders = fs::read_dir(DEVICES).into_iter().flatten().filter_map(Result::ok);
    let files = folders.filter_map(|folder| fs::read_to_string(folder.path().join("device")).ok());
    files.filter_map(|text| kind(&text)).collect()
}

/// The number in a device's file, such as `0x0002`.
fn kind(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_needed_always_or_by_its_devices_or_later() {
        let needed = |line| Line::parse(line).unwrap().needed;
        assert_eq!(needed("/lib/modules/virtio_mmio.ko"), Needed::Always);
        assert!(needed("/lib/modules/virtio_net.ko 1 4").is_by(&[4].into()));
        assert!(!needed("/lib/modules/virtio_net.ko 1 4").is_by(&[2].into()));
        assert_eq!(needed("/lib/modules/button.ko later"), Needed::Later);
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        assert_eq!(Line::parse(""), None);
        assert_eq!(Line::parse("/lib/modules/a.ko net"), None);
        assert_eq!(Line::parse("/lib/modules/a.ko 1 later"), None);
    }

    #[test]
    fn a_devices_kind_is_a_hexadecimal_number() {
        assert_eq!(kind("0x0013\n"), Some(19));
        assert_eq!(kind("19"), None);
    }
}
