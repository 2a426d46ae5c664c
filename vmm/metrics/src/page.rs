//! The reference page `docs/metrics.md`, made from the descriptions.

use super::metric::{Kind, Metric, OF_DOMAIN, OF_VCPUS, Unit};
use super::openmetrics::{BOUNDS, ENDED, name_of_domain, name_of_vcpus};

const INTRODUCTION: &str = "\
# Metrics

`stile run` shows the figures of its VMs: `--stats` as tables, refreshed in place on a terminal, and `--stats-json FILE`
as JSON, a line for every interval and one at the end. They are the scheduler's own accounts. For every vCPU, run, wait
and idle time add up to the time since it was made. A vCPU waits while it could run and has no pCPU. `wait_seconds` is
the sum of its waits; the tables head it `ready`. `turn_wait_seconds` is the distribution of single waits, each of which
ends with a turn on a pCPU. `steal_published_seconds` is the steal time: the wait that a guest reads in its memory.
`throttled_seconds` is the part of the wait for which a cap held the vCPU back; the tables head it `capped`. A VM's
figures are the sums over its vCPUs. Those of a VM that has ended are its last ones. JSON has the figures since the
start. Quantiles of a histogram are at most an eighth too long. Tables show an interval's share of the vCPUs' time (`%`)
and rates, and at the end the sums.

The baseline policies `host` and `host-noyield` have only the figures that the host keeps for a thread. The others are
`-` in tables and `null` in JSON.

`GET /v1/metrics` of `stile serve` has the figures since the start as [OpenMetrics](https://prometheus.io/docs/specs/om/)
text, under the names that the last column of the tables gives. The label `vm` has the VM's name, `vcpu` the number of the
vCPU, from 0. A counter has a series for each vCPU; `sum by (vm)` makes those of a VM. A counter never goes back while its
VM runs: time that was counted as run and turns out to be taken by the host stays, until the vCPU has run as long again.
It begins at 0 when the VM starts again. A histogram has one for each VM and
bucket, so that series stay few. A VM that was deleted has no series any more. A figure that is not known is left out.
[grafana.json](grafana.json) is a dashboard of these for Grafana.

This page is generated from the descriptions. To write it anew after a change:
`STILE_BLESS=1 cargo test -p stile-metrics metrics_page`.
";

/// The page.
pub fn page() -> String {
    let vcpus = section(&OF_VCPUS, name_of_vcpus);
    let domain = section(&OF_DOMAIN, name_of_domain);
    format!(
        "{INTRODUCTION}\n## Of a vCPU, and of a VM\n\n{vcpus}\n## Of the domain\n\n{domain}\n{}",
        only_as_openmetrics()
    )
}

/// What OpenMetrics has beside these figures.
fn only_as_openmetrics() -> String {
    let ((name, help), [least, most]) = (ENDED, [BOUNDS.start(), BOUNDS.end()]);
    format!(
        "## Only in OpenMetrics\n\n`{name}`, a gauge for each VM: {help}\n\nThe buckets of a histogram end 1 ns below each power of \
         two from 2^{least} ns to 2^{most} ns. A quantile of them is off by a factor of two at most.\n"
    )
}

fn section<S>(metrics: &[&Metric<S>], exported: fn(&Metric<S>) -> String) -> String {
    let head =
        "| name | in tables | kind | unit | under `host` | meaning | in OpenMetrics |\n|---|---|---|---|---|---|---|\n";
    metrics.iter().fold(head.to_owned(), |page, metric| page + &row(metric, exported))
}

fn row<S>(metric: &Metric<S>, exported: fn(&Metric<S>) -> String) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Histogram => "histogram",
    };
    let unit = match metric.unit {
        Unit::Seconds => "s",
        Unit::Count => "1",
    };
    let labels = match metric.labels {
        [] => String::new(),
        labels => format!(" by {}", labels.join(", ")),
    };
    let told = if metric.told_by_host { "yes" } else { "no" };
    let Metric { name, heading, help, .. } = metric;
    format!("| `{name}` | {heading} | {kind}{labels} | {unit} | {told} | {help} | `{}` |\n", exported(metric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, path::Path};

    #[test]
    fn metrics_page_is_what_the_descriptions_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if env::var_os("STILE_BLESS").is_some() {
            fs::write(&path, page()).unwrap();
        }
        let up_to_date = fs::read_to_string(&path).unwrap_or_default() == page();
        assert!(up_to_date, "docs/metrics.md is out of date; STILE_BLESS=1 writes it anew");
    }
}
