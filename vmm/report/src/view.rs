//! A report arranged for display: one block per suite and variant, its sizes as rows, the policies as columns.
//!
//! All forms of display (terminal, Markdown, HTML) read a report through this, so they agree on order and grouping.

use std::collections::BTreeMap;

use stile_results::model::{Cell, Params, Report};
use stile_suites::Metric;
use stile_suites::Suite;

/// The cells of one suite with one set of parameters other than the size.
#[derive(Debug)]
pub struct Block<'a> {
    /// The suite.
    pub suite: Suite,
    /// Whether its figures come from the simulator.
    pub simulated: bool,
    /// The policy that ratios refer to.
    pub reference: &'a str,
    /// The parameters that all rows share: "yields with hints"; may be empty.
    pub variant: String,
    /// The rows, by size.
    pub rows: Vec<&'a Params>,
    /// The columns, in the report's order.
    pub policies: Vec<&'a str>,
    cells: BTreeMap<(&'a Params, &'a str, Metric), &'a Cell>,
}

impl<'a> Block<'a> {
    /// The cell of a row, a column and a metric, if it was measured.
    pub fn cell(&self, row: &Params, policy: &str, metric: Metric) -> Option<&'a Cell> {
        self.cells.get(&(row, policy, metric)).copied()
    }

    /// Whether any cell has this metric.
    pub fn has(&self, metric: Metric) -> bool {
        self.cells.keys().any(|&(_, _, found)| found == metric)
    }

    /// The suite's headline metrics, as far as they were measured.
    pub fn headline(&self) -> impl Iterator<Item = Metric> + '_ {
        self.suite.headline().iter().copied().filter(|metric| self.has(*metric))
    }

    /// The suite's headline metrics that this row has under any policy.
    pub fn headline_of(&self, row: &Params) -> Vec<Metric> {
        let has = |metric: &Metric| self.policies.iter().any(|policy| self.cell(row, policy, *metric).is_some());
        self.headline().filter(has).collect()
    }

    /// The rows with headline metrics. The load `none` has no work and takes no time.
    pub fn headline_rows(&self) -> Vec<&'a Params> {
        self.rows.iter().copied().filter(|row| !self.headline_of(row).is_empty()).collect()
    }

    /// The largest size that has headline metrics.
    pub fn largest(&self) -> Option<&'a Params> {
        self.headline_rows().last().copied()
    }

    /// The cells of the headline metrics.
    pub fn headline_cells(&self) -> impl Iterator<Item = &'a Cell> + '_ {
        self.cells.values().copied().filter(|cell| self.suite.headline().contains(&cell.metric))
    }

    /// The suite and the variant: "ticket, yields with hints"; and "simulated ticket, ..." where no guest ran.
    pub fn title(&self) -> String {
        let simulated = if self.simulated { "simulated " } else { "" };
        let variant = if self.variant.is_empty() { String::new() } else { format!(", {}", self.variant) };
        format!("{simulated}{}{variant}", self.suite)
    }

    /// The unit of the rows' sizes: "vCPUs"; empty if they have no size.
    pub fn size_axis(&self) -> &'static str {
        self.rows.iter().find_map(|row| row.size()).map_or("", |(what, _)| what)
    }
}

/// The policies of a report, in its order.
pub fn policies(report: &Report) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for cell in &report.cells {
        if !found.contains(&cell.policy.as_str()) {
            found.push(&cell.policy);
        }
    }
    found
}

/// The suites of a report, in its order.
pub fn suites(report: &Report) -> Vec<Suite> {
    Suite::ALL.into_iter().filter(|suite| report.cells.iter().any(|cell| cell.suite == *suite)).collect()
}

/// The blocks of a report, by suite, then variant.
pub fn blocks(report: &Report) -> Vec<Block<'_>> {
    let mut blocks: BTreeMap<(Suite, String), Block<'_>> = BTreeMap::new();
    for cell in &report.cells {
        // Cells without a size make one block of single rows, and not a block each.
        let variant = if cell.params.size().is_some() { cell.params.variant() } else { String::new() };
        let block = blocks.entry((cell.suite, variant.clone())).or_insert_with(|| Block {
            suite: cell.suite,
            simulated: report.simulated,
            reference: &report.reference,
            variant,
            rows: Vec::new(),
            policies: Vec::new(),
            cells: BTreeMap::new(),
        });
        block.cells.insert((&cell.params, &cell.policy, cell.metric), cell);
    }
    let order = policies(report);
    let mut blocks: Vec<Block<'_>> = blocks.into_values().collect();
    for block in &mut blocks {
        block.rows = block.cells.keys().map(|&(row, _, _)| row).collect();
        block.rows.dedup();
        let measured = |policy: &&str| block.cells.keys().any(|&(_, found, _)| found == *policy);
        block.policies = order.iter().copied().filter(measured).collect();
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::{RunContext, Sample};
    use stile_results::testing::ticket;

    fn with(mut samples: Vec<Sample>, vcpus: u64, hint: &str) -> Vec<Sample> {
        for sample in &mut samples {
            sample.params = Params::default().with("vcpus", vcpus).with("hint", hint);
        }
        samples
    }

    #[test]
    fn rows_are_sizes_in_numeric_order_and_variants_are_blocks() {
        let sample = || ticket("host", Metric::Throughput, &[1.0]);
        let samples = [with(sample(), 16, "full"), with(sample(), 4, "full"), with(sample(), 4, "none")].concat();
        let report = Report::from_samples(&samples, RunContext::default());
        let blocks = blocks(&report);
        let titles: Vec<String> = blocks.iter().map(Block::title).collect();
        assert_eq!(titles, ["ticket, yields with hints", "ticket, yields without hints"]);
        let rows: Vec<String> = blocks[0].rows.iter().map(|row| row.size_label()).collect();
        assert_eq!(rows, ["4 vCPUs", "16 vCPUs"]);
        assert_eq!(blocks[0].size_axis(), "vCPUs");
    }

    #[test]
    fn rows_without_headline_metrics_are_no_largest_size() {
        let of = |metric, vcpus| with(ticket("host", metric, &[1.0]), vcpus, "full");
        let report = Report::from_samples(
            &[of(Metric::Throughput, 4), of(Metric::ExitsPerS, 16)].concat(),
            RunContext::default(),
        );
        let blocks = blocks(&report);
        let block = &blocks[0];
        assert_eq!((block.rows.len(), block.headline_rows().len()), (2, 1));
        assert_eq!(block.largest().map(Params::size_label).as_deref(), Some("4 vCPUs"));
        assert_eq!(block.headline_of(block.rows[0]), [Metric::Throughput]);
    }

    #[test]
    fn columns_keep_the_order_asked_for() {
        let samples = [ticket("a", Metric::Jain, &[1.0]), ticket("host", Metric::Jain, &[1.0])].concat();
        let asked = vec!["host".to_owned(), "a".to_owned()];
        let report = Report::from_samples(&samples, RunContext { policies: asked, ..RunContext::default() });
        assert_eq!(blocks(&report)[0].policies, ["host", "a"]);
        assert!(!blocks(&report)[0].has(Metric::Throughput));
    }
}
