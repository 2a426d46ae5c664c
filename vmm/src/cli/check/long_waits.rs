//! Warnings of wait bounds of a second or more: the cause, and changes that lower the bound.

use super::{bound, neighbours};
use stile_config::{Config, VmClass};
use stile_sched::Nanos;

/// Bounds from here on are warned of.
const LONG: Nanos = Nanos::from_millis(1_000);
/// Nice values below this have longer quotas.
const LONGER_QUOTAS: i8 = -6;
/// A remedy that leaves more than this part of the bound is not named.
const WORTH: f64 = 0.75;
/// The largest number of remedies that are named.
const NAMED: usize = 3;

/// A warning about the bound of the entry at `index`, if it is long.
pub(super) fn warning(config: &Config, index: usize) -> Option<String> {
    let now = bound(config, index).filter(|bound| *bound >= LONG)?;
    let vm = &config.vms[index];
    let mut remedies: Vec<(Nanos, String)> = remedies(config, index)
        .into_iter()
        .filter_map(|(words, config)| Some((bound(&config, index)?, words)))
        .filter(|(bound, _)| bound.0 as f64 <= WORTH * now.0 as f64)
        .collect();
    remedies.sort();
    remedies.truncate(NAMED);
    let others = neighbours(config, index).len();
    let mut told = format!(
        "a vCPU of {} may wait for {}: at worst the {} run before it on {}",
        vm.name,
        time(now),
        stile_text::count(others, "other vCPU"),
        stile_text::count(config.host.pcpus.len(), "pCPU")
    );
    if vm.cap.is_some() {
        told += &format!(", and its cap holds it back for up to two periods of {}", vm.cap_period);
    }
    told += "; to lower it: ";
    for (bound, words) in &remedies {
        told += &format!("{words} ({}), ", time(*bound));
    }
    told += if remedies.is_empty() { "more pCPUs or fewer vCPUs" } else { "or more pCPUs or fewer vCPUs" };
    Some(told)
}

fn time(time: Nanos) -> String {
    stile_text::time_us(time.0 as f64 / 1000.0)
}

/// Changes of the configuration that may lower the bound of the entry at `index`, each in words.
fn remedies(config: &Config, index: usize) -> Vec<(String, Config)> {
    let changed = |words: String, change: &dyn Fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        (words, config)
    };
    let mut all = Vec::new();
    if let Ok(short) = "1ms".parse()
        && config.policy.rr_interval > short
    {
        all.push(changed(format!("rr_interval = \"{short}\""), &|config| config.policy.rr_interval = short));
    }
    for (number, vm) in config.vms.iter().enumerate().filter(|(_, vm)| vm.nice < LONGER_QUOTAS) {
        let is_served = matches!(vm.class, VmClass::Normal | VmClass::Batch | VmClass::Rt);
        if is_served && (number != index || vm.count * vm.vcpus > 1) {
            let words = format!("nice = {LONGER_QUOTAS} for {}", vm.name);
            all.push(changed(words, &|config| config.vms[number].nice = LONGER_QUOTAS));
        }
    }
    let (vm, usual) = (&config.vms[index], stile_config::CapPeriod::default());
    if vm.nice > 0 {
        all.push(changed(format!("nice = 0 for {}", vm.name), &|config| config.vms[index].nice = 0));
    }
    if vm.cap.is_some() && vm.cap_period > usual {
        let words = format!("cap_period = \"{usual}\" for {}", vm.name);
        all.push(changed(words, &|config| config.vms[index].cap_period = usual));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_config::LoadContext;

    fn warned(text: &str) -> Vec<Option<String>> {
        let context =
            LoadContext { pcpus_available: [0, 1].into_iter().collect(), builtin_names: &["hog"], policy: None };
        let config = Config::parse("stile.toml", text, &context).unwrap();
        (0..config.vms.len()).map(|index| warning(&config, index)).collect()
    }

    #[test]
    fn a_bound_below_a_second_is_no_matter() {
        let text = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 4\n";
        assert_eq!(warned(text), [None]);
    }

    #[test]
    fn a_long_bound_is_told_with_what_lowers_it_and_to_what() {
        let text = "[[vm]]\nname = \"web\"\nimage = \"builtin:hog\"\nvcpus = 4\nnice = -20\n\
                    [[vm]]\nname = \"scavenger\"\nimage = \"builtin:hog\"\nnice = 19\n";
        let [_, Some(told)] = &warned(text)[..] else { panic!("{:?}", warned(text)) };
        for words in
            ["a vCPU of scavenger may wait for", "4 other vCPUs run before it on 2 pCPUs", "nice = -6 for web ("]
        {
            assert!(told.contains(words), "no `{words}` in: {told}");
        }
        assert!(told.ends_with("or more pCPUs or fewer vCPUs"), "{told}");
    }

    #[test]
    fn a_long_cap_period_is_named() {
        let text = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\ncap = 0.5\ncap_period = \"1s\"\n";
        let [Some(told)] = &warned(text)[..] else { panic!("{:?}", warned(text)) };
        assert!(told.contains("two periods of 1s") && told.contains("cap_period = \"100ms\" for a (200 ms)"), "{told}");
    }
}
