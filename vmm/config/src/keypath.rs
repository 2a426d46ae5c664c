//! Where in a configuration file something stands: `vm[1].memory`.

use std::fmt;

/// Keys and array indices from the top of the file down to one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl KeyPath {
    /// The path of `key` in the table at this path.
    pub fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    /// The path of item `index` of the array at this path.
    pub fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    let dot = if depth == 0 { "" } else { "." };
                    // Quoted as in TOML where it must be, so that an odd key cannot pass for a path.
                    if is_bare(key) { write!(f, "{dot}{key}")? } else { write!(f, "{dot}{key:?}")? }
                }
            }
        }
        Ok(())
    }
}

/// Whether TOML takes `key` without quotes.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_that_toml_quotes_is_quoted() {
        let path = KeyPath::default().key("vm").key("a.b").key("");
        assert_eq!(path.to_string(), "vm.\"a.b\".\"\"");
    }

    #[test]
    fn path_through_an_array_is_written_with_index_and_dots() {
        let path = KeyPath::default().key("vm").index(1).key("memory");
        assert_eq!(path.to_string(), "vm[1].memory");
    }
}
