//! `key=value` words of the command line.

use core::fmt;

/// A command-line word that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct BadValue<'a> {
    key: &'a str,
    value: &'a str,
}

impl fmt::Display for BadValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command line: {}={} is not a whole number", self.key, self.value)
    }
}

/// The last value given for `key`.
pub fn get<'a>(cmdline: &'a str, key: &str) -> Option<&'a str> {
    cmdline.split_ascii_whitespace().filter_map(|word| word.split_once('=')).rfind(|(k, _)| *k == key).map(|(_, v)| v)
}

/// The last value given for `key` as a number, or `default` where the key is not given.
pub fn number<'a>(cmdline: &'a str, key: &'a str, default: u64) -> Result<u64, BadValue<'a>> {
    match get(cmdline, key) {
        None => Ok(default),
        Some(value) => value.parse().map_err(|_| BadValue { key, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_counts() {
        assert_eq!(get("a=1 quiet b=2 a=3", "a"), Some("3"));
        assert_eq!(get("a=1", "b"), None);
    }

    #[test]
    fn a_missing_number_is_the_default_and_a_bad_one_an_error() {
        assert_eq!(number("x=7", "x", 1), Ok(7));
        assert_eq!(number("", "x", 1), Ok(1));
        assert!(number("x=7us", "x", 1).is_err());
    }
}
