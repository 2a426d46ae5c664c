//! A VM is either a Linux guest or a unikernel: keys that only one of them has, and limits that differ.
//!
//! Whether a file is a kernel is not checked here but by the loader.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::bounds;
use crate::check::integer;
use crate::error::{Finding, Misplaced};
use crate::keypath::KeyPath;
use crate::values::{FilePath, MemorySize};

/// Returns a finding for each mistake in the keys of the VM at `path` that depend on its kind of guest. `mechanism` is
/// the one that the policy names.
pub(super) fn check(vm: &Spanned<DeValue<'_>>, base: &Path, mechanism: Option<&str>, path: &KeyPath) -> Vec<Misplaced> {
    let Some(table) = vm.get_ref().as_table() else { return Vec::new() };
    let note = |key: &str, wrong: String, label: &str, help: &str| {
        let span = table.get(key).map_or(vm.span(), Spanned::span);
        let finding = Finding { wrong, label: label.to_owned(), help: Some(help.to_owned()) };
        Misplaced { key: path.key(key), span, finding }
    };
    let has = |key: &str| table.contains_key(key);
    match (has("image"), has("kernel")) {
        (false, false) => vec![note(
            "image",
            "one of the keys `image` and `kernel` is needed".to_owned(),
            "needs `image` or `kernel`",
            "accepted: image = builtin:NAME or a path, or kernel = the path of a Linux kernel",
        )],
        (true, true) => vec![note(
            "kernel",
            "a VM has an `image` or a `kernel`, not both".to_owned(),
            "beside `image`",
            "leave one of them out",
        )],
        (true, false) => unikernel(table).map(|(key, wrong, label, help)| note(key, wrong, label, &help)).collect(),
        (false, true) => {
            let files = ["kernel", "initrd"].into_iter().filter_map(|key| {
                let wrong = file(table, key, base)?;
                Some(note(key, wrong, "no file here", "accepted: the path of a file, relative to this one"))
            });
            files
                .chain(linux(table, mechanism).map(|(key, wrong, label, help)| note(key, wrong, label, &help)))
                .collect()
        }
    }
}

/// A key, its mistake, a label of two words, and what would be accepted.
type Wrong = (&'static str, String, &'static str, String);

/// Mistakes in the keys of a unikernel.
fn unikernel(vm: &DeTable<'_>) -> impl Iterator<Item = Wrong> {
    let initrd = vm.get("initrd").map(|_| {
        let help = "write `kernel` in place of `image`, or leave it out".to_owned();
        ("initrd", "only a Linux guest has an `initrd`".to_owned(), "without `kernel`", help)
    });
    let interrupts = text(vm, "interrupts").filter(|interrupts| *interrupts != "auto").map(|_| {
        let help = "write `kernel` in place of `image`, or leave it out".to_owned();
        ("interrupts", "only a Linux guest has `interrupts`".to_owned(), "without `kernel`", help)
    });
    let features = ["nested", "counters"].into_iter().filter_map(|key| {
        let asked = vm.get(key)?.get_ref().as_bool()?;
        let help = "write `kernel` in place of `image`, or leave it out".to_owned();
        asked.then(|| (key, format!("only a Linux guest has `{key}`"), "without `kernel`", help))
    });
    let most = MemorySize::from_const(bounds::UNIKERNEL_MEMORY_MAX);
    let memory = text(vm, "memory").and_then(|text| text.parse::<MemorySize>().ok()).filter(|memory| *memory > most);
    let memory = memory.map(|memory| {
        let wrong = format!("`{memory}` is out of range for an `image`");
        ("memory", wrong, "out of range", format!("accepted: {} to {most}", MemorySize::from_const(bounds::MEMORY_MIN)))
    });
    let most = stile_abi::CMDLINE_MAX;
    let cmdline = text(vm, "cmdline").map(str::len).filter(|length| *length > most).map(|length| {
        ("cmdline", format!("the text has {length} bytes"), "too long", format!("accepted: at most {most} bytes"))
    });
    [initrd, interrupts, memory, cmdline].into_iter().flatten().chain(features)
}

/// Mistakes in the keys of a Linux guest.
fn linux(vm: &DeTable<'_>, mechanism: Option<&str>) -> impl Iterator<Item = Wrong> {
    let most = bounds::LINUX_VCPUS_MAX;
    let vcpus = vm.get("vcpus").and_then(|vcpus| integer(vcpus.get_ref()));
    let vcpus = vcpus.filter(|vcpus| (i64::from(most) + 1..=bounds::VCPUS_MAX.into()).contains(vcpus)).map(|vcpus| {
        let wrong = format!("{vcpus} is out of range for a Linux guest");
        ("vcpus", wrong, "out of range", format!("accepted: 1 to {most}"))
    });
    let executors = mechanism.is_some_and(|mechanism| mechanism == "executors");
    let interrupts = text(vm, "interrupts").filter(|interrupts| executors && *interrupts == "kernel").map(|_| {
        let wrong = "`interrupts = \"kernel\"` cannot go with `mechanism = \"executors\"`: a halted vCPU would sleep inside \
                     the kernel, and with it the only thread of its pCPU";
        let help = "write `interrupts = \"user\"`, or set `mechanism` to \"leases\"".to_owned();
        ("interrupts", wrong.to_owned(), "in the kernel", help)
    });
    [vcpus, interrupts].into_iter().flatten()
}

/// Why the value of this key is no file; `None` if it is one.
fn file(vm: &DeTable<'_>, key: &str, base: &Path) -> Option<String> {
    let file = text(vm, key)?.parse::<FilePath>().ok()?.relative_to(base);
    let path: &Path = file.as_ref();
    if path.is_file() {
        return None;
    }
    let state = if path.exists() { "is not a file" } else { "does not exist" };
    Some(format!("the {key} {file} {state}"))
}

fn text<'a>(vm: &'a DeTable<'_>, key: &str) -> Option<&'a str> {
    vm.get(key)?.get_ref().as_str()
}
