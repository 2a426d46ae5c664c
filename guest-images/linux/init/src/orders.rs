//! Orders: how they stand on the kernel's command line, and what they ask.

use crate::attack::Attack;
use std::time::Duration;

/// What a guest is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Do nothing for this long, or for good.
    Idle(Option<Duration>),
    /// Wait until the host says that the guest may go on.
    Gate,
    /// Give the user a shell on the console.
    Shell,
    /// Fill the beginning of a disk or file with a pattern and have it written.
    Write(Extent),
    /// Look whether it holds that pattern.
    Check(Extent),
    /// Attack the monitor by the guest's devices, which have no drivers from then on.
    Attack(Attack),
    /// Run a program of the image until it ends, or go on meanwhile.
    Program {
        /// Its name and arguments.
        words: Vec<String>,
        /// Go on.
        background: bool,
    },
}

/// The beginning of a disk or file, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The disk or file.
    pub(crate) path: String,
    /// How much of it (units: bytes).
    pub(crate) size: u64,
    /// Which pattern.
    pub(crate) seed: u64,
}

/// Why an order cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum OrderError {
    #[error("an order without words")]
    Empty,
    #[error("`idle` takes seconds or nothing, not `{0}`")]
    Idle(String),
    #[error("`attack` takes seconds and a number that chooses the sequence, not `{0}`")]
    Attack(String),
    #[error("`{0}` takes a path, a size in bytes or with K, M or G, and a number that chooses the pattern")]
    Extent(String),
}

/// The value of a parameter of a kernel's command line. Quotes enclose spaces and are no part of values.
pub(crate) fn parameter(command_line: &str, name: &str) -> Option<String> {
    let mut quoted = false;
    let outside = |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    };
    // From front to back, for what a space is depends on the quotes before it.
    let words: Vec<String> = command_line.split(outside).map(|word| word.replace('"', "")).collect();
    words.iter().rev().find_map(|word| word.strip_prefix(name).map(str::to_owned))
}

/// The orders of the parameter.
pub(crate) fn split(text: &str) -> Vec<&str> {
    text.split(';').map(str::trim).filter(|order| !order.is_empty()).collect()
}

impl Order {
    /// What an order's words ask.
    pub(crate) fn parse(text: &str) -> Result<Self, OrderError> {
        let (text, background) = match text.trim().strip_suffix('&') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [] => Err(OrderError::Empty),
            ["idle"] => Ok(Self::Idle(None)),
            ["idle", seconds] => {
                time(seconds).map(|time| Self::Idle(Some(time))).ok_or_else(|| OrderError::Idle(seconds.to_owned()))
            }
            ["attack", ref words @ ..] => {
                let attack = match *words {
                    [seconds, seed] => time(seconds).zip(seed.parse().ok()),
                    _ => None,
                };
                let attack = attack.map(|(time, seed)| Self::Attack(Attack { time, seed }));
                attack.ok_or_else(|| OrderError::Attack(words.join(" ")))
            }
            ["gate"] => Ok(Self::Gate),
            ["shell"] => Ok(Self::Shell),
            ["write", ref extent @ ..] => Extent::parse("write", extent).map(Self::Write),
            ["check", ref extent @ ..] => Extent::parse("check", extent).map(Self::Check),
            _ => Ok(Self::Program { words: words.iter().map(|word| (*word).to_owned()).collect(), background }),
        }
    }
}

impl Extent {
    fn parse(order: &str, words: &[&str]) -> Result<Self, OrderError> {
        let wrong = || OrderError::Extent(order.to_owned());
        let [path, bytes, seed] = *words else { return Err(wrong()) };
        let (size, seed) = (size(bytes).ok_or_else(wrong)?, seed.parse().map_err(|_| wrong())?);
        Ok(Self { path: path.to_owned(), size, seed })
    }
}

/// A number of seconds.
fn time(seconds: &str) -> Option<Duration> {
    seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// A number of bytes, such as 4096 or 16M.
fn size(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "stile.run=";

    #[test]
    fn the_parameter_is_found_quoted_either_way_and_the_last_one_counts() {
        let value = |line: &str| parameter(line, NAME);
        assert_eq!(value("console=ttyS0 stile.run=\"echo a b; idle\" quiet\n"), Some("echo a b; idle".into()));
        assert_eq!(value("\"stile.run=echo a b\" quiet"), Some("echo a b".into()));
        assert_eq!(value("stile.run=idle stile.run=hackbench"), Some("hackbench".into()));
        assert_eq!(value("my.stile.run=idle quiet"), None);
    }

    #[test]
    fn orders_are_separated_by_semicolons() {
        assert_eq!(split(" echo a b;; idle 1 ;"), ["echo a b", "idle 1"]);
        assert_eq!(split(""), [""; 0]);
    }

    #[test]
    fn programs_run_before_what_follows_or_beside_it() {
        let program = |background| Order::Program { words: vec!["tbench_srv".into(), "-x".into()], background };
        assert_eq!(Order::parse("tbench_srv -x"), Ok(program(false)));
        assert_eq!(Order::parse("tbench_srv -x &"), Ok(program(true)));
    }

    #[test]
    fn own_orders_take_their_arguments() {
        assert_eq!(Order::parse("idle"), Ok(Order::Idle(None)));
        assert_eq!(Order::parse("idle 0.5"), Ok(Order::Idle(Some(Duration::from_millis(500)))));
        assert_eq!(Order::parse("gate"), Ok(Order::Gate));
        let attack = Attack { time: Duration::from_secs(5), seed: 9 };
        assert_eq!(Order::parse("attack 5 9"), Ok(Order::Attack(attack)));
        assert_eq!(Order::parse("attack 5"), Err(OrderError::Attack("5".into())));
        let extent = Extent { path: "/dev/vda".into(), size: 16 << 20, seed: 7 };
        assert_eq!(Order::parse("write /dev/vda 16M 7"), Ok(Order::Write(extent.clone())));
        assert_eq!(Order::parse("check /dev/vda 16384K 7"), Ok(Order::Check(extent)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["", "&", "idle soon", "idle -1", "write", "write /dev/vda 16X 7", "check /dev/vda 99999999999G 1"]
        {
            assert!(Order::parse(text).is_err(), "{text}");
        }
    }
}
