//! The parameters that `--set` takes: the suites that have them, and their ranges.
//!
//! Guests check their parameters as well, but only once they run. A parameter that is refused here has started nothing.

use std::ops::RangeInclusive;
use stile_config::{list, nearest};
use stile_suites::{Parameter, Suite};

/// A parameter that cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// None of the suites has the parameter.
    #[error("{}", unknown(key, suites, known))]
    Unknown {
        /// The name on the command line.
        key: String,
        /// The suites to run.
        suites: Vec<Suite>,
        /// The parameters that they have.
        known: Vec<&'static str>,
    },
    /// The value is out of range.
    #[error("{key}={value} is out of range; {suite} accepts {} to {} {unit}", range.start(), range.end())]
    OutOfRange {
        /// The parameter.
        key: &'static str,
        /// The value on the command line.
        value: u64,
        /// The suite.
        suite: Suite,
        /// The accepted range.
        range: RangeInclusive<u64>,
        /// The unit.
        unit: &'static str,
    },
}

fn unknown(key: &str, suites: &[Suite], known: &[&'static str]) -> String {
    let named = match suites {
        [one] => format!("the guests of {one}"),
        _ => "the guests of these suites".to_owned(),
    };
    let has_it = |suite: &Suite| suite.parameter(key).is_some();
    let elsewhere: Vec<&str> = Suite::ALL.into_iter().filter(has_it).map(Suite::name).collect();
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
    format!("{named} have no parameter `{key}`; {meant}{accepted}")
}

/// Checks these parameters. At least one of the suites must have each, and all suites that have it must accept its
/// value.
pub fn check<'a>(suites: &[Suite], settings: impl IntoIterator<Item = (&'a str, u64)>) -> Result<(), SettingError> {
    for (key, value) in settings {
        let mut owners = suites.iter().filter_map(|&suite| Some((suite, suite.parameter(key)?))).peekable();
        if owners.peek().is_none() {
            let mut known: Vec<&str> = suites.iter().flat_map(|suite| suite.parameters()).map(|p| p.key).collect();
            known.sort_unstable();
            known.dedup();
            return Err(SettingError::Unknown { key: key.to_owned(), suites: suites.to_vec(), known });
        }
        if let Some((suite, Parameter { key, range, unit, .. })) = owners.find(|(_, p)| !p.range.contains(&value)) {
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
        for (suite, parameter) in Suite::ALL.into_iter().flat_map(|s| s.parameters().iter().map(move |p| (s, p))) {
            let Parameter { key, range, default, .. } = parameter;
            let row = page.lines().find(|line| {
                let whose = line.contains(suite.name()) || (line.contains("wait for each other") && suite.waits());
                line.starts_with("| `") && line.contains(&format!("`{key}`")) && whose
            });
            let row = row.unwrap_or_else(|| panic!("no row for {key} of {suite}"));
            let [least, most] = [range.start(), range.end()].map(|bound| number(*bound));
            let default = default.map_or("by the window".to_owned(), |default| default.to_string());
            assert!(row.contains(&default), "{key} is {default} by default: {row}");
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
    }
}
