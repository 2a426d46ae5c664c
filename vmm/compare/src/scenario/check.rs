//! Checks of a simulation file beyond its schema: sizes that fit the suite and the machines, and a readable file of
//! costs.
//!
//! Works on the document as written. The schema reports values of a wrong type.

use super::{CLIENTS_MAX, PCPUS, VCPUS_MAX};
use crate::plan::{settings, sizes};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use stile_config::{Finding, KeyPath, Misplaced, integer};
use stile_host::MeasuredCosts;
use stile_suites::{Counted, Suite};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Finds contradicting and missing values of `document`. A relative path starts at `base`.
pub(super) fn check(document: &DeTable<'_>, base: &Path) -> Vec<Misplaced> {
    let suite = document.get("suite").and_then(|suite| Some((suite.get_ref().as_str()?.parse::<Suite>().ok()?, suite)));
    let mut found = Vec::new();
    if let Some((suite, value)) = suite {
        found.extend(window(suite, value.span()));
        found.extend(counted(document, suite, value.span()));
        found.extend(too_few(document, suite));
        found.extend(parameters(document, suite));
    }
    found.extend(costs(document, base));
    found
}

fn misplaced(key: &str, span: Range<usize>, wrong: String, label: &str, help: String) -> Misplaced {
    let finding = Finding { wrong, label: label.to_owned(), help: Some(help) };
    Misplaced { key: KeyPath::default().key(key), span, finding }
}

/// A suite whose work has an end has no window, and counts its sizes otherwise.
fn window(suite: Suite, span: Range<usize>) -> Option<Misplaced> {
    suite.has_end().then(|| {
        let help = format!("simulate it by `stile compare {suite} --sim --pcpus LIST`");
        misplaced("suite", span, format!("{suite} ends with its work and has no window"), "no window", help)
    })
}

/// Returns what a suite's sizes count, and finds sizes that do not fit.
fn counted(document: &DeTable<'_>, suite: Suite, at: Range<usize>) -> Vec<Misplaced> {
    if suite.has_end() || suite.model().is_none() {
        return Vec::new();
    }
    let (unit, wrong, most) = match suite.counted() {
        Counted::Clients => ("clients", "vcpus", CLIENTS_MAX),
        Counted::Vcpus => ("vcpus", "clients", VCPUS_MAX),
        Counted::Vms | Counted::Groups | Counted::Rooms => return Vec::new(),
    };
    let each = format!("{unit}_per_pcpu");
    let has_no_meaning = |key: &str| {
        let (name, _) = document.get_key_value(key)?;
        let help = format!("use `{}`", key.replace(wrong, unit));
        Some(misplaced(key, name.span(), format!("`{key}` has no meaning for {suite}"), "not counted here", help))
    };
    let mut found: Vec<Misplaced> =
        [wrong.to_owned(), format!("{wrong}_per_pcpu")].iter().filter_map(|key| has_no_meaning(key)).collect();
    let list = document.get(unit).filter(|list| list.get_ref().as_array().is_none_or(|list| !list.is_empty()));
    match (list, document.get(each.as_str())) {
        // A wrong unit has been reported together with the right one.
        (None, None) if found.is_empty() => {
            let help = format!("add `{unit}`, a list such as {unit} = [4, 16], or `{each}`, a number");
            found.push(misplaced(unit, at, format!("the size of {suite} is missing"), "of what size?", help));
        }
        (Some(_), Some(per_pcpu)) => {
            let wrong = format!("`{unit}` says the size already");
            found.push(misplaced(
                &each,
                per_pcpu.span(),
                wrong,
                "said twice",
                format!("leave out one of `{unit}` and `{each}`"),
            ));
        }
        (Some(_), None) => found.extend(several(document, unit, &each)),
        (None, Some(per_pcpu)) => found.extend(too_many(document, &each, per_pcpu, most)),
        (None, None) => {}
    }
    found
}

/// The numbers of pCPUs of all machines, and their places in the file.
fn machines<'a>(document: &'a DeTable<'_>) -> Option<(Vec<u32>, &'a Spanned<DeValue<'a>>)> {
    let pcpus = document.get("pcpus")?;
    let counts = pcpus.get_ref().as_table().map_or(Some(pcpus), |shape| shape.get("count"))?;
    let number = |value: &DeValue<'_>| u32::try_from(integer(value)?).ok().filter(|count| PCPUS.contains(count));
    let all: Option<Vec<u32>> = match counts.get_ref() {
        DeValue::Array(counts) => counts.iter().map(|count| number(count.get_ref())).collect(),
        count => number(count).map(|count| vec![count]),
    };
    Some((all?, counts))
}

/// Finds several machines with a size that is the same for all.
fn several(document: &DeTable<'_>, unit: &str, each: &str) -> Option<Misplaced> {
    let (counts, at) = machines(document)?;
    (counts.len() > 1).then(|| {
        let wrong = format!("{} machines, and `{unit}` that does not grow with them", counts.len());
        let help = format!("use `{each}`, a number, in place of `{unit}`; or a file for each machine");
        misplaced("pcpus", at.span(), wrong, "several machines", help)
    })
}

/// Finds a size for each pCPU that is too large for the largest machine.
fn too_many(document: &DeTable<'_>, each: &str, per_pcpu: &Spanned<DeValue<'_>>, most: u32) -> Option<Misplaced> {
    let (counts, _) = machines(document)?;
    let (number, largest) = (u32::try_from(integer(per_pcpu.get_ref())?).ok()?, counts.into_iter().max()?);
    let all = u64::from(number) * u64::from(largest);
    (number <= most && all > u64::from(most)).then(|| {
        let wrong = format!("{number} on each of {largest} pCPUs are {all}");
        misplaced(
            each,
            per_pcpu.span(),
            wrong,
            "too many",
            format!("accepted: at most {most} in all, {} here", most / largest),
        )
    })
}

/// Finds numbers of vCPUs that leave a part of the suite without any.
fn too_few(document: &DeTable<'_>, suite: Suite) -> Vec<Misplaced> {
    let path = KeyPath::default().key("vcpus");
    let numbers = document.get("vcpus").and_then(|vcpus| vcpus.get_ref().as_array());
    let few = |(index, number): (usize, &Spanned<DeValue<'_>>)| {
        let size = u32::try_from(integer(number.get_ref())?).ok().filter(|size| *size > 0)?;
        let wrong = sizes::too_few(suite, size)?.to_string();
        let finding = Finding { wrong, label: "too few".to_owned(), help: None };
        Some(Misplaced { key: path.index(index), span: number.span(), finding })
    };
    numbers.into_iter().flatten().enumerate().filter_map(few).collect()
}

/// Finds parameters that the suite's guests do not have, or values out of range.
fn parameters(document: &DeTable<'_>, suite: Suite) -> Vec<Misplaced> {
    let path = KeyPath::default().key("set");
    let set = document.get("set").and_then(|set| set.get_ref().as_table());
    let wrong = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let number = u64::try_from(integer(value.get_ref())?).ok()?;
        let wrong = settings::check(&[suite], [(key.get_ref().as_ref(), number)]).err()?.to_string();
        let finding = Finding { wrong, label: "not so".to_owned(), help: None };
        Some(Misplaced { key: path.key(key.get_ref()), span: key.span().start..value.span().end, finding })
    };
    set.into_iter().flatten().filter_map(wrong).collect()
}

/// Finds a file of costs that is missing or unreadable, and figures that contradict each other.
fn costs(document: &DeTable<'_>, base: &Path) -> Option<Misplaced> {
    let value = document.get("costs")?;
    let wrong = match value.get_ref() {
        DeValue::String(file) => MeasuredCosts::read(&base.join(file.as_ref())).err()?.to_string(),
        DeValue::Table(figures) => {
            let figure = |name: &str| integer(figures.get(name)?.get_ref());
            let (leave, exit) = (figure("leave_ns")?, figure("exit_ns")?);
            (leave > exit).then(|| format!("`leave_ns`, {leave}, is a part of `exit_ns`, {exit}, and larger"))?
        }
        _ => return None,
    };
    let help =
        "measure them: stile doctor --costs > costs.json; or leave the key out, for machine A of docs/results.md"
            .to_owned();
    Some(misplaced("costs", value.span(), wrong, "no costs", help))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Scenario;
    use std::fs;

    /// Every mistake in a file: its place, the mistake, and the accepted values.
    pub(in super::super) fn mistakes(text: &str) -> Vec<String> {
        let Err(error) = Scenario::parse("scenario.toml", text) else { return Vec::new() };
        let told = |problem: &stile_config::Problem| format!("{problem} ({})", problem.accepted().unwrap_or_default());
        error.problems().iter().map(told).collect()
    }

    /// The only mistake in a file that consists of a policy and these keys.
    #[track_caller]
    fn mistake(keys: &str) -> String {
        let mistakes = mistakes(&format!("policies = [\"rsdl\"]\n{keys}\n"));
        assert_eq!(mistakes.len(), 1, "{keys}: {mistakes:#?}");
        mistakes[0].clone()
    }

    #[track_caller]
    fn told(keys: &str, expected: &[&str]) {
        let mistake = mistake(keys);
        assert!(expected.iter().all(|words| mistake.contains(words)), "{keys}: {mistake}");
    }

    #[test]
    fn every_mistake_is_told_at_once_in_the_order_of_the_file() {
        let text = "suite = \"tickt\"\npolicies = [\"rsld\", 3]\nvcpu = [4]\npcpus = { count = 600, llc = 0, smtt = 2 }\n\
                    duration = 0\nreps = \"3\"\nhints = 1\nset = { hold_ns = -1, gap_ns = 1.5 }\ncosts = 3\n";
        let expected = [
            "scenario.toml:1:9: suite: `tickt` is not one of the choices (did you mean `ticket`? accepted: `netbench`",
            "scenario.toml:2:13: policies[0]: there is no policy `rsld`; did you mean `rsdl`?",
            "scenario.toml:2:21: policies[1]: expected a string in quotes, found an integer",
            "scenario.toml:3:1: vcpu: unknown key `vcpu` (did you mean `vcpus`? accepted here: ",
            "scenario.toml:4:19: pcpus.count: 600 is out of range (accepted: 1 to 512)",
            "scenario.toml:4:30: pcpus.llc: 0 is out of range (accepted: 1 to 512)",
            "scenario.toml:4:33: pcpus.smtt: unknown key `smtt` (did you mean `smt`?",
            "scenario.toml:5:12: duration: 0 is out of range (accepted: 0.01 to 3600)",
            "scenario.toml:6:8: reps: expected a whole number, found a string (accepted: 1 to 1000)",
            "scenario.toml:7:9: hints: expected true or false, found an integer",
            "scenario.toml:8:19: set.hold_ns: -1 is out of range (accepted: 0 or more)",
            "scenario.toml:8:32: set.gap_ns: expected a whole number, found a float",
            "scenario.toml:9:9: costs: expected a string in quotes or a table, found an integer",
        ];
        let found = mistakes(text);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{expected}\n{found}");
        }
    }

    #[test]
    fn keys_that_are_missing_are_told_with_what_they_take() {
        let found = mistakes("");
        for (key, accepted) in [("suite", "`netbench`"), ("policies", "names of policies"), ("pcpus", "1 to 512")] {
            let told =
                |found: &&String| found.contains(&format!("the key `{key}` is missing")) && found.contains(accepted);
            assert_eq!(found.iter().filter(told).count(), 1, "{key}: {found:#?}");
        }
        assert_eq!(found.len(), 3);
        told("suite = \"ticket\"\npcpus = 2", &["2:9", "the size of ticket is missing", "vcpus = [4, 16]"]);
    }

    #[test]
    fn sizes_that_do_not_go_with_suite_or_machine_are_told_with_those_that_do() {
        told(
            "suite = \"ticket\"\nclients = [4]\npcpus = 2",
            &["clients: `clients` has no meaning for ticket (use `vcpus`)"],
        );
        told("suite = \"netbench\"\nvcpus_per_pcpu = 4\npcpus = 2", &["for netbench (use `clients_per_pcpu`)"]);
        told("suite = \"ticket\"\nvcpus = [100001]\npcpus = 2", &["vcpus[0]: 100001", "1 to 100000"]);
        told("suite = \"netbench\"\nclients = [50001]\npcpus = 2", &["1 to 50000"]);
        told("suite = \"ticket\"\nvcpus = [4]\npcpus = 513", &["pcpus: 513 is out of range", "1 to 512"]);
        told("suite = \"ticket\"\nvcpus = [4]\npcpus = [2, 4]", &["2 machines", "`vcpus_per_pcpu`"]);
        told("suite = \"ticket\"\nvcpus_per_pcpu = 4\npcpus = []", &["pcpus: the list is empty"]);
        told(
            "suite = \"ticket\"\nvcpus = [4]\nvcpus_per_pcpu = 4\npcpus = 2",
            &["vcpus_per_pcpu: `vcpus` says the size already"],
        );
        told(
            "suite = \"ticket\"\nvcpus_per_pcpu = 300\npcpus = [1, 512]",
            &["300 on each of 512 pCPUs are 153600", "195 here"],
        );
        told("suite = \"volano\"\nvcpus = [1]\npcpus = 2", &["no window", "stile compare volano --sim --pcpus LIST"]);
        told("suite = \"boot\"\npcpus = 2", &["`boot` is not one of the choices"]);
    }

    #[test]
    fn parameters_and_sizes_that_mean_nothing_to_the_suite_are_told() {
        told(
            "suite = \"ticket\"\nvcpus = [4]\npcpus = 2\nset = { hold = 3 }",
            &["set.hold: ", "did you mean `hold_ns`?"],
        );
        told(
            "suite = \"pingpong\"\nvcpus = [1]\npcpus = 2",
            &["vcpus[0]: pingpong means nothing", "2 at least, a pair"],
        );
    }

    #[test]
    fn a_file_of_costs_that_cannot_be_used_is_told_with_how_to_make_one() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("costs.json");
        let keys = format!("suite = \"ticket\"\nvcpus = [4]\npcpus = 2\ncosts = \"{}\"", file.display());
        told(&keys, &["5:9", "costs: cannot read", "stile doctor --costs > costs.json"]);
        for (text, expected) in
            [("{", "is not JSON"), ("[1]", "it is no object"), ("{\"exit_ns\": 1}", "`hop_ns` is missing")]
        {
            fs::write(&file, text).unwrap();
            told(&keys, &["5:9", expected, "stile doctor --costs > costs.json"]);
        }
        let keys = "suite = \"ticket\"\nvcpus = [4]\npcpus = 2\n[costs]\nexit_ns = 1\n";
        let found = mistakes(&format!("policies = [\"rsdl\"]\n{keys}"));
        assert_eq!(found.iter().filter(|found| found.contains("is missing")).count(), 8, "{found:#?}");
    }
}
