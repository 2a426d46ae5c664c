//! VolanoMark under 2.4.0-test8, whose sched_yield had two bugs, and with both fixed, on 4 and 8 CPUs, with the
//! statistics that revealed the bugs.

use super::claims::{Claims, Found};
use super::table::{SourceTable, cell, none, params_of, times};
use stile_results::model::{BASELINE, Cell, Params, Report};
use stile_suites::{Metric, Suite};
use stile_text::{percent, ratio, si};

const BUGS: &str = "goodness:yield_recalculates:yield_bounces";
const MENDED: &str = "goodness";
const EXPIRE: &str = "rsdl+expire";
const POLITE: &str = "rsdl";

/// The source's machines: CPUs, and messages a second with the bugs and without.
const SOURCE: [(u32, f64, f64); 2] = [(4, 11_541.0, 17_397.0), (8, 7_505.0, 12_939.0)];
/// A gain below this does not count.
const MATTERS: f64 = 1.05;
/// A smaller part of the yields does not count.
const SEEN: f64 = 0.01;

/// The table; `None` if the suite was not run.
pub(super) fn table(report: &Report, citation: &'static str) -> Option<SourceTable> {
    let settings = params_of(report, Suite::Volano);
    if settings.is_empty() {
        return None;
    }
    let shared = shared(&settings);
    let here: Vec<Here<'_>> =
        settings.iter().map(|params| Here { report, params, name: name(params, &shared) }).collect();
    let mut header = vec!["messages/s".to_owned()];
    header.extend(SOURCE.iter().map(|(cpus, ..)| format!("source, {cpus} CPUs")));
    header.extend(here.iter().map(|here| here.name.clone()));
    let row = |name: &str, source: [String; 2], of: &dyn Fn(&Here<'_>) -> Option<String>| {
        let ours = here.iter().map(|here| of(here).unwrap_or_else(none));
        [name.to_owned()].into_iter().chain(source).chain(ours).collect::<Vec<_>>()
    };
    let empty = || [none(), none()];
    let rate = |policy: &'static str| move |here: &Here<'_>| here.rate(policy).map(si);
    let gain = |a: &'static str, b: &'static str| move |here: &Here<'_>| here.gain(a, b).map(ratio);
    let each = |metric: Metric| move |here: &Here<'_>| here.for_each_message(metric).map(ratio);
    let rows = vec![
        row("yield with both bugs", SOURCE.map(|(_, bugs, _)| si(bugs)), &rate(BUGS)),
        row("both fixed", SOURCE.map(|(.., mended)| si(mended)), &rate(MENDED)),
        row("- gain", SOURCE.map(|(_, bugs, mended)| ratio(mended / bugs)), &gain(MENDED, BUGS)),
        row(EXPIRE, empty(), &rate(EXPIRE)),
        row("rsdl+polite", empty(), &rate(POLITE)),
        row("- to both bugs", empty(), &gain(POLITE, BUGS)),
        row("- to rsdl+expire", empty(), &gain(POLITE, EXPIRE)),
        row("- to host", empty(), &gain(POLITE, BASELINE)),
        row(BASELINE, empty(), &rate(BASELINE)),
        row("with both bugs, a message: yields", empty(), &each(Metric::YieldsPerS)),
        row("- while no vCPU waited", empty(), &each(Metric::LoneYieldsPerS)),
        row("- recalculations", empty(), &each(Metric::RecalculationsPerS)),
        row("- extra passes", empty(), &each(Metric::ExtraPassesPerS)),
        row("- switches", empty(), &each(Metric::SwitchesPerS)),
    ];
    let findings = here.iter().flat_map(Here::claims).collect::<Claims>().findings();
    let title = ["VolanoMark's chat rooms".to_owned()].into_iter().chain(shared).collect::<Vec<_>>().join(", ");
    Some(SourceTable { title, citation, header, rows, findings })
}

/// The figures of one setting.
struct Here<'a> {
    report: &'a Report,
    params: &'a Params,
    /// The parameters in which it differs from the other settings.
    name: String,
}

impl Here<'_> {
    fn cell(&self, policy: &str, metric: Metric) -> Option<&Cell> {
        cell(self.report, Suite::Volano, self.params, policy, metric)
    }

    fn median(&self, policy: &str, metric: Metric) -> Option<f64> {
        self.cell(policy, metric).map(|cell| cell.median)
    }

    fn rate(&self, policy: &str) -> Option<f64> {
        self.median(policy, Metric::Throughput)
    }

    fn gain(&self, policy: &str, over: &str) -> Option<f64> {
        let over = self.rate(over).filter(|rate| *rate > 0.0)?;
        Some(self.rate(policy)? / over)
    }

    fn for_each_message(&self, metric: Metric) -> Option<f64> {
        let rate = self.rate(BUGS).filter(|rate| *rate > 0.0)?;
        Some(self.median(BUGS, metric)? / rate)
    }

    /// The source's claims, and whether they hold here.
    fn claims(&self) -> Vec<(Found, String)> {
        [self.gains(), self.wasted()].into_iter().flatten().collect()
    }

    fn gains(&self) -> Option<(Found, String)> {
        let least = SOURCE.iter().map(|(_, bugs, mended)| mended / bugs).fold(f64::INFINITY, f64::min);
        let gain = self.gain(MENDED, BUGS)?;
        let [mended, bugs] = [MENDED, BUGS].map(|policy| self.cell(policy, Metric::Throughput));
        let found = Found::from(gain > MATTERS).unless_overlap(mended?, bugs?);
        let (gain, least) = (times(gain), times(least));
        Some((
            found,
            format!("fixing the yield gives {gain} the messages with {} (source at least {least})", self.name),
        ))
    }

    fn wasted(&self) -> Option<(Found, String)> {
        let yields = self.median(BUGS, Metric::YieldsPerS).filter(|yields| *yields > 0.0)?;
        let part = self.median(BUGS, Metric::LoneYieldsPerS)? / yields;
        let told = format!("{} of the yields come while no vCPU waits with {}", percent(part), self.name);
        Some(((part >= SEEN).into(), told))
    }
}

/// The parameters that the settings share besides their size: "yields with hints".
fn shared(settings: &[&Params]) -> Vec<String> {
    let Some((first, others)) = settings.split_first() else { return Vec::new() };
    let in_all = |part: &String| others.iter().all(|other| parts(other).any(|theirs| theirs == *part));
    parts(first).filter(in_all).collect()
}

/// A setting without the parameters that it shares with the others: "2 rooms, one pCPU".
fn name(params: &Params, shared: &[String]) -> String {
    let own = parts(params).filter(|part| !shared.contains(part));
    [params.size_label()].into_iter().chain(own).collect::<Vec<_>>().join(", ")
}

/// The parameters besides the size, in words.
fn parts(params: &Params) -> impl Iterator<Item = String> {
    let variant = params.variant();
    variant.split(", ").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use stile_results::model::{RunContext, Sample};

    fn report(rates: &[(&str, f64)]) -> Report {
        let sample = |(policy, rate): &(&str, f64)| Sample {
            suite: Suite::Volano,
            policy: (*policy).to_owned(),
            params: Params::default().with("rooms", 1),
            round: 0,
            values: [(Metric::Throughput, *rate), (Metric::YieldsPerS, 3.0 * rate), (Metric::LoneYieldsPerS, 0.0)]
                .into(),
            detail: Value::Null,
        };
        Report::from_samples(&rates.iter().map(sample).collect::<Vec<_>>(), RunContext::default())
    }

    fn made_of(report: &Report) -> Option<SourceTable> {
        table(report, "a source")
    }

    #[test]
    fn a_report_without_the_suite_has_no_table() {
        assert_eq!(made_of(&report(&[])), None);
    }

    #[test]
    fn gains_and_statistics_follow_from_the_figures() {
        let table = made_of(&report(&[(BUGS, 100.0), (MENDED, 160.0), (POLITE, 400.0), ("host", 200.0)])).unwrap();
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        let ours = |name: &str| table.rows.iter().find(|row| row[0] == name).unwrap()[3].as_str();
        assert_eq!(
            ["- gain", "- to both bugs", "- to rsdl+expire", "- to host"].map(ours),
            ["1.60", "4.00", "–", "2.00"]
        );
        assert_eq!(ours("with both bugs, a message: yields"), "3.00");
        assert!(table.findings[0].contains("1.60 times the messages with 1 room (source at least 1.51 times)"));
        assert!(table.findings[1].contains("0 % of the yields come while no vCPU waits with 1 room"));
    }

    #[test]
    fn columns_say_what_tells_them_apart_and_the_title_what_does_not() {
        let with = |rooms: u64, machine: &str| {
            Params::default().with("rooms", rooms).with("hint", "full").with("machine", machine)
        };
        let [one, two] = [with(1, "up"), with(2, "smp")];
        let shared = shared(&[&one, &two]);
        assert_eq!(shared, ["yields with hints"]);
        assert_eq!([&one, &two].map(|params| name(params, &shared)), ["1 room, one pCPU", "2 rooms, all pCPUs"]);
    }

    #[test]
    fn a_mended_yield_that_gains_nothing_is_told() {
        let table = made_of(&report(&[(BUGS, 100.0), (MENDED, 101.0)])).unwrap();
        assert!(table.findings[0].starts_with("Not as the source saw it: fixing the yield gives 1.01 times"));
    }
}
