//! The configuration file: a TOML file with the host's CPUs, the policy and the VMs.
//!
//! [`Config::load`] either returns a configuration that this host can run or reports every mistake in the file at once
//! ([`ConfigError`]); it starts nothing and changes nothing. It does not look into images.
//!
//! 1. The text is parsed into a document that knows the span of each value.
//! 2. `check` walks the document beside the schema that is derived from the types: keys, types, ranges.
//! 3. `cross` adds what the schema cannot say: CPUs of this host, images, names that must differ.
//! 4. Only if nothing was found, serde makes a [`Config`] of it, and what depends on the host or on the file's place
//!    (default CPUs, relative paths) is filled in.
//!
//! Invariant: every key is described once, at the field that holds it. The schema, the checks, the messages and
//! `docs/configuration.md` follow from there.

mod algorithm;
mod bounds;
mod check;
mod cross;
pub mod defaults;
mod error;
mod formats;
mod keypath;
mod parts;
mod policy_keys;
mod policy_name;
mod reference;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod types;
mod values;
mod weights;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::de::{DeTable, Deserializer};

use stile_host::CpuList;

pub use algorithm::{Algorithm, Row, RunBy, Slots, WaitBound};
pub use check::{integer, list, nearest};
pub use error::{ConfigError, FileKind, Invalid, Problem};
pub use error::{Finding, Misplaced};
pub use keypath::KeyPath;
pub use parts::{policy_with, vm_of};
pub use policy_name::PolicyNameError;
pub use reference::page;
pub use reference::{reference_markdown, schema};
pub use types::{
    Config, GuestConfig, HostConfig, Mechanism, OnStarvation, PolicyConfig, RunQueues, Variant, VmClass, VmConfig,
    VmInterrupts, YieldRule,
};
pub use values::{
    CapPeriod, CpuCap, DiskConfig, FilePath, HaltPoll, ImageRef, MemorySize, Name, PolicyTime, Span, StarvationBound,
    StationAddress, TapName, ValueError,
};
pub use weights::weights_markdown;

/// The host's side of a configuration: what there is that its keys can name.
#[derive(Debug, Clone)]
pub struct LoadContext<'a> {
    /// CPUs that this process may use.
    pub pcpus_available: CpuList,
    /// Names that may follow `builtin:`.
    pub builtin_names: &'a [&'a str],
    /// A policy that replaces the file's `[policy]`.
    pub policy: Option<PolicyConfig>,
}

impl Config {
    /// Reads and checks the file at `path`.
    pub fn load(path: &Path, context: &LoadContext<'_>) -> Result<Self, ConfigError> {
        let text = text_of(FileKind::Configuration, path)?;
        Self::parse(&path.display().to_string(), &text, context)
    }

    /// Checks `text`, the content of a file called `file`: the name is for messages, and relative image paths start at
    /// its directory.
    pub fn parse(file: &str, text: &str, context: &LoadContext<'_>) -> Result<Self, ConfigError> {
        let base = Path::new(file).parent().unwrap_or(Path::new(""));
        let cross = |document: &DeTable<'_>| cross::check(document, base, context);
        let config: Self = read(FileKind::Configuration, (file, text), schema().as_value(), cross)?;
        Ok(config.settle(base, context))
    }

    /// Fills in what depends on the host, on where the file lies and on other keys.
    fn settle(mut self, base: &Path, context: &LoadContext<'_>) -> Self {
        if self.host.pcpus.is_empty() {
            self.host.pcpus = context.pcpus_available.clone();
        }
        for vm in &mut self.vms {
            vm.image = vm.image.take().map(|image| image.relative_to(base));
            vm.kernel = vm.kernel.take().map(|file| file.relative_to(base));
            vm.initrd = vm.initrd.take().map(|file| file.relative_to(base));
            vm.disk = vm.disk.take().map(|disk| disk.relative_to(base));
            vm.vsock = vm.vsock.take().map(|file| file.relative_to(base));
        }
        if let Some(policy) = &context.policy {
            self.policy = policy.clone();
        }
        let has_policy = !self.policy.algorithm.is_host();
        // Executors cannot carry vCPUs that wait inside the host's kernel.
        let waits_inside = |vm: &VmConfig| vm.kernel.is_some() && vm.interrupts == VmInterrupts::Kernel;
        if has_policy && self.policy.mechanism == Mechanism::Auto && self.vms.iter().any(waits_inside) {
            self.policy.mechanism = Mechanism::Leases;
        }
        self
    }
}

impl Config {
    /// Memory that all VMs have together (units: bytes).
    pub fn memory(&self) -> u64 {
        self.vms.iter().map(|vm| vm.memory().bytes().saturating_mul(vm.count.into())).fold(0, u64::saturating_add)
    }

    /// How long KVM polls for an event after a vCPU has halted. `None`: the setting of the host's KVM.
    pub fn halt_poll(&self) -> Option<Duration> {
        let vcpus: u64 = self.vms.iter().map(|vm| u64::from(vm.vcpus) * u64::from(vm.count)).sum();
        match self.host.halt_poll.duration() {
            None if vcpus > self.host.pcpus.len() as u64 => Some(Duration::ZERO),
            configured => configured,
        }
    }
}

/// The place of a VM's key in its file, such as "stile.toml:3:9", or that of the VM if it has no such key. For mistakes
/// that are found after the file was accepted. `None` if the file has changed since.
pub fn place_of(file: &Path, vm: usize, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let document = DeTable::parse(&text).ok()?;
    let vm = document.get_ref().get("vm")?.get_ref().as_array()?.get(vm)?;
    let span = vm.get_ref().as_table()?.get(key).map_or(vm.span(), toml::Spanned::span);
    let (line, column) = error::line_and_column(&text, span.start);
    Some(format!("{}:{line}:{column}", file.display()))
}

/// The text of the file at `path`.
pub fn text_of(kind: FileKind, path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { kind, path: path.to_owned(), source })
}

/// Reads `text`, the content of the file called `file`, unless the schema or `cross` finds a mistake in it. `cross`
/// checks what a schema cannot express.
pub fn read<T: DeserializeOwned>(
    kind: FileKind,
    (file, text): (&str, &str),
    schema: &Value,
    cross: impl FnOnce(&DeTable<'_>) -> Vec<Misplaced>,
) -> Result<T, ConfigError> {
    let invalid = |found, by_schema| ConfigError::invalid(kind, file, text, found, by_schema);
    let (document, errors) = DeTable::parse_recoverable(text);
    // What the parser finds after its first error is mostly that error again.
    if let Some(error) = errors.first() {
        return Err(invalid(vec![toml_mistake(error, text)], true));
    }
    let mut found = check::check(schema, document.get_ref(), text);
    let by_schema = !found.is_empty();
    found.extend(cross(document.get_ref()));
    if !found.is_empty() {
        return Err(invalid(found, by_schema));
    }
    T::deserialize(Deserializer::from(document)).map_err(|error| invalid(vec![toml_mistake(&error, text)], true))
}

/// A mistake that the TOML parser or serde found, the text being `text`.
fn toml_mistake(error: &toml::de::Error, text: &str) -> Misplaced {
    let finding = Finding { wrong: error.message().trim().replace('\n', ", "), label: "here".to_owned(), help: None };
    Misplaced { key: KeyPath::default(), span: error.span().unwrap_or(text.len()..text.len()), finding }
}
