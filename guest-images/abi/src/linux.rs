//! What a Linux guest's first process and its host agree on.
//!
//! *Orders* go in on the kernel's command line, as `stile.run="ORDER; ORDER"` (`docs/linux.md` lists them). *Reports*
//! come out as lines of text: to port [`REPORT_PORT`] of the host over vsock, if a program listens there, and on the
//! console after [`CONSOLE_PREFIX`]. On the console a program's output stands as it is.

use core::fmt;

/// Parameter of the kernel's command line that holds the orders.
pub const ORDERS: &str = "stile.run=";
/// vsock port of the host to which reports go.
pub const REPORT_PORT: u32 = 7700;
/// The line that the host writes on the connection of reports to open the gate at which the guest waits.
pub const OPEN: &str = "open";
/// Prefix of reports on the console.
pub const CONSOLE_PREFIX: &str = "stile: ";

/// A line of a guest's report. Its text form is that of [`fmt::Display`], without the end of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report<'a> {
    /// The first process runs, so long after the kernel began to count time (units: microseconds).
    Started {
        /// The time.
        after_us: u64,
    },
    /// An order is begun.
    Begin {
        /// Its number, from 0.
        order: u32,
        /// Its words.
        words: &'a str,
    },
    /// A line that an order's program printed.
    Output {
        /// Its number.
        order: u32,
        /// The line.
        line: &'a str,
    },
    /// An order was carried out, or failed.
    End {
        /// Its number.
        order: u32,
        /// How long it took (units: microseconds).
        took_us: u64,
        /// Why it failed, if it did.
        failure: Option<&'a str>,
    },
    /// Nothing is left to do: the guest powers off if all went well, and restarts if not.
    Finished {
        /// Whether all orders were carried out.
        well: bool,
    },
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Started { after_us } => write!(f, "started {after_us}"),
            Self::Begin { order, words } => write!(f, "begin {order} {words}"),
            Self::Output { order, line } => write!(f, "output {order} {line}"),
            Self::End { order, took_us, failure: None } => write!(f, "end {order} {took_us} ok"),
            Self::End { order, took_us, failure: Some(why) } => write!(f, "end {order} {took_us} failed {why}"),
            Self::Finished { well: true } => f.write_str("finished ok"),
            Self::Finished { well: false } => f.write_str("finished failed"),
        }
    }
}

impl<'a> Report<'a> {
    /// The report that a line is, if it is one.
    pub fn parse(line: &'a str) -> Option<Self> {
        let word = |text: &'a str| text.split_once(' ').unwrap_or((text, ""));
        let (kind, rest) = word(line);
        let (first, text) = word(rest);
        match kind {
            "started" => Some(Self::Started { after_us: rest.parse().ok()? }),
            "begin" => Some(Self::Begin { order: first.parse().ok()?, words: text }),
            "output" => Some(Self::Output { order: first.parse().ok()?, line: text }),
            "end" => {
                let (took, result) = word(text);
                let failure = match word(result) {
                    ("ok", "") => None,
                    ("failed", why) => Some(why),
                    _ => return None,
                };
                Some(Self::End { order: first.parse().ok()?, took_us: took.parse().ok()?, failure })
            }
            "finished" => match rest {
                "ok" => Some(Self::Finished { well: true }),
                "failed" => Some(Self::Finished { well: false }),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_is_read_as_it_was_written() {
        let reports = [
            Report::Started { after_us: 812_345 },
            Report::Begin { order: 0, words: "hackbench -g 1" },
            Report::Output { order: 0, line: "Time: 0.123" },
            Report::Output { order: 1, line: "" },
            Report::Output { order: 1, line: "  two  spaces " },
            Report::End { order: 0, took_us: 5, failure: None },
            Report::End { order: 7, took_us: 5, failure: Some("exit code 1") },
            Report::Finished { well: true },
            Report::Finished { well: false },
        ];
        for report in reports {
            assert_eq!(Report::parse(&report.to_string()), Some(report));
        }
    }

    #[test]
    fn what_is_no_report_is_none() {
        for line in ["", "started", "started soon", "begin", "end 1 2", "end 1 2 maybe", "finished", "hello"] {
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
