//! Values that a configuration writes as text: durations, sizes, names, images.
//!
//! Each is a type that can only hold what is allowed: `FromStr` is the one way in, used by the configuration file, by
//! command lines and by tests alike, and its error says what is accepted. `Display` writes what `FromStr` reads.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::bounds;
use unit::{number_with_unit, write_with_unit};

/// Ties a text value into serde and into the schema. `format` is how the checker finds the value's `FromStr` again.
macro_rules! text_value {
    ($type:ident, $format:literal, { $($key:literal: $value:expr),* }) => {
        impl $type {
            /// Name of this kind of text in the schema's `format`.
            pub(crate) const FORMAT: &str = $format;
        }

        impl TryFrom<String> for $type {
            type Error = ValueError;

            fn try_from(text: String) -> Result<Self, ValueError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format, $($key: $value),* })
            }
        }
    };
}

mod cap;
mod devices;
mod error;
mod file;
mod pattern;
mod time;
mod unit;

pub use cap::{CapPeriod, CpuCap};
pub use devices::{DiskConfig, StationAddress, TapName};
pub use error::ValueError;
pub use file::FilePath;
pub use time::{HaltPoll, PolicyTime, Span, StarvationBound};

/// Units of memory, in bytes.
const SIZE_UNITS: [(&str, u64); 3] = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
const PAGE_BYTES: u64 = 4096;

/// Memory of a VM: whole pages, 4M to 64G.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemorySize(u64);

impl MemorySize {
    pub(super) const fn from_const(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for MemorySize {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (min, max) = (Self(bounds::MEMORY_MIN), Self(bounds::MEMORY_MAX));
        let accepted = || format!("{min} to {max}");
        let Some(bytes) = number_with_unit(text, &SIZE_UNITS) else {
            return Err(ValueError {
                wrong: format!("`{}` is not a memory size", text.escape_debug()),
                accepted: format!("a whole number with K, M or G, such as \"16M\"; {}", accepted()),
            });
        };
        let value = Self(bytes);
        if !(min..=max).contains(&value) {
            return Err(ValueError { wrong: format!("`{text}` is out of range"), accepted: accepted() });
        }
        if !bytes.is_multiple_of(PAGE_BYTES) {
            return Err(ValueError {
                wrong: format!("`{text}` is not a multiple of the page size, 4K"),
                accepted: format!("multiples of 4K, {}", accepted()),
            });
        }
        Ok(value)
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_unit(f, self.0, &SIZE_UNITS)
    }
}

/// Name of a VM or a network: 1 to 64 characters of a-z, 0-9, `-`, `_` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let accepted = format!("1 to {} characters of a-z, 0-9, `-`, `_` and `.`", bounds::NAME_MAX);
        let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
        let wrong = if text.is_empty() {
            "the name is empty".to_owned()
        } else if let Some(odd) = text.chars().find(|c| !allowed(*c)) {
            format!("`{}` is not allowed in a name", odd.escape_debug())
        } else if text.len() > bounds::NAME_MAX {
            format!("the name has {} characters", text.len())
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(ValueError { wrong, accepted })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the image of a VM comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ImageRef {
    /// An image embedded in stile, by name.
    Builtin(String),
    /// An image file.
    Path(PathBuf),
}

/// What an [`ImageRef`] starts with when it names an embedded image.
const BUILTIN: &str = "builtin:";

impl ImageRef {
    /// This image, with a relative path taken to start at `base`.
    pub fn relative_to(self, base: &Path) -> Self {
        match self {
            Self::Path(path) => Self::Path(base.join(path)),
            builtin @ Self::Builtin(_) => builtin,
        }
    }
}

impl FromStr for ImageRef {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (builtin, rest) = match text.strip_prefix(BUILTIN) {
            Some(name) => (true, name),
            None => (false, text),
        };
        if rest.is_empty() || rest.contains('\0') {
            let wrong = format!("`{}` names no image", text.escape_debug());
            return Err(ValueError { wrong, accepted: "builtin:NAME or the path of an image file".to_owned() });
        }
        Ok(if builtin { Self::Builtin(rest.to_owned()) } else { Self::Path(PathBuf::from(rest)) })
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => write!(f, "{BUILTIN}{name}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

text_value!(MemorySize, "memory-size", {
    "pattern": format!(
        "^({}|({})K)$",
        pattern::within(bounds::MEMORY_MIN, bounds::MEMORY_MAX, &SIZE_UNITS[..2]),
        pattern::fours(bounds::MEMORY_MIN >> 10, bounds::MEMORY_MAX >> 10)
    ),
    "x-range": format!("{} to {}", MemorySize(bounds::MEMORY_MIN), MemorySize(bounds::MEMORY_MAX))
});
text_value!(Name, "name", {
    "pattern": format!("^[a-z0-9_.-]{{1,{}}}$", bounds::NAME_MAX),
    "x-range": format!("1 to {} of a-z 0-9 - _ .", bounds::NAME_MAX)
});
text_value!(ImageRef, "image", {
    "pattern": r"^[^\x00]+$",
    "x-range": "builtin:NAME or a path"
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_at_both_ends_of_its_range_is_accepted() {
        assert_eq!("4M".parse::<MemorySize>().unwrap().bytes(), 4 << 20);
        assert_eq!("64G".parse::<MemorySize>().unwrap().bytes(), 64 << 30);
        assert_eq!("1G".parse::<MemorySize>().unwrap().to_string(), "1G");
        assert_eq!("4100K".parse::<MemorySize>().unwrap().to_string(), "4100K");
    }

    #[test]
    fn memory_of_zero_too_much_or_half_a_page_is_refused() {
        for text in ["0M", "65537M", "65G", "0"] {
            assert!(text.parse::<MemorySize>().unwrap_err().accepted.contains("4M to 64G"), "{text}");
        }
        assert!("4097K".parse::<MemorySize>().unwrap_err().wrong.contains("page size"));
    }

    #[test]
    fn name_with_a_character_that_is_not_allowed_shows_it() {
        let error = "Web server".parse::<Name>().unwrap_err();
        assert_eq!(error.wrong, "`W` is not allowed in a name");
        assert!("a".repeat(65).parse::<Name>().is_err());
        assert!("".parse::<Name>().is_err());
        assert!("a-b_c.9".parse::<Name>().is_ok());
    }

    #[test]
    fn relative_image_path_starts_at_the_base_and_builtin_does_not_move() {
        let base = Path::new("/etc/stile");
        let image = |text: &str| text.parse::<ImageRef>().unwrap().relative_to(base).to_string();
        assert_eq!(image("guest.elf"), "/etc/stile/guest.elf");
        assert_eq!(image("/boot/guest.elf"), "/boot/guest.elf");
        assert_eq!(image("builtin:hello"), "builtin:hello");
        assert!("builtin:".parse::<ImageRef>().is_err());
        assert!("".parse::<ImageRef>().is_err());
    }
}
