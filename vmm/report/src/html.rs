//! The report as one static page: readable without network or script, in light and dark, wide and narrow.
//!
//! Everything shown comes from the [`Report`] and its [`Sample`]s; text is escaped by the template. Order: summary,
//! results at a glance, for each suite its plots, worst moments and headline figures, the sources' tables, the host,
//! all figures, the policies, and how to read it all.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::detail::Details;
use super::figures::{self, Palette};
use super::plot::{self, PlotError};
use super::summary::{self, Summary};
use super::view::{self, Block};
use super::{facts, format, sources};
use stile_results::model::{Cell, Params, Report, Sample};
use stile_results::verdict::Verdict;
use stile_suites::Metric;
use stile_suites::Suite;

const STYLE: &str = include_str!("style.css");
/// The number of remarks that are shown without a click.
const FEW: usize = 3;

/// Makes the page. Distributions, shares and moments come from the samples; without samples the page lacks them.
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
    let palette = Palette { policies: &policies, reference: &report.reference };
    let suites = blocks.iter().map(|block| suite(block, palette, Details(samples))).collect::<Result<Vec<_>, _>>()?;
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
                    (glance(&blocks))
                    @for suite in &suites { (suite) }
                    (sources::html(&sources::tables(report)))
                    (host(report))
                    (appendix(report, &blocks))
                }
            }
        }
    };
    Ok(page.into_string())
}

fn head(report: &Report) -> Markup {
    let Summary { warnings, opening, findings, notes } = summary::summarize(report);
    html! {
        header {
            h1 { @if report.simulated { "Simulated scheduler comparison" } @else { "Scheduler comparison" } }
            p.command { code { (report.command.join(" ")) } }
        }
        @if let Some((first, more)) = warnings.split_first() {
            div.warning role="note" {
                p { b { (first) } }
                @if !more.is_empty() { ul { @for warning in more { li { (warning) } } } }
            }
        }
        p.summary { (opening.join(" ")) }
        @if !findings.is_empty() { ul.findings { @for finding in &findings { li { (finding) } } } }
        @match notes.len() {
            0 => {}
            // More would push the results off the first screen.
            1..=FEW => (list(&notes)),
            many => details { summary { (many) " remarks on the run" } (list(&notes)) },
        }
    }
}

fn list(notes: &[String]) -> Markup {
    html! { ul.notes { @for note in notes { li { (note) } } } }
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

/// Work done in every setting against the reference: a table for all suites that compare the same policies.
fn glance(blocks: &[Block<'_>]) -> Markup {
    let reference = blocks.first().map_or("", |block| block.reference);
    let shown: Vec<(&Block<'_>, Vec<&Params>)> =
        blocks.iter().map(|block| (block, worked(block))).filter(|(_, rows)| !rows.is_empty()).collect();
    html! { @if !shown.is_empty() {
        h2 { "Throughput at a glance" }
        p.hint { "Ratio to " code { (reference) } " with its 95 % interval; above 1 is more work done." }
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
                        (judged(block, block.cell(row, policy, Metric::Throughput), with_unit, false))
                    }
                } } } }
            } }))
        }
        p.hint { (legend_of_signs(reference)) }
    } }
}

/// The rows of a block whose work runs as fast as it can. A probe has a pace of its own and is rated by missed
/// deadlines.
fn worked<'a>(block: &Block<'a>) -> Vec<&'a Params> {
    let has_work = |row: &&Params| {
        let any = block.policies.iter().any(|policy| block.cell(row, policy, Metric::Throughput).is_some());
        any && row.get("probe").is_none()
    };
    block.rows.iter().copied().filter(has_work).collect()
}

/// Puts content that may be wider than the screen into a box that scrolls, with keys as well.
pub(super) fn boxed(name: &str, content: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(name) { (content) } }
}

fn legend_of_signs(reference: &str) -> Markup {
    html! {
        span.better { b { "+" } " better" } " "
        span.worse { b { "−" } " worse" }
        " than " code { (reference) } ": the interval excludes 1. "
        "In brackets, without colour: it does, but there were too few rounds to rule out chance."
    }
}

/// The ratio to show for a cell: none for the reference itself, nor for a share, which is compared with 1.0.
fn comparable(cell: &Cell, reference: &str) -> Option<f64> {
    cell.ratio.filter(|_| !cell.is_of(reference) && !cell.metric.is_share())
}

/// A table cell: the ratio with interval, sign and shade, and `below` it the value; the value alone if there is no
/// ratio.
fn judged(block: &Block<'_>, cell: Option<&Cell>, value: impl Fn(&Cell) -> String, below: bool) -> Markup {
    let Some(cell) = cell else { return html! { td.number.none { "–" } } };
    let Some(ratio) = comparable(cell, block.reference) else { return html! { td.number { (value(cell)) } } };
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

/// A metric as a row's heading: "throughput, locks/s" above "higher is better". Times are shown with their units, and
/// the labels of counts and shares name what they count.
fn metric_heading(metric: Metric, suite: Suite) -> Markup {
    let unit = Some(suite.unit(metric)).filter(|unit| unit.contains('/')).map(|unit| format!(", {unit}"));
    let unit = unit.unwrap_or_default();
    html! { (metric.label()) (unit) span.value { (suite.direction(metric)) } }
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

fn suite(block: &Block<'_>, palette: Palette<'_>, details: Details<'_>) -> Result<Markup, PlotError> {
    let figures = figures::of(block, palette, details)?;
    let moments = figures::moments(block, details);
    let legend = block.policies.iter().map(|policy| Ok((*policy, plot::legend_key(palette.slot(policy))?)));
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
                            (judged(block, block.cell(row, policy, *metric), without_unit, true))
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
            td { @if !format::tells_unit(cell.metric, cell.suite) { (cell.unit) } } td { (cell.suite.direction(cell.metric)) }
            (judged(block, Some(cell), |_| "–".to_owned(), false))
            td.number { (cell.samples.len()) }
        }
    };
    html! {
        (boxed("Every metric", &html! { table.full {
            thead { tr {
                th { "size" } th { "metric" } th { "policy" } th.number { "median" } th.number { "95 % interval" }
                th { "unit" } th { "direction" } th.number { "ratio to " (block.reference) } th.number { "rounds" }
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
            li { "In each round every policy runs once. A ratio compares two runs of the same round, because the "
                "state of the machine at that time affects both. The figure shown is the median of these ratios, not the ratio of "
                "the medians." }
            li { "Intervals and whiskers are 95 % bootstrap intervals of the median (seed " (report.seed) "). With three "
                "to five rounds an interval is the range of the samples. It covers the true median in 75 % (3 rounds), "
                "88 % (4) or 94 % (5) of cases; with more rounds in at least 92 %. Fewer than three rounds give no "
                "interval." }
            li { "A cell has a sign if its interval excludes 1. Chance alone gives a sign to about one in twenty cells of "
                "two policies that do not differ. Compare a policy with itself (" code { "--policies host,host" } ") to "
                "see how many it gives on this machine." }
            li { "The latency distribution has the waits of all rounds. The plot of CPU time has a bar for each vCPU, "
                "sorted in each round; a bar is the median over the rounds at its rank." }
            li { "A timeline shows the longest wait that the scheduler's event rings still held at the end of the window. "
                "Grey bars are turns too short to be drawn one by one." }
            li { "Guests that wait for each other spin briefly and then yield. A yield with a hint tells the scheduler "
                "what the vCPU waits for (" code { "--hint" } ")." }
            li { "Exits, switches, migrations and yields explain a result and get no sign: more work causes more of "
                "them. The work of hogs beside lockers gets none either: it shrinks when the lockers get the CPU time "
                "that they lacked." }
            li { "There is no ratio where " code { (report.reference) } " did not run, or measured 0 in a round." }
            li { "A share is relative to a fair part: 1.0 is fair. A fair part is an equal one, and in " code { "weights" }
                " the part that the policy's weights give. The Jain index is 1 if all vCPUs got the same, and 1/n if one "
                "of n got everything." }
            li { code { "raw/" } " beside this page has every sample, " code { "report.json" } " every figure of "
                "this page, and " code { "host.json" } " the host and the policies." }
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
