//! The parameters of the guests' workloads that a user may set: which suite has which, and within which bounds.
//!
//! The guests check what they are given, too, but only once they run; what is refused here has started nothing.

use std::ops::RangeInclusive;
use stile_config::{list, nearest};
use stile_results::suite::Suite;

/// A number that some suites' guests take.
#[derive(Debug)]
struct Parameter {
    key: &'static str,
    suites: &'static [Suite],
    range: RangeInclusive<u64>,
    /// Of the number.
    unit: &'static str,
}

/// Most PAUSEs before a yield: a tenth of a second, about.
const SPINS: RangeInclusive<u64> = 0..=1_000_000;
/// Longest piece of work: a second, in which nothing else gets on in the guest's vCPU.
const WORK_NS: RangeInclusive<u64> = 0..=1_000_000_000;
const WORK_US: RangeInclusive<u64> = 0..=1_000_000;
/// Messages are numbered in 32 bits, and there are a few dozen of each.
const COUNT: RangeInclusive<u64> = 1..=1_000_000;

const LOCKS: &[Suite] = &[Suite::Ticket, Suite::Mixed, Suite::Threeway, Suite::Partition];
const PAIRS: &[Suite] = &[Suite::Pingpong, Suite::Threeway];
const MESSAGES: &[Suite] = &[Suite::Hackbench, Suite::Volano];
const SPINNERS: &[Suite] = &[
    Suite::Ticket,
    Suite::Pingpong,
    Suite::Mixed,
    Suite::Threeway,
    Suite::Partition,
    Suite::Interactive,
    Suite::Hackbench,
    Suite::Volano,
];

/// All of them. A key may stand here more than once, for suites that bound it differently.
#[rustfmt::skip] // a table
const PARAMETERS: [Parameter; 16] = [
    Parameter { key: "hold_ns",   suites: LOCKS,                 range: WORK_NS,        unit: "ns of work with the lock held" },
    Parameter { key: "gap_ns",    suites: LOCKS,                 range: WORK_NS,        unit: "ns of work without the lock" },
    Parameter { key: "work_ns",   suites: PAIRS,                 range: WORK_NS,        unit: "ns of work before each message" },
    Parameter { key: "spins",     suites: SPINNERS,              range: SPINS,          unit: "PAUSEs before a yield" },
    Parameter { key: "period_us", suites: &[Suite::Probe],       range: 100..=1_000_000, unit: "us from one wake to the next" },
    Parameter { key: "work_us",   suites: &[Suite::Probe],       range: WORK_US,        unit: "us of work after each wake" },
    Parameter { key: "fan",       suites: &[Suite::Hackbench],   range: 1..=64,         unit: "senders, and as many receivers, in a group" },
    Parameter { key: "loops",     suites: &[Suite::Hackbench],   range: COUNT,          unit: "messages of each sender to each receiver" },
    Parameter { key: "users",     suites: &[Suite::Volano],      range: 2..=64,         unit: "users in a room" },
    Parameter { key: "messages",  suites: &[Suite::Volano],      range: COUNT,          unit: "messages of each user" },
    Parameter { key: "corrupt",   suites: MESSAGES,              range: 0..=1,          unit: "(1 damages a message, which the run must notice)" },
    Parameter { key: "buffer_mb", suites: &[Suite::Interactive], range: 1..=1024,       unit: "MB that a memload copies" },
    Parameter { key: "jobs",      suites: &[Suite::Interactive], range: 1..=1816,       unit: "compilations of a build" },
    Parameter { key: "io_us",     suites: &[Suite::Interactive], range: 0..=1_000_000,  unit: "us for which a compilation waits for its files, each time" },
    Parameter { key: "touch_kb",  suites: &[Suite::Interactive], range: 0..=2048,       unit: "KB that each life of an execload writes" },
    Parameter { key: "work_us",   suites: &[Suite::Interactive], range: WORK_US,        unit: "us of work in each life of an execload" },
];

/// A parameter that cannot be set so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// None of the suites has it.
    #[error("{}", unknown(key, suites, known))]
    Unknown {
        /// What was given.
        key: String,
        /// The suites that are to run.
        suites: Vec<Suite>,
        /// The parameters they have.
        known: Vec<&'static str>,
    },
    /// The number does not fit.
    #[error("{key}={value} is out of range; {suite} accepts {} to {} {unit}", range.start(), range.end())]
    OutOfRange {
        /// The parameter.
        key: &'static str,
        /// What was given.
        value: u64,
        /// The suite.
        suite: Suite,
        /// What it accepts.
        range: RangeInclusive<u64>,
        /// Of what.
        unit: &'static str,
    },
}

fn unknown(key: &str, suites: &[Suite], known: &[&'static str]) -> String {
    let who = match suites {
        [one] => format!("the guests of {one}"),
        _ => "the guests of these suites".to_owned(),
    };
    let elsewhere: Vec<&str> =
        PARAMETERS.iter().filter(|p| p.key == key).flat_map(|p| p.suites).map(|s| s.name()).collect();
    let meant = match (nearest(key, known.iter().copied()), &elsewhere[..]) {
        (Some(near), _) => format!("did you mean `{near}`? "),
        (None, []) => String::new(),
        (None, others) => format!("it is a parameter of {}; ", stile_text::list(others)),
    };
    let accepted = if known.is_empty() {
        "there are none to set".to_owned()
    } else {
        format!("accepted: {}", list(known.iter().copied()))
    };
    format!("{who} have no parameter `{key}`; {meant}{accepted}")
}

fn parameters(suite: Suite) -> impl Iterator<Item = &'static Parameter> {
    const ALL: &[Parameter] = &PARAMETERS;
    ALL.iter().filter(move |parameter| parameter.suites.contains(&suite))
}

/// Whether a suite's guests take a parameter of this name.
pub(super) fn has(suite: Suite, key: &str) -> bool {
    parameters(suite).any(|parameter| parameter.key == key)
}

/// Finds what is wrong with these parameters, each of which one of the suites must have, and all that have it accept.
pub fn check<'a>(suites: &[Suite], settings: impl IntoIterator<Item = (&'a str, u64)>) -> Result<(), SettingError> {
    for (key, value) in settings {
        let mut owners = suites
            .iter()
            .flat_map(|&suite| parameters(suite).filter(|p| p.key == key).map(move |p| (suite, p)))
            .peekable();
        if owners.peek().is_none() {
            let mut known: Vec<&str> = suites.iter().flat_map(|&suite| parameters(suite)).map(|p| p.key).collect();
            known.sort_unstable();
            known.dedup();
            return Err(SettingError::Unknown { key: key.to_owned(), suites: suites.to_vec(), known });
        }
        if let Some((suite, &Parameter { key, ref range, unit, .. })) = owners.find(|(_, p)| !p.range.contains(&value))
        {
            return Err(SettingError::OutOfRange { key, value, suite, range: range.clone(), unit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(suites: &[Suite], key: &str, value: u64) -> String {
        check(suites, [(key, value)]).unwrap_err().to_string()
    }

    #[test]
    fn a_key_that_no_suite_has_is_refused_with_the_nearest_and_all_of_them() {
        let told = refused(&[Suite::Ticket], "hold_n", 500);
        assert_eq!(
            told,
            "the guests of ticket have no parameter `hold_n`; did you mean `hold_ns`? accepted: `gap_ns`, `hold_ns` or `spins`"
        );
        let told = refused(&[Suite::Ticket], "users", 3);
        assert!(told.contains("it is a parameter of volano; accepted: `gap_ns`"), "{told}");
        let told = refused(&[Suite::Netbench], "hold_ns", 3);
        assert!(
            told.ends_with("it is a parameter of ticket, mixed, threeway and partition; there are none to set"),
            "{told}"
        );
    }

    #[test]
    fn a_number_that_the_guests_would_refuse_is_refused_with_range_and_unit() {
        assert_eq!(
            refused(&[Suite::Volano], "users", 1),
            "users=1 is out of range; volano accepts 2 to 64 users in a room"
        );
        let told = refused(&[Suite::Hackbench], "fan", 65);
        assert!(told.contains("1 to 64 senders"), "{told}");
        for (key, least, most) in [("users", 2, 64), ("messages", 1, 1_000_000)] {
            assert_eq!(check(&[Suite::Volano], [(key, least), (key, most)]), Ok(()), "{key}");
        }
    }

    #[test]
    fn the_documentation_names_every_parameter_with_its_range() {
        let page = include_str!("../../../../docs/suites.md");
        let number = |n: u64| match n {
            1_000_000_000 => "10^9".to_owned(),
            1_000_000 => "10^6".to_owned(),
            n => n.to_string(),
        };
        for Parameter { key, suites, range, .. } in &PARAMETERS {
            let row = page.lines().find(|line| {
                let whose = suites.len() > 4 || suites.iter().all(|suite| line.contains(suite.name()));
                line.starts_with("| `") && line.contains(&format!("`{key}`")) && whose
            });
            let row = row.unwrap_or_else(|| panic!("no row for {key}"));
            let [least, most] = [range.start(), range.end()].map(|bound| number(*bound));
            assert!(
                [" to ", " or "].iter().any(|word| row.contains(&format!("{least}{word}{most}"))),
                "{key} from {least} to {most}: {row}"
            );
        }
    }

    #[test]
    fn of_several_suites_one_must_have_the_key() {
        let suites = [Suite::Volano, Suite::Hackbench];
        assert_eq!(check(&suites, [("users", 4), ("fan", 3), ("spins", 100)]), Ok(()));
        assert!(
            refused(&suites, "fans", 3)
                .contains("the guests of these suites have no parameter `fans`; did you mean `fan`?")
        );
        assert!(has(Suite::Volano, "users") && !has(Suite::Hackbench, "users"));
    }
}
