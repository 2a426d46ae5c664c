//! Kernel modules for the devices that the guest has, and for no others: loading takes time that a guest's start is
//! measured by.
//!
//! The image has a table of them in the order to load them: the file's path, and the virtio devices that need it by
//! number, or none if it is always needed. What is always needed comes first, as it makes devices visible.

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;

/// The table.
const TABLE: &str = "/lib/modules/table";
/// A folder for each virtio device that is there.
const DEVICES: &str = "/sys/bus/virtio/devices";
/// Modules get no parameters.
const NO_PARAMETERS: &CStr = c"";

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    path: &'a str,
    /// Numbers of the kinds of device that need it; empty: always needed.
    devices: Vec<u32>,
}

/// Loads what is needed, and says what went wrong.
pub(crate) fn load_needed() -> Vec<String> {
    // An image of one's own may bring none.
    let Ok(table) = fs::read_to_string(TABLE) else { return Vec::new() };
    let lines: Vec<Line<'_>> = table.lines().filter_map(Line::parse).collect();
    let mut problems = Vec::new();
    let (always, rest): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.devices.is_empty());
    problems.extend(always.iter().filter_map(load));
    let present = devices();
    problems.extend(rest.iter().filter(|line| line.is_needed(&present)).filter_map(load));
    problems
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let path = words.next()?;
        let devices = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Self { path, devices })
    }

    fn is_needed(&self, present: &BTreeSet<u32>) -> bool {
        self.devices.iter().any(|device| present.contains(device))
    }
}

fn load(line: &Line<'_>) -> Option<String> {
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
    fn a_module_is_needed_always_or_by_its_devices() {
        let line = Line::parse("/lib/modules/virtio_mmio.ko").unwrap();
        assert_eq!(line.devices, []);
        let line = Line::parse("/lib/modules/virtio_net.ko 1 4").unwrap();
        assert!(line.is_needed(&[4].into()));
        assert!(!line.is_needed(&[2].into()));
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        assert_eq!(Line::parse(""), None);
        assert_eq!(Line::parse("/lib/modules/a.ko net"), None);
    }

    #[test]
    fn a_devices_kind_is_a_hexadecimal_number() {
        assert_eq!(kind("0x0013\n"), Some(19));
        assert_eq!(kind("19"), None);
    }
}
