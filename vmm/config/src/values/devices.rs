//! The resources of a Linux guest's devices: the file of a disk, the name of a tap.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::error::ValueError;
use super::file::FilePath;
use super::pattern::within;
use stile_machine::devices::net::Tap;

/// A disk: its file, and whether the guest may write it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct DiskConfig {
    /// The file.
    pub path: FilePath,
    /// The guest may only read it.
    pub read_only: bool,
}

/// The disk as a configuration writes it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Path(FilePath),
    Table {
        path: FilePath,
        #[serde(default)]
        read_only: bool,
    },
}

impl From<Written> for DiskConfig {
    fn from(written: Written) -> Self {
        match written {
            Written::Path(path) => Self { path, read_only: false },
            Written::Table { path, read_only } => Self { path, read_only },
        }
    }
}

impl From<DiskConfig> for Written {
    fn from(DiskConfig { path, read_only }: DiskConfig) -> Self {
        if read_only { Self::Table { path, read_only } } else { Self::Path(path) }
    }
}

impl DiskConfig {
    /// This disk, with a relative path taken to start at `base`.
    pub fn relative_to(self, base: &Path) -> Self {
        Self { path: self.path.relative_to(base), ..self }
    }
}

impl JsonSchema for DiskConfig {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DiskConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let path = generator.subschema_for::<FilePath>();
        json_schema!({
            "anyOf": [
                path,
                {
                    "type": "object",
                    "properties": {
                        "path": path,
                        "read_only": { "type": "boolean", "default": false }
                    },
                    "required": ["path"],
                    "additionalProperties": false
                }
            ],
            "x-range": "a path, or { path = \"...\", read_only = true }"
        })
    }
}

/// Name of a tap interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TapName(String);

impl TapName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TapName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if !Tap::is_name(text) {
            let wrong = format!("`{}` is no name of a network interface", text.escape_debug());
            return Err(ValueError {
                wrong,
                accepted: "1 to 15 characters without spaces, `/`, `:` and `%`".to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_value!(TapName, "tap", {
    // ASCII without spaces, `%`, `/` and `:`.
    "pattern": "^[!-$&-.0-9;-~]{1,15}$",
    "x-range": "the name of a tap"
});

/// An IPv4 address of one station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StationAddress(Ipv4Addr);

impl StationAddress {
    /// The address.
    pub fn get(self) -> Ipv4Addr {
        self.0
    }
}

impl FromStr for StationAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let accepted = || "an IPv4 address of one station, such as 10.0.0.5".to_owned();
        let address: Ipv4Addr = text.parse().map_err(|_| ValueError {
            wrong: format!("`{}` is no IPv4 address", text.escape_debug()),
            accepted: accepted(),
        })?;
        if address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback() {
            return Err(ValueError {
                wrong: format!("`{address}` is the address of no station"),
                accepted: accepted(),
            });
        }
        Ok(Self(address))
    }
}

impl fmt::Display for StationAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The pattern of an address: not one of this network (0), of this host (127), or of groups (from 224 on).
fn station_pattern() -> String {
    let byte = |first, last| within(first, last, &[("", 1)]);
    format!("^({}|{}|{})(\\.({})){{3}}$", byte(1, 126), byte(128, 223), byte(240, 254), byte(0, 255))
}

text_value!(StationAddress, "station", {
    "pattern": station_pattern(),
    "x-range": "an IPv4 address"
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_path_or_a_table_and_is_written_as_shortly_as_it_can_be() {
        let read = |text: &str| serde_json::from_str::<DiskConfig>(text).unwrap();
        let (plain, table) = (read(r#""a.img""#), read(r#"{"path":"a.img"}"#));
        assert_eq!(plain, table);
        assert!(!plain.read_only);
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#""a.img""#);
        let guarded = read(r#"{"path":"a.img","read_only":true}"#);
        assert_eq!(serde_json::to_string(&guarded).unwrap(), r#"{"path":"a.img","read_only":true}"#);
        assert_eq!(guarded.relative_to(Path::new("/srv")).path.to_string(), "/srv/a.img");
    }

    #[test]
    fn addresses_of_groups_and_of_nobody_are_no_stations() {
        assert_eq!("10.0.0.5".parse::<StationAddress>().unwrap().get(), Ipv4Addr::new(10, 0, 0, 5));
        for text in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1", "10.0.0", "10.0.0.05", "::1", "a.b.c.d"] {
            assert!(text.parse::<StationAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_schema_says_of_an_address_is_what_is_accepted() {
        let pattern = regex::Regex::new(&station_pattern()).unwrap();
        for first in 0..=255 {
            for text in [format!("{first}.0.9.255"), format!("{first}.0.09.255"), format!("{first}.0.0.256")] {
                let accepted = text.parse::<StationAddress>().is_ok();
                assert!(accepted || !pattern.is_match(&text), "{text}");
                // The schema leaves out what nobody has: addresses of this network, and the last of the reserved ones.
                assert!(!accepted || pattern.is_match(&text) || [0, 255].contains(&first), "{text}");
            }
        }
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        assert_eq!("tap0".parse::<TapName>().unwrap().to_string(), "tap0");
        assert!("../tap0".parse::<TapName>().unwrap_err().wrong.contains("no name of a network interface"));
    }
}
