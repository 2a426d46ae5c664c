//! The report as one static page: readable without network or script, in light and dark, wide and narrow.
//!
//! Everything shown comes from the [`Report`] and its [`Sample`]s; text is escaped by the template. Order: summary, the sources'
//! tables, results at a glance, then per suite its plots, worst moments and headline figures, then the host, all figures,
//! the policies, and how to read it all.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::detail::Details;
use super::plot::{self, PlotError};
use super::summary::{self, Summary};
use super::view::{self, Block};
use super::{facts, figures, format, sources};
use stile_results::metric::Metric;
use stile_results::model::{BASELINE, Cell, Params, Report, Sample};
use stile_results::suite::Suite;
use stile_results::verdict::Verdict;

const STYLE: &str = include_str!("style.css");
/// Remarks that need no click to be read.
const FEW: usize = 3;

/// The page; distributions, shares and moments are in the samples only.
pub fn page(report: &Report, samples: &[Sample]) -> Result<String, PlotError> {
    let blocks = view::blocks(report);
    let policies = view::policies(report);
    let simulated = if report.simulated { "simulated " } else { "" };
    let title = match view::suites(report).as_slice() {
        [] => "stile: empty comparison".to_owned(),
        suites => {
            format!(
                "stile: {simulated}{}",
                stile_text::list(&suites.iter().map(|suite| suite.name()).collect::<Vec<_>>())
            )
        }
    };
    let suites = blocks.iter().map(|block| suite(block, &policies, Details(samples))).collect::<Result<Vec<_>, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (head(report))
                    (sources::html(&sources::tables(report)))
                    (glance(&blocks))
                    @for suite in &suites { (suite) }
                    (host(report))
                    (appendix(report, &blocks))
                }
            }
        }
    };
    Ok(page.into_string())
}

fn head(report: &Report) -> Markup {
    let Summary { opening, findings } = summary::summarize(report);
    html! {
        header {
            h1 { @if report.simulated { "Simulated scheduler comparison" } @else { "Scheduler comparison" } }
            p.command { code { (report.command.join(" ")) } }
        }
        p.summary { (opening.join(" ")) }
        @if !findings.is_empty() { ul.findings { @for finding in &findings { li { (finding) } } } }
        @match report.notes.len() {
            0 => {}
            // More would push what came of it off the first screen.
            1..=FEW => (notes(report)),
            many => details { summary { (many) " remarks on the run" } (notes(report)) },
        }
    }
}

fn notes(report: &Report) -> Markup {
    html! { ul.notes { @for note in &report.notes { li { (note) } } } }
}

fn host(report: &Report) -> Markup {
    let facts = facts::rows(&report.host);
    html! {
        @if !facts.is_empty() {
            h2 { "Host" }
            dl.facts {
                @for (name, value) in &facts { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// Work done in every setting against the baseline: a table for all suites that compare the same policies.
fn glance(blocks: &[Block<'_>]) -> Markup {
    let shown: Vec<(&Block<'_>, Vec<&Params>)> =
        blocks.iter().map(|block| (block, worked(block))).filter(|(_, rows)| !rows.is_empty()).collect();
    html! { @if !shown.is_empty() {
        h2 { "Throughput at a glance" }
        p.hint { "Ratio to " code { (BASELINE) } " with its 95 % interval; above 1 is more work done." }
        @for blocks in shown.chunk_by(|(a, _), (b, _)| a.policies == b.policies) {
            (boxed("Throughput at a glance", &html! { table {
                thead { tr {
                    th { "suite" } th { "size" }
                    @for policy in &blocks[0].0.policies { th.number { (policy) } }
                } }
                @for (block, rows) in blocks { tbody { @for (index, row) in rows.iter().enumerate() { tr {
                    @if index == 0 { th.group scope="rowgroup" rowspan=(rows.len()) { (block.title()) } }
                    th scope="row" { (row.size_label()) }
                    @for policy in &block.policies {
                        (judged(block.cell(row, policy, Metric::Throughput), with_unit, false))
                    }
                } } } }
            } }))
        }
        p.hint { (legend_of_signs()) }
    } }
}

/// The rows of a block in which work is done as fast as it can be: a probe has its own pace, and is rated by what it misses.
fn worked<'a>(block: &Block<'a>) -> Vec<&'a Params> {
    let has_work = |row: &&Params| {
        let any = block.policies.iter().any(|policy| block.cell(row, policy, Metric::Throughput).is_some());
        any && row.get("probe").is_none()
    };
    block.rows.iter().copied().filter(has_work).collect()
}

/// What may be wider than the screen, in a box that scrolls, by keys too, and says so where it is.
pub(super) fn boxed(name: &str, content: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(name) { (content) } }
}

fn legend_of_signs() -> Markup {
    html! {
        span.better { b { "+" } " better" } " "
        span.worse { b { "−" } " worse" }
        " than " code { (BASELINE) } ": the interval excludes 1. "
        "In brackets, unshaded: it does, but in too few rounds to tell it from chance."
    }
}

/// The ratio to show for a cell: none for the baseline itself, nor for a share, whose measure is 1.0.
fn comparable(cell: &Cell) -> Option<f64> {
    cell.ratio_to_host.filter(|_| cell.policy != BASELINE && !cell.metric.is_share())
}

/// A table cell: the ratio with interval, sign and shade, and `below` it the value; the value alone if there is no
/// ratio.
fn judged(cell: Option<&Cell>, value: impl Fn(&Cell) -> String, below: bool) -> Markup {
    let Some(cell) = cell else { return html! { td.number.none { "–" } } };
    let Some(ratio) = comparable(cell) else { return html! { td.number { (value(cell)) } } };
    let verdict = cell.verdict();
    html! {
        td.number.{ (class(verdict)) } title=[verdict.words()] {
            @if !verdict.sign().is_empty() { b.sign { (verdict.sign()) } " " }
            b { (stile_text::ratio(ratio)) }
            @if let Some(interval) = cell.ratio_ci95 { " " span.interval { (format::interval(interval)) } }
            @if let Some(why) = cell.lacks_interval() { " " span.interval { "(" (why) ")" } }
            @if below { span.value { (value(cell)) } }
        }
    }
}

fn with_unit(cell: &Cell) -> String {
    format::value_with_unit(cell.metric, cell.suite, cell.median)
}

fn without_unit(cell: &Cell) -> String {
    format::value(cell.metric, cell.suite, cell.median)
}

/// A metric as a row's heading: "throughput, locks/s" above "higher is better". Times carry their units; of counts and
/// shares the label says what they are of.
fn metric_heading(metric: Metric, suite: Suite) -> Markup {
    let unit = Some(metric.unit(suite)).filter(|unit| unit.contains('/')).map(|unit| format!(", {unit}"));
    let unit = unit.unwrap_or_default();
    html! { (metric.label()) (unit) span.value { (metric.direction(suite)) } }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Differs { better: true, proved: true } => "better",
        Verdict::Differs { better: false, proved: true } => "worse",
        Verdict::Differs { better: true, proved: false } => "better weak",
        Verdict::Differs { better: false, proved: false } => "worse weak",
        Verdict::Open => "open",
    }
}

fn suite(block: &Block<'_>, policies: &[&str], details: Details<'_>) -> Result<Markup, PlotError> {
    let figures = figures::of(block, policies, details)?;
    let moments = figures::moments(block, details);
    let legend = block.policies.iter().map(|policy| Ok((*policy, plot::legend_key(figures::slot(policies, policy))?)));
    let legend = legend.collect::<Result<Vec<_>, PlotError>>()?;
    let rows: Vec<(&Params, Vec<Metric>)> =
        block.headline_rows().into_iter().map(|row| (row, block.headline_of(row))).collect();
    Ok(html! {
        section {
            h2 { (block.title()) }
            p.hint { (block.suite.about()) }
            ul.legend { @for (policy, key) in &legend { li { (PreEscaped(key)) (policy) } } }
            div.plots { @for figure in &figures { figure {
                figcaption { (figure.caption) }
                (PreEscaped(&figure.svg))
            } } }
            @for figure in &moments { figure.moment {
                figcaption { (figure.caption) }
                (boxed("A timeline", &PreEscaped(figure.svg.clone())))
            } }
            (boxed(&format!("Figures of {}", block.title()), &html! { table {
                thead { tr {
                    th { "size" } th { "metric" }
                    @for policy in &block.policies { th.number { (policy) } }
                } }
                @for (row, metrics) in &rows { tbody {
                    @for (index, metric) in metrics.iter().enumerate() { tr {
                        @if index == 0 { th.group scope="rowgroup" rowspan=(metrics.len()) { (row.size_label()) } }
                        th scope="row" { (metric_heading(*metric, block.suite)) }
                        @for policy in &block.policies {
                            (judged(block.cell(row, policy, *metric), without_unit, true))
                        }
                    } }
                } }
            } }))
        }
    })
}

fn appendix(report: &Report, blocks: &[Block<'_>]) -> Markup {
    html! {
        h2 { "All figures and how to read them" }
        @for block in blocks {
            details {
                summary { "Every metric of " (block.title()) }
                (full_table(block))
            }
        }
        @if let Some(policies) = report.host.get(facts::POLICIES) {
            details {
                summary { "Policies in full" }
                pre { (pretty(policies)) }
            }
        }
        details open[report.cells.is_empty()] {
            summary { "How to read this page" }
            (reading_guide(report))
        }
    }
}

fn full_table(block: &Block<'_>) -> Markup {
    let row = |cell: &Cell| {
        html! {
            td.number { (format::value(cell.metric, cell.suite, cell.median)) }
            td.number { @if let Some(ci) = cell.ci95 {
                (format::value(cell.metric, cell.suite, ci.lo)) " to " (format::value(cell.metric, cell.suite, ci.hi))
            } }
            td { @if !format::tells_unit(cell.metric, cell.suite) { (cell.unit) } } td { (cell.metric.direction(cell.suite)) }
            (judged(Some(cell), |_| "–".to_owned(), false))
            td.number { (cell.samples.len()) }
        }
    };
    html! {
        (boxed("Every metric", &html! { table.full {
            thead { tr {
                th { "size" } th { "metric" } th { "policy" } th.number { "median" } th.number { "95 % interval" }
                th { "unit" } th { "direction" } th.number { "ratio to " (BASELINE) } th.number { "rounds" }
            } }
            @for params in &block.rows {
                @for metric in Metric::ALL.into_iter().filter(|metric| block.has(*metric)) { tbody {
                    @for policy in &block.policies { @if let Some(cell) = block.cell(params, policy, metric) { tr {
                        td { (params.size_label()) } td { (metric.label()) } td { (policy) } (row(cell))
                    } } }
                } }
            }
        } }))
    }
}

fn reading_guide(report: &Report) -> Markup {
    html! {
        ul.guide {
            li { "Policies take turns within a round. A ratio is taken within its round, so that what the machine did "
                "meanwhile counts for both sides; the figure is the median of these ratios, not the ratio of medians." }
            li { "Intervals and whiskers are 95 % bootstrap intervals of the median (seed " (report.seed) "). Up to "
                "five rounds they are the range of the samples and cover the median in 75 % (3 rounds), 88 % (4) or "
                "94 % (5) of cases; with more, in 92 % at least; below three there is none." }
            li { "A distribution has the waits of all rounds; of the vCPUs' CPU times each bar is a rank's median over the "
                "rounds. A timeline shows the longest wait that the scheduler's event rings still held when the policy's "
                "worst window ended; grey are turns too short to be told apart." }
            li { "A sign needs an interval that excludes 1. With many cells some are marked by chance: about one in "
                "twenty where nothing differs. List a policy twice (" code { "host,host" } ") to see how much." }
            li { "Where guests wait for each other, they spin a little and then yield; a yield with a hint tells the scheduler "
                "what its vCPU waits for (" code { "--hint" } ")." }
            li { "Exits, switches, migrations and yields explain a result and are not judged: more work makes more of "
                "them. Nor is the work of the hogs beside lockers: what they lose there is what the lockers had been "
                "starved of." }
            li { "No ratio is given where " code { (BASELINE) } " did not run or measured 0 in a round." }
            li { "Shares are relative to an equal one, in weights to what the policy's weights give: 1.0 is fair. The Jain index is 1 if all vCPUs got on equally, "
                "1/n if one had everything." }
            li { code { "raw/" } " beside this page has every sample, " code { "report.json" } " every figure shown "
                "here, " code { "host.json" } " the host and the policies." }
        }
    }
}

fn pretty(value: &Value) -> String {
    // A Value always serializes; its own Display is the compact form.
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
