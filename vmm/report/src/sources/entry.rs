//! The rump kernel's scheduler: a slot that remembers its last owner, compared with the global list before it.

use super::claims::Claims;
use super::table::SourceTable;
use stile_results::model::{BASELINE, Cell, Report};
use stile_suites::{Metric, Suite};
use stile_text::{ratio, si, time_us};

/// The policies for the source's three: the host's own call, the old scheduler, and the new one.
const OLD: &str = "freelist";
const NEW: &str = "rsdl";
/// "Almost 400 % speedup" over the old scheduler: nearly five times as fast, and at least this.
const SPEEDUP: f64 = 4.0;
/// "70 % faster" than the host's call.
const OVER_HOST: f64 = 1.7;

/// One setup.
struct Row {
    name: &'static str,
    machine: &'static str,
    /// Whether entries go through a VM, with its exit.
    vm: bool,
}

const ROWS: [Row; 4] = [
    Row { name: "alone, all CPUs", machine: "smp", vm: false },
    Row { name: "alone, one CPU", machine: "up", vm: false },
    Row { name: "VM, all CPUs", machine: "smp", vm: true },
    Row { name: "VM, one CPU", machine: "up", vm: true },
];

impl Row {
    fn has(&self, cell: &Cell) -> bool {
        let param = |name| cell.params.get(name).map(ToString::to_string);
        param("machine").is_some_and(|value| value == self.machine) && param("vm").is_none() == self.vm
    }

    /// The median of the smallest size: two threads, as in the source, unless the user chose otherwise.
    fn value(&self, report: &Report, policy: &str, metric: Metric) -> Option<f64> {
        let of = |cell: &&Cell| cell.suite == Suite::Entry && cell.metric == metric && cell.policy == policy;
        let cells = report.cells.iter().filter(of).filter(|cell| self.has(cell));
        Some(cells.min_by_key(|cell| &cell.params)?.median)
    }

    fn rate(&self, report: &Report, policy: &str) -> Option<f64> {
        self.value(report, policy, Metric::Throughput).filter(|rate| *rate > 0.0)
    }

    /// The rate of the new scheduler over that of another.
    fn gain(&self, report: &Report, over: &str) -> Option<f64> {
        Some(self.rate(report, NEW)? / self.rate(report, over)?)
    }
}

/// The table, if the report has entry.
pub(super) fn table(report: &Report, citation: &'static str) -> Option<SourceTable> {
    let policies = [BASELINE, OLD, NEW];
    let rows: Vec<&Row> =
        ROWS.iter().filter(|row| policies.iter().any(|policy| row.rate(report, policy).is_some())).collect();
    if rows.is_empty() {
        return None;
    }
    let gains = [OLD, BASELINE].map(|over| format!("{NEW}/{over}"));
    let header = [String::new()].into_iter().chain(policies.map(str::to_owned)).chain(gains);
    let line = |row: &&Row| {
        let shown = |policy| {
            let jitter = row.value(report, policy, Metric::Jitter).map(|jitter| format!(", {jitter:.0} %"));
            Some(format!("{}{}", si(row.rate(report, policy)?), jitter.unwrap_or_default()))
        };
        let gains = [OLD, BASELINE].map(|over| row.gain(report, over).map(ratio).unwrap_or_default());
        let source = match (row.vm, row.machine) {
            (false, "smp") => "about 5 and 1.7",
            (false, _) => "massively faster",
            _ => "",
        };
        let fields = policies.map(|policy| shown(policy).unwrap_or_default());
        [row.name.to_owned()].into_iter().chain(fields).chain(gains).chain([source.to_owned()]).collect()
    };
    Some(SourceTable {
        title: "entry: two threads that enter and leave in a tight loop, entries/s and jitter, the scheduler alone and through a \
                VM"
            .to_owned(),
        citation,
        header: header.chain(["source".to_owned()]).collect(),
        rows: rows.iter().map(line).collect(),
        findings: findings(report),
    })
}

fn findings(report: &Report) -> Vec<String> {
    let mut claims = Claims::default();
    let [smp, up, vm, _] = &ROWS;
    if let Some(gain) = smp.gain(report, OLD) {
        let told = format!(
            "{NEW}, which keeps a word for each CPU, is {} times as fast as {OLD}, which keeps a list of free ones (source: almost \
             400 % speedup)",
            ratio(gain)
        );
        claims.add(gain >= SPEEDUP, told);
    }
    if let Some(gain) = smp.gain(report, BASELINE) {
        let told = format!("{NEW} is {} times as fast as a call of the host (source: 1.7 times)", ratio(gain));
        claims.add(gain >= OVER_HOST, told);
    }
    let time = |row: &Row| row.value(report, NEW, Metric::LatencyP50);
    if let Some((one, all)) = time(up).zip(time(smp)) {
        let told = format!(
            "an entry takes {} on one CPU without bus locks and {} on all with them (source: massively faster)",
            time_us(one),
            time_us(all)
        );
        claims.add(one < all, told);
    }
    let jitter = |policy| smp.value(report, policy, Metric::Jitter);
    if let Some((old, new)) = jitter(OLD).zip(jitter(NEW)) {
        let told = format!(
            "the rate of {OLD} varies by {old:.1} %, that of {NEW} by {new:.1} % (source: very jittery, the old one)"
        );
        claims.add(old > new, told);
    }
    let mut findings = claims.findings();
    if let Some((gain, time)) = vm.gain(report, OLD).zip(vm.value(report, NEW, Metric::LatencyP50)) {
        findings.push(format!(
            "Through a VM an entry takes {}, nearly all of it KVM's, and {NEW} is {} times as fast as {OLD}.",
            time_us(time),
            ratio(gain)
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use stile_results::model::{Params, RunContext, Sample};

    fn sample(policy: &str, machine: &str, vm: bool, values: [f64; 3]) -> Sample {
        let params = Params::default().with("vcpus", 2).with("machine", machine);
        let params = if vm { params } else { params.with("vm", "none") };
        let metrics = [Metric::Throughput, Metric::Jitter, Metric::LatencyP50];
        let values = metrics.into_iter().zip(values).collect();
        Sample { suite: Suite::Entry, policy: policy.to_owned(), params, round: 0, values, detail: Value::Null }
    }

    fn made(samples: &[Sample]) -> Option<SourceTable> {
        table(&Report::from_samples(samples, RunContext::default()), "a source")
    }

    #[test]
    fn the_sources_claims_are_held_against_the_figures() {
        let samples = [
            sample("host", "smp", false, [5e6, 1.0, 0.2]),
            sample("freelist", "smp", false, [1e7, 9.0, 0.15]),
            sample("rsdl", "smp", false, [4e8, 1.0, 0.005]),
            sample("rsdl", "up", false, [1e8, 1.0, 0.006]),
        ];
        let table = made(&samples).unwrap();
        assert_eq!((table.rows.len(), table.rows[0].len()), (2, table.header.len()));
        assert_eq!(table.header, ["", "host", "freelist", "rsdl", "rsdl/freelist", "rsdl/host", "source"]);
        assert_eq!(table.rows[0][2..], ["10.0M, 9 %", "400M, 1 %", "40.0", "80.0", "about 5 and 1.7"]);
        let [agrees, differs] = &table.findings[..] else { panic!("{:?}", table.findings) };
        assert!(
            agrees.contains("40.0 times as fast as freelist, which keeps a list") && agrees.contains("varies by 9.0 %"),
            "{agrees}"
        );
        assert!(differs.contains("6.00 ns on one CPU without bus locks and 5.00 ns on all"), "{differs}");
    }

    #[test]
    fn a_vms_entries_are_told_apart_from_the_schedulers_own() {
        let samples =
            [sample("freelist", "smp", true, [8e4, 2.0, 24.0]), sample("rsdl", "smp", true, [1e5, 2.0, 20.0])];
        let table = made(&samples).unwrap();
        assert_eq!(table.rows[0][0], "VM, all CPUs");
        let expected =
            "Through a VM an entry takes 20.0 µs, nearly all of it KVM's, and rsdl is 1.25 times as fast as freelist.";
        assert_eq!(table.findings, [expected]);
    }

    #[test]
    fn a_report_of_other_suites_has_no_such_table() {
        assert_eq!(made(&[]), None);
    }
}
