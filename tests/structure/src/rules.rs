//! The rules by name.

use std::path::{Path, PathBuf};

use crate::circles::{between_files, between_folders};
use crate::crates::{Crate, StructureError, read, roots};

/// Most lines of README.md.
const README_LINES_MAX: usize = 150;

/// A rule that the sources of a workspace keep.
pub struct Rule {
    /// The rule in words.
    pub name: &'static str,
    /// Returns a text for each break of the rule in the workspace at the given root.
    pub check: fn(&Path) -> Result<Vec<String>, StructureError>,
}

/// Folders form no circle. See the crate's docs for what an arrow is.
pub const FOLDER_CIRCLES: Rule =
    Rule { name: "no circle between folders", check: |root| of_crates(root, between_folders) };

/// A circle has at most three files.
pub const FILE_CIRCLES: Rule =
    Rule { name: "no circle of more than three files", check: |root| of_crates(root, between_files) };

/// README.md has at most 150 lines.
pub const README_LENGTH: Rule = Rule { name: "a README of at most 150 lines", check: readme_length };

/// Comment lines keep to rustfmt's `max_width`, which rustfmt does not check.
pub const COMMENT_WIDTH: Rule = Rule { name: "no comment line over the width", check: comment_width };

/// No diagnostics on the path of a decision or an exit, which a level that is off would still cost a branch.
pub const SILENT_PATHS: Rule =
    Rule { name: "no diagnostics on the path of a decision or an exit", check: silent_paths };

/// The page on security names no test that there is not: a promise without one is none.
pub const NAMED_TESTS: Rule = Rule { name: "docs/security.md names tests that there are", check: named_tests };

/// All rules.
pub const RULES: [Rule; 6] = [FOLDER_CIRCLES, FILE_CIRCLES, README_LENGTH, COMMENT_WIDTH, SILENT_PATHS, NAMED_TESTS];

/// Crates whose code runs for every decision, exit or request of a device.
const SILENT: [&str; 2] = ["sched", "vmm/machine"];
/// Files of these crates that make and end VMs, and run for nothing else.
const MAY_SPEAK: [&str; 3] =
    ["vmm/machine/src/vm/status.rs", "vmm/machine/src/vm/vcpu_set.rs", "vmm/machine/src/vm/console/loss.rs"];

fn of_crates(root: &Path, check: fn(&Crate, &Path) -> Vec<String>) -> Result<Vec<String>, StructureError> {
    let mut broken = Vec::new();
    for crate_root in roots(root)? {
        broken.extend(check(&Crate::read(&crate_root)?, root));
    }
    Ok(broken)
}

fn readme_length(root: &Path) -> Result<Vec<String>, StructureError> {
    let lines = read(&root.join("README.md"))?.lines().count();
    Ok(if lines > README_LINES_MAX { vec![format!("README.md has {lines} lines")] } else { Vec::new() })
}

fn comment_width(root: &Path) -> Result<Vec<String>, StructureError> {
    let options: toml::Table = read(&root.join("rustfmt.toml"))?.parse().map_err(|_| StructureError::Width)?;
    let max = options.get("max_width").and_then(toml::Value::as_integer).ok_or(StructureError::Width)? as usize;
    let mut wide = Vec::new();
    for path in sources(root)? {
        for (index, line) in read(&path)?.lines().enumerate() {
            let columns = line.chars().count();
            if columns > max && line.trim_start().starts_with("//") {
                let path = path.strip_prefix(root).unwrap_or(&path).display();
                wide.push(format!("{path}:{} has {columns} columns", index + 1));
            }
        }
    }
    Ok(wide)
}

fn silent_paths(root: &Path) -> Result<Vec<String>, StructureError> {
    let mut loud = Vec::new();
    for folder in SILENT.map(|folder| root.join(folder)).iter().filter(|folder| folder.is_dir()) {
        for path in sources(folder)? {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let is_call = |line: &str| !line.trim_start().starts_with("//") && line.contains("tracing::");
            let lines = read(&path)?;
            let calls = lines.lines().enumerate().filter(|(_, line)| is_call(line));
            let calls = calls.filter(|_| !MAY_SPEAK.contains(&name.as_str()));
            loud.extend(calls.map(|(index, _)| format!("{name}:{} uses tracing", index + 1)));
        }
    }
    Ok(loud)
}

fn named_tests(root: &Path) -> Result<Vec<String>, StructureError> {
    let page = read(&root.join("docs/security.md"))?;
    let functions = sources(root)?.iter().map(|path| read(path)).collect::<Result<String, _>>()?;
    let is_there = |quoted: &str| match quoted.strip_suffix("...") {
        _ if quoted.ends_with(".rs") => root.join(quoted).is_file(),
        Some(beginning) => functions.contains(&format!("fn {beginning}")),
        None => functions.contains(&format!("fn {quoted}(")),
    };
    let quoted = page.split('`').skip(1).step_by(2).filter(|quoted| is_of_test(quoted));
    Ok(quoted.filter(|quoted| !is_there(quoted)).map(|quoted| format!("docs/security.md names {quoted}")).collect())
}

/// Whether a quoted text is the path of a source file or, being a sentence, the name of a test.
fn is_of_test(quoted: &str) -> bool {
    let is_sentence = quoted.matches('_').count() >= 3;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
    (quoted.ends_with(".rs") && quoted.contains('/')) || (is_sentence && quoted.chars().all(is_name))
}

/// All Rust files below `folder`, except built and hidden ones.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, StructureError> {
    let error = |source| StructureError::Read { path: folder.into(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let (path, name) = (entry.path(), entry.file_name());
        if name == "target" || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().map_err(error)?.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
