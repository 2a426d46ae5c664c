//! The path of a file that a VM needs.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::error::ValueError;

/// The path of a file; a relative one starts at the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePath(PathBuf);

impl FilePath {
    /// This file, with a relative path taken to start at `base`.
    pub fn relative_to(self, base: &Path) -> Self {
        Self(base.join(self.0))
    }
}

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl FromStr for FilePath {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() || text.contains('\0') {
            let wrong = format!("`{}` names no file", text.escape_debug());
            return Err(ValueError { wrong, accepted: "the path of a file".to_owned() });
        }
        Ok(Self(PathBuf::from(text)))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

text_value!(FilePath, "file", {
    "pattern": r"^[^\x00]+$",
    "x-range": "a path"
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_starts_at_the_base_and_an_empty_one_is_refused() {
        let file = |text: &str| text.parse::<FilePath>().unwrap().relative_to(Path::new("/etc/stile")).to_string();
        assert_eq!(file("vmlinuz"), "/etc/stile/vmlinuz");
        assert_eq!(file("/boot/vmlinuz"), "/boot/vmlinuz");
        assert!("".parse::<FilePath>().unwrap_err().wrong.contains("names no file"));
        assert!("a\0b".parse::<FilePath>().is_err());
    }
}
