//! VolanoMark under 2.4.0-test8, whose sched_yield had two bugs, and with these mended, on 4 and 8 CPUs; and the
//! statistics that gave the bugs away.

use super::claims::Claims;
use super::{SourceTable, cell, none, params_of, times};
use crate::report::format::{ratio, si};
use crate::report::metric::Metric;
use crate::report::model::{BASELINE, Params, Report};
use crate::report::suite::Suite;

const CITATION: &str = "report on VolanoMark and SCHED_YIELD in Linux 2.4.0-test8 to test10";
const BUGS: &str = "goodness:yield_recalculates:yield_bounces";
const MENDED: &str = "goodness";
const EXPIRE: &str = "rsdl+expire";
const POLITE: &str = "rsdl";

/// The source's machines: CPUs, and messages a second with the bugs and without.
const SOURCE: [(u32, f64, f64); 2] = [(4, 11_541.0, 17_397.0), (8, 7_505.0, 12_939.0)];
/// A gain below this is none.
const MATTERS: f64 = 1.05;

/// The table; `None` if the suite was not run.
pub(super) fn table(report: &Report) -> Option<SourceTable> {
    let settings = params_of(report, Suite::Volano);
    if settings.is_empty() {
        return None;
    }
    let here: Vec<Here<'_>> = settings.iter().map(|params| Here { report, params }).collect();
    let mut header = vec!["messages/s".to_owned()];
    header.extend(SOURCE.iter().map(|(cpus, ..)| format!("source, {cpus} CPUs")));
    header.extend(settings.iter().map(|params| words(params)));
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
        row("both mended", SOURCE.map(|(.., mended)| si(mended)), &rate(MENDED)),
        row("- gain", SOURCE.map(|(_, bugs, mended)| ratio(mended / bugs)), &gain(MENDED, BUGS)),
        row(EXPIRE, empty(), &rate(EXPIRE)),
        row("rsdl+polite", empty(), &rate(POLITE)),
        row("- to both bugs", empty(), &gain(POLITE, BUGS)),
        row("- to rsdl+expire", empty(), &gain(POLITE, EXPIRE)),
        row("- to host", empty(), &gain(POLITE, BASELINE)),
        row(BASELINE, empty(), &rate(BASELINE)),
        row("with both bugs, a message: yields", empty(), &each(Metric::YieldsPerS)),
        row("- while nobody waited", empty(), &each(Metric::LoneYieldsPerS)),
        row("- recalculations", empty(), &each(Metric::RecalculationsPerS)),
        row("- extra passes", empty(), &each(Metric::ExtraPassesPerS)),
        row("- switches", empty(), &each(Metric::SwitchesPerS)),
    ];
    let findings = here.iter().flat_map(Here::claims).collect::<Claims>().findings();
    Some(SourceTable { title: "VolanoMark's chat rooms".to_owned(), citation: CITATION, header, rows, findings })
}

/// What was measured in one setting.
struct Here<'a> {
    report: &'a Report,
    params: &'a Params,
}

impl Here<'_> {
    fn median(&self, policy: &str, metric: Metric) -> Option<f64> {
        cell(self.report, Suite::Volano, self.params, policy, metric).map(|cell| cell.median)
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

    /// What the source says, and whether it holds here.
    fn claims(&self) -> Vec<(bool, String)> {
        let least = SOURCE.iter().map(|(_, bugs, mended)| mended / bugs).fold(f64::INFINITY, f64::min);
        let gain = |gain: f64| {
            let text = format!("mending the yield gives {} the messages with {}", times(gain), words(self.params));
            (gain > MATTERS, format!("{text} (source at least {})", times(least)))
        };
        let wasted = |lone: f64| {
            let found = if lone > 0.0 { "there are" } else { "there are no" };
            (lone > 0.0, format!("{found} yields while nobody waits with {}", words(self.params)))
        };
        let lone = self.for_each_message(Metric::LoneYieldsPerS).map(wasted);
        self.gain(MENDED, BUGS).map(gain).into_iter().chain(lone).collect()
    }
}

fn words(params: &Params) -> String {
    let (size, variant) = (params.size_label(), params.variant());
    if variant.is_empty() { size } else { format!("{size}, {variant}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{RunContext, Sample};
    use serde_json::Value;

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

    #[test]
    fn a_report_without_the_suite_has_no_table() {
        assert_eq!(table(&report(&[])), None);
    }

    #[test]
    fn gains_and_statistics_follow_from_the_figures() {
        let table = table(&report(&[(BUGS, 100.0), (MENDED, 160.0), (POLITE, 400.0), ("host", 200.0)])).unwrap();
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        let ours = |name: &str| table.rows.iter().find(|row| row[0] == name).unwrap()[3].as_str();
        assert_eq!(
            ["- gain", "- to both bugs", "- to rsdl+expire", "- to host"].map(ours),
            ["1.60", "4.00", "–", "2.00"]
        );
        assert_eq!(ours("with both bugs, a message: yields"), "3.00");
        assert!(table.findings[0].contains("1.60 times the messages with 1 room (source at least 1.51 times)"));
        assert!(table.findings[1].contains("there are no yields while nobody waits"));
    }

    #[test]
    fn a_mended_yield_that_gains_nothing_is_told() {
        let table = table(&report(&[(BUGS, 100.0), (MENDED, 101.0)])).unwrap();
        assert!(table.findings[0].starts_with("Not as the source saw it: mending the yield gives 1.01 times"));
    }
}
