//! The reference page `docs/metrics.md`, made from the descriptions.

use super::metric::{Kind, Metric, OF_DOMAIN, OF_VCPUS, Sampled, Unit};

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

This page is generated from the descriptions. To write it anew after a change:
`STILE_BLESS=1 cargo test -p stile-metrics metrics_page`.
";

/// The page.
pub fn page() -> String {
    let vcpus = section(&OF_VCPUS);
    let domain = section(&OF_DOMAIN);
    format!("{INTRODUCTION}\n## Of a vCPU, and of a VM\n\n{vcpus}\n## Of the domain\n\n{domain}")
}

fn section<S: Sampled>(metrics: &[&Metric<S>]) -> String {
    let head = "| name | in tables | kind | unit | under `host` | meaning |\n|---|---|---|---|---|---|\n".to_owned();
    metrics.iter().fold(head, |page, metric| page + &row(metric))
}

fn row<S: Sampled>(metric: &Metric<S>) -> String {
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
    format!("| `{}` | {} | {kind}{labels} | {unit} | {told} | {} |\n", metric.name, metric.heading, metric.help)
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
