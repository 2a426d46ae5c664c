//! The rules that the sources of this workspace keep, and the checks that enforce them.
//!
//! [`RULES`] lists them: no circle between folders, no circle of more than three files, a short README, no comment line
//! over the width, no diagnostics on the path of a decision or an exit. Each rule takes the root of a workspace and
//! returns the places that break it. `cargo run -p stile-structure -- PATH` prints what the workspace at PATH breaks.
//!
//! # What counts as an arrow
//! A file of a crate has an arrow to another file of the same crate when it names an item that the other file defines.
//! * Paths are resolved through `crate`, `self`, `super`, modules and `use`. A name that is re-exported counts as an
//!   arrow to the file that defines it, not to the file that re-exports it. A name of another crate counts as defined
//!   by the file that imports it from there.
//! * Paths inside macro calls, macro definitions and attributes count. Links in docs do not.
//! * `mod child;` and `pub use child::Item;` are no arrows from the parent to the child. A module that a path only
//!   passes through gets no arrow. A glob import is an arrow to the module's file.
//! * Code that only tests compile is left out: `#[cfg(test)]`, `#[test]`, `tests/`, `benches/` and `examples/`.
//!
//! Calls of methods and uses of fields name no path; they are not seen.

mod circles;
mod crates;
mod names;
mod reader;
mod rules;

pub use crates::StructureError;
pub use rules::{COMMENT_WIDTH, FILE_CIRCLES, FOLDER_CIRCLES, NAMED_TESTS, README_LENGTH, RULES, Rule, SILENT_PATHS};
