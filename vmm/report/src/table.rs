//! The report as text: a table for the terminal, and Markdown for documents.
//!
//! A table that is too wide is split by policies, never wrapped inside a cell. Colour only repeats what the signs say.

use std::io::IsTerminal;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell as TableCell, CellAlignment, Color, ContentArrangement, Table};

use super::summary::{self, Summary};
use super::view::{self, Block};
use super::{format, sources};
use stile_results::metric::Metric;
use stile_results::model::{BASELINE, Cell, Params, Report};
use stile_results::verdict::Verdict;

/// Width if the output is no terminal: what fits a mail or a wide editor.
const DEFAULT_WIDTH: usize = 120;
/// Blanks that a table puts around the content of a column.
const COLUMN_PADDING: usize = 2;

/// A blank that the table does not trim from the end of a line (it trims all that Unicode calls white space);
/// replaced by an ordinary one after the layout.
const SOLID_BLANK: char = '\u{2800}';

/// What the output can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns of text.
    pub width: usize,
    /// Whether to colour.
    pub colour: bool,
}

impl Screen {
    /// Standard output as it is: colour only on a terminal and without `NO_COLOR`.
    pub fn detect() -> Self {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return Self { width: DEFAULT_WIDTH, colour: false };
        }
        // A terminal that does not know its size reports 0.
        let width = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
        let width = if width == 0 { DEFAULT_WIDTH } else { width };
        Self { width, colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }
}

/// The report for a terminal: the sources' tables, a block per suite, then the summary.
pub fn terminal(report: &Report, screen: Screen) -> String {
    let mut out = sources::terminal(&sources::tables(report), screen);
    for block in view::blocks(report) {
        let unit = block.suite.throughput_unit();
        out += &format!("{}: {unit}, then the ratio to {BASELINE}\n", block.title());
        let layout = Layout::new(&block);
        for policies in layout.chunks(screen.width) {
            out += &layout.render(policies, screen);
            out.push('\n');
        }
        out.push('\n');
    }
    let Summary { opening, findings } = summary::summarize(report);
    out += &stile_text::fill(&opening.join(" "), screen.width);
    for finding in findings {
        out += &stile_text::fill(&finding, screen.width);
    }
    for note in &report.notes {
        out += &stile_text::fill(&format!("Note: {note}"), screen.width);
    }
    out
}

/// How a block is set out.
struct Layout<'a> {
    block: &'a Block<'a>,
    /// Width of the widest sign: signs have a column of their own, so that figures stand under figures.
    signs: usize,
}

impl<'a> Layout<'a> {
    fn new(block: &'a Block<'a>) -> Self {
        let cells = block.headline_cells();
        Self { block, signs: cells.map(|cell| cell.verdict().sign().chars().count()).max().unwrap_or(0) }
    }

    /// As many policies side by side as fit; at least one.
    fn chunks(&self, width: usize) -> Vec<&'a [&'a str]> {
        let Block { rows, policies, .. } = self.block;
        let labels = rows.iter().map(|row| row.size_label().chars().count()).max().unwrap_or(0) + COLUMN_PADDING;
        let mut chunks = Vec::new();
        let (mut start, mut used) = (0, labels);
        for (index, policy) in policies.iter().enumerate() {
            let needed = self.column_width(policy);
            if index > start && used + needed > width {
                chunks.push(&policies[start..index]);
                (start, used) = (index, labels);
            }
            used += needed;
        }
        chunks.push(&policies[start..]);
        chunks
    }

    fn column_width(&self, policy: &str) -> usize {
        let lines = self.block.headline_rows().into_iter().flat_map(|row| self.lines(row, policy));
        let widest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        // One more for what separates it from the column before.
        widest.max(policy.chars().count()) + COLUMN_PADDING + 1
    }

    fn render(&self, policies: &[&str], screen: Screen) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        if screen.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let bold = |text: &str| TableCell::new(text).add_attribute(Attribute::Bold);
        let heading = |policy: &&str| bold(policy).set_alignment(CellAlignment::Right);
        table.set_header([bold("")].into_iter().chain(policies.iter().map(heading)));
        for row in self.block.headline_rows() {
            let cells = policies.iter().map(|policy| self.table_cell(row, policy));
            table.add_row([bold(&row.size_label())].into_iter().chain(cells));
        }
        let text = table.to_string().replace(SOLID_BLANK, " ");
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    fn table_cell(&self, row: &Params, policy: &str) -> TableCell {
        let cell = TableCell::new(self.lines(row, policy).join("\n")).set_alignment(CellAlignment::Right);
        match self.block.cell(row, policy, Metric::Throughput).map_or(Verdict::Open, Cell::verdict) {
            Verdict::Differs { better: true, proved: true } => cell.fg(Color::Green),
            Verdict::Differs { better: false, proved: true } => cell.fg(Color::Red),
            _ => cell,
        }
    }

    /// The lines of a cell: throughput with its ratio, then the suite's other headline metrics.
    fn lines(&self, row: &Params, policy: &str) -> Vec<String> {
        let cells = self.block.headline().filter_map(|metric| self.block.cell(row, policy, metric));
        let signs = self.signs;
        let signed = |cell: &Cell| match signs {
            0 => line(cell),
            _ => format!("{} {:\u{2800}<signs$}", line(cell), cell.verdict().sign()),
        };
        cells.map(signed).collect()
    }
}

fn line(cell: &Cell) -> String {
    let metric = cell.metric;
    let label = if metric == Metric::Throughput { String::new() } else { format!("{} ", metric.short()) };
    let value = format::value(metric, cell.suite, cell.median);
    // Where a ratio is the point; beside the others it would be noise.
    let ratio = cell.ratio_to_host.filter(|_| metric.is_work());
    let ratio = ratio.filter(|_| cell.policy != BASELINE).map(|ratio| {
        let lacks = cell.lacks_interval().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("  {}x{lacks}", stile_text::ratio(ratio))
    });
    format!("{label}{value}{}", ratio.unwrap_or_default())
}

/// The report as Markdown tables: the sources', then each suite's headline metrics, work and times with ratio and interval.
pub fn markdown(report: &Report) -> String {
    let mut out = sources::markdown(&sources::tables(report));
    for block in view::blocks(report) {
        let policies = block.policies.join(" | ");
        out += &format!("**{}** ({})\n\n", block.title(), block.suite.throughput_unit());
        out += &format!("| | {policies} |\n|---|{}\n", "---|".repeat(block.policies.len()));
        for row in block.headline_rows() {
            for metric in block.headline_of(row) {
                let label = match metric {
                    Metric::Throughput => String::new(),
                    _ => format!(", {}", metric.short()),
                };
                let cells = block.policies.iter().map(|policy| markdown_cell(block.cell(row, policy, metric)));
                out += &format!("| {}{label} | {} |\n", row.size_label(), cells.collect::<Vec<_>>().join(" | "));
            }
        }
        out.push('\n');
    }
    out
}

fn markdown_cell(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return String::new() };
    let value = format::value(cell.metric, cell.suite, cell.median);
    let compares = cell.policy != BASELINE && (cell.metric.is_work() || cell.metric.is_time());
    let Some(ratio) = cell.ratio_to_host.filter(|_| compares) else { return value };
    let interval = cell.ratio_ci95.map(|interval| format!(" {}", format::interval(interval)));
    let lacks = || cell.lacks_interval().map(|why| format!(" ({why})"));
    format!("{value}, **{}**{}", stile_text::ratio(ratio), interval.or_else(lacks).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::RunContext;
    use stile_results::testing::ticket;

    const PLAIN: Screen = Screen { width: 120, colour: false };

    fn report(policies: &[&str]) -> Report {
        let of = |policy: &&str| {
            let ours = if *policy == BASELINE { 20_000.0 } else { 30_600.0 };
            [ticket(policy, Metric::Throughput, &[ours; 5]), ticket(policy, Metric::LatencyP99, &[1200.0; 5])].concat()
        };
        let samples: Vec<_> = policies.iter().flat_map(of).collect();
        Report::from_samples(&samples, RunContext::default())
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_cell_shows_value_ratio_sign_and_secondary_metrics() {
        let text = terminal(&report(&["host", "rsdl"]), PLAIN);
        assert!(text.contains("30.6k  1.53x +") && text.contains("p99 1.20 ms") && text.contains("4 vCPUs"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn colour_is_used_only_where_asked_for() {
        let text = terminal(&report(&["host", "rsdl"]), Screen { width: 120, colour: true });
        assert!(text.contains('\u{1b}'));
    }

    #[test]
    fn many_policies_are_split_and_none_is_lost() {
        let policies = ["host", "host-noyield", "freelist", "o1", "rsdl+none", "rsdl+expire", "rsdl+polite"];
        let report = report(&policies);
        for width in [120, 80, 40] {
            let text = terminal(&report, Screen { width, colour: false });
            assert!(widest(&text) <= width, "{width}:\n{text}");
            assert!(policies.iter().all(|policy| text.contains(policy)), "{width}:\n{text}");
        }
    }

    #[test]
    fn a_ratio_of_few_rounds_is_shown_with_their_number_instead_of_an_interval() {
        let of = |policy, work| ticket(policy, Metric::Throughput, &[work; 2]);
        let samples = [of("host", 1.0), of("rsdl", 133.0)].concat();
        let report = Report::from_samples(&samples, RunContext::default());
        let text = terminal(&report, PLAIN);
        assert!(text.contains("133x (2 rounds, no interval)"), "{text}");
        assert!(text.contains("With 2 rounds there are no intervals"), "{text}");
        let text = markdown(&report);
        assert!(text.contains("**133** (2 rounds, no interval)"), "{text}");
    }

    #[test]
    fn an_empty_report_is_one_sentence() {
        assert_eq!(terminal(&report(&[]), PLAIN), "Nothing was measured.\n");
    }

    #[test]
    fn markdown_has_the_ratio_with_its_interval() {
        let text = markdown(&report(&["host", "rsdl"]));
        assert!(text.contains("| 4 vCPUs | 20.0k | 30.6k, **1.53** [1.53, 1.53] |"), "{text}");
        assert!(text.contains("| 4 vCPUs, p99 | 1.20 ms | 1.20 ms, **1.00** [1.00, 1.00] |"), "{text}");
    }

    #[test]
    fn markdown_has_an_index_without_a_ratio() {
        let samples = [ticket("host", Metric::Jain, &[0.5]), ticket("rsdl", Metric::Jain, &[1.0])].concat();
        let text = markdown(&Report::from_samples(&samples, RunContext::default()));
        assert!(text.contains("| 4 vCPUs, Jain | 0.50 | 1.00 |"), "{text}");
    }
}
