//! The report as text: a table for the terminal, and Markdown for documents.
//!
//! A table that is too wide is split by policies; cells are never wrapped. Colour only repeats what the signs say.

use std::io::IsTerminal;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell as TableCell, CellAlignment, Color, ContentArrangement, Table};

use super::summary::{self, Summary};
use super::view::{self, Block};
use super::{format, sources};
use stile_results::model::{Cell, Params, Report};
use stile_results::verdict::Verdict;
use stile_suites::Metric;

/// Width if the output is no terminal: what fits a mail or a wide editor.
const DEFAULT_WIDTH: usize = 120;
/// Blanks that a table puts around the content of a column.
const COLUMN_PADDING: usize = 2;

/// A blank that the table does not trim from the end of a line (it trims all that Unicode calls white space);
/// replaced by an ordinary one after the layout.
const SOLID_BLANK: char = '\u{2800}';

/// The capabilities of the output.
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

/// The report for a terminal: a block for each suite, the sources' tables, then the summary.
pub fn terminal(report: &Report, screen: Screen) -> String {
    let mut out = String::new();
    for block in view::blocks(report) {
        let layout = Layout::new(&block, screen.width);
        out += &stile_text::fill(&layout.title(), screen.width);
        for policies in layout.chunks(screen.width) {
            out += &layout.render(policies, screen);
            out.push('\n');
        }
        out.push('\n');
    }
    out += &sources::terminal(&sources::tables(report), screen);
    let Summary { warnings, opening, findings, notes } = summary::summarize(report);
    let prefixed = |prefix: &str, lines: &[String]| {
        lines.iter().map(|line| stile_text::fill(&format!("{prefix}: {line}"), screen.width)).collect::<String>()
    };
    out += &prefixed("Warning", &warnings);
    out += &stile_text::fill(&opening.join(" "), screen.width);
    for finding in findings {
        out += &stile_text::fill(&finding, screen.width);
    }
    out + &prefixed("Note", &notes)
}

/// The place of a ratio's interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intervals {
    /// Beside the ratio.
    Beside,
    /// On a line of its own below the ratio.
    Below,
    /// Nowhere: there is no room, or there are no intervals.
    Nowhere,
}

/// The layout of a block.
#[derive(Clone, Copy)]
struct Layout<'a> {
    block: &'a Block<'a>,
    /// Width of the widest sign: signs have a column of their own, so that figures stand under figures.
    signs: usize,
    intervals: Intervals,
}

impl<'a> Layout<'a> {
    /// The layout for a screen: intervals stand beside ratios, or else below them, unless the block needs more tables
    /// then.
    fn new(block: &'a Block<'a>, width: usize) -> Self {
        let signs = block.headline_cells().map(|cell| cell.verdict().sign().chars().count()).max().unwrap_or(0);
        let plain = Self { block, signs, intervals: Intervals::Nowhere };
        let widest = |layout: Self| layout.labels() + layout.widths().into_iter().max().unwrap_or(0);
        let fits = |intervals: &Intervals| {
            let with = Self { intervals: *intervals, ..plain };
            let tables = with.chunks(width).len() <= plain.chunks(width).len();
            tables && widest(with) <= width.max(widest(plain))
        };
        let intervals = [Intervals::Beside, Intervals::Below].into_iter().find(fits);
        Self { intervals: intervals.unwrap_or(Intervals::Nowhere), ..plain }
    }

    /// The text above the table: the block and the meaning of its figures.
    fn title(&self) -> String {
        let Block { suite, reference, policies, .. } = self.block;
        let of = format!("{}: {}", self.block.title(), suite.throughput_unit());
        if !policies.contains(reference) || policies.len() < 2 {
            return of;
        }
        let has_intervals = self.block.headline_cells().any(|cell| self.interval(cell).is_some());
        match self.intervals {
            _ if !has_intervals => format!("{of}, then the ratio to {reference}"),
            Intervals::Nowhere => format!(
                "{of}, then the ratio to {reference}; this screen is too narrow for the 95 % intervals, which are in \
                 report.html"
            ),
            _ => format!("{of}, then the ratio to {reference} and its 95 % interval"),
        }
    }

    /// Width of the column with the rows' names.
    fn labels(&self) -> usize {
        let rows = self.block.rows.iter();
        rows.map(|row| row.size_label().chars().count()).max().unwrap_or(0) + COLUMN_PADDING
    }

    /// Widths of the policies' columns.
    fn widths(&self) -> Vec<usize> {
        self.block.policies.iter().map(|policy| self.column_width(policy)).collect()
    }

    /// As many policies side by side as fit; at least one.
    fn chunks(&self, width: usize) -> Vec<&'a [&'a str]> {
        let (policies, labels) = (&self.block.policies, self.labels());
        let mut chunks = Vec::new();
        let (mut start, mut used) = (0, labels);
        for (index, needed) in self.widths().into_iter().enumerate() {
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
        let signs = self.signs;
        let signed = |text: String, sign: &str| match signs {
            0 => text,
            _ => format!("{text} {sign:\u{2800}<signs$}"),
        };
        let mut lines = Vec::new();
        for metric in self.block.headline() {
            let Some(cell) = self.block.cell(row, policy, metric) else { continue };
            lines.push(signed(self.line(cell), cell.verdict().sign()));
            let others = self.block.policies.iter().filter_map(|policy| self.block.cell(row, policy, metric));
            // If one policy has an extra line, all have it, so that equal metrics stand side by side.
            if self.intervals == Intervals::Below && others.into_iter().any(|cell| self.interval(cell).is_some()) {
                lines.push(signed(self.interval(cell).unwrap_or_default(), ""));
            }
        }
        lines
    }

    fn line(&self, cell: &Cell) -> String {
        let metric = cell.metric;
        let label = if metric == Metric::Throughput { String::new() } else { format!("{} ", metric.short()) };
        let value = format::value(metric, cell.suite, cell.median);
        let Some(ratio) = self.ratio(cell) else { return format!("{label}{value}") };
        let interval = self.interval(cell).filter(|_| self.intervals == Intervals::Beside);
        let lacks = cell.lacks_interval().map(|why| format!("({why})"));
        let beside = interval.or(lacks).map(|text| format!(" {text}")).unwrap_or_default();
        format!("{label}{value}  {}x{beside}", stile_text::ratio(ratio))
    }

    /// The ratio to show: that of work done. Ratios of times and shares would crowd the table.
    fn ratio(&self, cell: &Cell) -> Option<f64> {
        cell.ratio.filter(|_| cell.metric.is_work() && !cell.is_of(self.block.reference))
    }

    /// Its interval.
    fn interval(&self, cell: &Cell) -> Option<String> {
        self.ratio(cell)?;
        cell.ratio_ci95.map(format::interval)
    }
}

/// The report as Markdown tables: each suite's headline metrics, work and times with ratio and interval, then the
/// sources'.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
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
                let cells =
                    block.policies.iter().map(|policy| markdown_cell(block.cell(row, policy, metric), block.reference));
                out += &format!("| {}{label} | {} |\n", row.size_label(), cells.collect::<Vec<_>>().join(" | "));
            }
        }
        out.push('\n');
    }
    out + &sources::markdown(&sources::tables(report))
}

fn markdown_cell(cell: Option<&Cell>, reference: &str) -> String {
    let Some(cell) = cell else { return String::new() };
    let value = format::value(cell.metric, cell.suite, cell.median);
    let compares = !cell.is_of(reference) && (cell.metric.is_work() || cell.metric.is_time());
    let Some(ratio) = cell.ratio.filter(|_| compares) else { return value };
    let interval = cell.ratio_ci95.map(|interval| format!(" {}", format::interval(interval)));
    let lacks = || cell.lacks_interval().map(|why| format!(" ({why})"));
    format!("{value}, **{}**{}", stile_text::ratio(ratio), interval.or_else(lacks).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::disturbed::Disturbed;
    use stile_results::model::{BASELINE, RunContext};
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
        assert!(
            text.contains("30.6k  1.53x [1.53, 1.53] +") && text.contains("p99 1.20 ms") && text.contains("4 vCPUs"),
            "{text}"
        );
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
    fn intervals_stand_beside_ratios_or_below_them_or_are_told_to_be_elsewhere() {
        let policies = ["host", "o1", "rsdl"];
        let at = |width| terminal(&report(&policies), Screen { width, colour: false });
        let [wide, narrow, tiny] = [90, 80, 40].map(at);
        assert!(wide.starts_with("ticket: locks/s, then the ratio to host and its 95 % interval\n"), "{wide}");
        assert!(wide.contains("1.53x [1.53, 1.53] +"), "{wide}");
        let lines: Vec<&str> = narrow.lines().filter(|line| line.contains("1.5") && line.contains("  ")).collect();
        let place = |line: usize, text: &str| lines[line].find(text).unwrap();
        assert!(lines[0].contains("1.53x +") && !lines[0].contains('['), "{narrow}");
        assert!(place(1, "[1.53, 1.53]") >= place(0, "30.6k") && narrow.contains("and its 95 % interval"), "{narrow}");
        let p99 = narrow.lines().find(|line| line.contains("p99")).unwrap();
        assert_eq!(p99.matches("p99").count(), 3, "{narrow}");
        assert!(widest(&tiny) <= 40, "{tiny}");
        let near_one = [("host", 20_000.0), ("rsdl", 20_100.0)]
            .map(|(policy, work)| ticket(policy, Metric::Throughput, &[work; 5]));
        let near_one = Report::from_samples(&near_one.concat(), RunContext::default());
        let told = terminal(&near_one, Screen { width: 25, colour: false });
        assert!(told.contains("1.005x\n") && told.contains("too narrow"), "{told}");
    }

    #[test]
    fn the_reference_has_no_ratio_and_is_named() {
        let report = report(&["host", "rsdl"]).with_reference("rsdl");
        let text = terminal(&report, PLAIN);
        assert!(text.contains("then the ratio to rsdl") && text.contains("20.0k  0.65x [0.65, 0.65] −"), "{text}");
        assert!(text.contains("host against rsdl: throughput better in 0, worse in 1"), "{text}");
    }

    #[test]
    fn disturbances_come_first_where_every_run_of_a_policy_was_disturbed_and_else_last() {
        let mut report = report(&["host", "rsdl"]);
        report.disturbed = Disturbed { notes: vec!["Other programs ran.".into()], ..Disturbed::default() };
        report.disturbed.count("rsdl", false);
        assert!(terminal(&report, PLAIN).ends_with("Note: Other programs ran.\n"));
        report.disturbed.count("host", true);
        let text = terminal(&report, PLAIN);
        let places = ["Warning: Every run under host", "Warning: Other programs ran.", "5 rounds of ticket"];
        let places = places.map(|words| text.find(words).unwrap());
        assert!(places.is_sorted() && !text.contains("Note:"), "{text}");
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
