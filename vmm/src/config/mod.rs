//! The configuration file: one TOML file that says which CPUs, which policy, which virtual machines.
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

mod check;
mod cross;
pub mod defaults;
mod error;
mod keypath;
mod policy_name;
mod reference;
#[cfg(test)]
mod tests;
mod types;
mod values;

use std::fs;
use std::path::Path;

use toml::de::{DeTable, Deserializer};

use crate::host::CpuList;
use error::{Finding, Misplaced};
use keypath::KeyPath;

pub use error::{ConfigError, Invalid, Problem};
pub use policy_name::PolicyNameError;
pub use reference::{reference_markdown, schema};
pub use types::{
    Algorithm, Config, GoodnessSwitches, HostConfig, LockSwitches, Mechanism, OnStarvation, PolicyConfig,
    PoliteSwitches, Variant, VmClass, VmConfig, YieldRule,
};
pub use values::{CapPeriod, CpuCap, ImageRef, MemorySize, RrInterval, StarvationBound, ValueError, VmName};

/// What a configuration is held against.
#[derive(Debug, Clone)]
pub struct LoadContext<'a> {
    /// CPUs that this process may use.
    pub pcpus_available: CpuList,
    /// Names that may follow `builtin:`.
    pub builtin_names: &'a [&'a str],
}

impl Config {
    /// Reads and checks the file at `path`.
    pub fn load(path: &Path, context: &LoadContext<'_>) -> Result<Self, ConfigError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&path.display().to_string(), &text, context),
            Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
        }
    }

    /// Checks `text`, the content of a file called `file`: the name is for messages, and relative image paths start at
    /// its directory.
    pub fn parse(file: &str, text: &str, context: &LoadContext<'_>) -> Result<Self, ConfigError> {
        let invalid = |found| ConfigError::invalid(file, text, found);
        let (document, errors) = DeTable::parse_recoverable(text);
        // What the parser finds after its first error is mostly that error again.
        if let Some(error) = errors.first() {
            return Err(invalid(vec![toml_mistake(error, text)]));
        }
        let base = Path::new(file).parent().unwrap_or(Path::new(""));
        let mut found = check::check(schema().as_value(), document.get_ref(), text);
        found.extend(cross::check(document.get_ref(), base, context));
        if !found.is_empty() {
            return Err(invalid(found));
        }
        let config = serde::Deserialize::deserialize(Deserializer::from(document));
        let config: Self = config.map_err(|error| invalid(vec![toml_mistake(&error, text)]))?;
        Ok(config.settle(base, context))
    }

    /// Fills in what depends on the host and on where the file lies.
    fn settle(mut self, base: &Path, context: &LoadContext<'_>) -> Self {
        if self.host.pcpus.is_empty() {
            self.host.pcpus = context.pcpus_available.clone();
        }
        for vm in &mut self.vms {
            vm.image = vm.image.clone().relative_to(base);
        }
        self
    }
}

/// A mistake that the TOML parser or serde found, the text being `text`.
fn toml_mistake(error: &toml::de::Error, text: &str) -> Misplaced {
    let finding = Finding { wrong: error.message().trim().replace('\n', ", "), label: "here".to_owned(), help: None };
    Misplaced { key: KeyPath::default(), span: error.span().unwrap_or(text.len()..text.len()), finding }
}
