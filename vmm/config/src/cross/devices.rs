//! Devices of Linux guests: the file, tap or socket of each must exist or be possible to make, and belong to one VM.
//!
//! A device that another process uses is found only when the VM is made.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::check::integer;
use crate::error::{Finding, Misplaced};
use crate::keypath::KeyPath;
use crate::values::{DiskConfig, FilePath, TapName};
use stile_machine::devices::block::{Disk, DiskError};
use stile_machine::devices::net::{Tap, TapError};
use stile_machine::devices::vsock::{HostSocket, VsockError};

/// The keys of devices that only Linux guests have.
const KEYS: [&str; 3] = ["disk", "tap", "vsock"];

/// From the resource of each device to the path of its VM in the file, and whether several VMs may share the resource.
pub(super) type Taken = HashMap<String, (KeyPath, bool)>;

/// Returns a finding for each mistake in a VM's devices. Adds the devices' resources to `taken`.
pub(super) fn check(vm: &DeTable<'_>, base: &Path, path: &KeyPath, taken: &mut Taken) -> Vec<Misplaced> {
    let one = vm.get("count").and_then(|count| integer(count.get_ref())).is_none_or(|count| count == 1);
    let mut found = Vec::new();
    for key in KEYS {
        let Some(value) = vm.get(key) else { continue };
        let note = |finding| Misplaced { key: path.key(key), span: value.span(), finding };
        if !vm.contains_key("kernel") {
            let wrong = format!("only a Linux guest has a `{key}`");
            found.push(note(finding(wrong, "without `kernel`", "write `kernel` in place of `image`, or leave it out")));
            continue;
        }
        let Some((what, shared, wrong)) = device(key, value, base) else { continue };
        found.extend(wrong.map(note));
        if !one && !shared {
            let wrong = format!("{what} cannot be had by several VMs");
            let help = match key {
                "disk" => "set `read_only = true`, or write an entry for each VM",
                _ => "write an entry for each VM",
            };
            found.push(note(finding(wrong, "`count` is more than 1", help)));
        }
        match taken.get(&what) {
            Some((other, also)) if !(shared && *also) => {
                let help = match key {
                    "disk" => "give each VM a copy, or let all only read it: `read_only = true`",
                    _ => "give each VM its own",
                };
                found.push(note(finding(format!("{what} is taken by {other}"), "taken", help)));
            }
            _ => drop(taken.insert(what, (path.clone(), shared))),
        }
    }
    found
}

fn finding(wrong: String, label: &str, help: &str) -> Finding {
    Finding { wrong, label: label.to_owned(), help: Some(help.to_owned()) }
}

/// The resource of a device in words, whether several VMs may share it, and its mistake. `None` if the value has a
/// wrong type.
fn device(key: &str, value: &Spanned<DeValue<'_>>, base: &Path) -> Option<(String, bool, Option<Finding>)> {
    match key {
        "disk" => {
            let DiskConfig { path, read_only } = disk(value.get_ref())?.relative_to(base);
            let wrong = Disk::check(path.as_ref(), read_only).err();
            let wrong = wrong.map(|error| unusable(&error, "no disk here", &DiskError::remedy(&error)));
            Some((format!("the disk {path}"), read_only, wrong))
        }
        "tap" => {
            let name: TapName = value.get_ref().as_str()?.parse().ok()?;
            let wrong = Tap::check(name.as_str()).err();
            let wrong = wrong.map(|error| unusable(&error, "no tap", &TapError::remedy(&error)));
            Some((format!("the tap `{name}`"), false, wrong))
        }
        _ => {
            let path = value.get_ref().as_str()?.parse::<FilePath>().ok()?.relative_to(base);
            let wrong = HostSocket::check(path.as_ref()).err();
            let wrong = wrong.map(|error| unusable(&error, "no socket here", &VsockError::remedy(&error)));
            Some((format!("the socket {path}"), false, wrong))
        }
    }
}

fn disk(value: &DeValue<'_>) -> Option<DiskConfig> {
    let path = |value: &DeValue<'_>| value.as_str()?.parse().ok();
    match value {
        DeValue::Table(table) => {
            let read_only = table.get("read_only").map_or(Some(false), |value| value.get_ref().as_bool())?;
            Some(DiskConfig { path: path(table.get("path")?.get_ref())?, read_only })
        }
        text => Some(DiskConfig { path: path(text)?, read_only: false }),
    }
}

fn unusable(error: &dyn Error, label: &str, help: &str) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    finding(format!("{error}{cause}"), label, help)
}
