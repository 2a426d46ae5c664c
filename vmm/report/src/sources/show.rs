//! Sources' tables for terminals, documents and the page.

use super::table::SourceTable;
use crate::html::boxed;
use crate::table::Screen;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use maud::{Markup, html};
use stile_text::fill;

/// Tables as text, each followed by its source and its findings; empty without tables.
pub(crate) fn terminal(tables: &[SourceTable], screen: Screen) -> String {
    let mut out = String::new();
    for SourceTable { title, citation, header, rows, findings } in tables {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
        // A terminal's own limits count, whatever the process's output is.
        table.set_width(u16::try_from(screen.width).unwrap_or(u16::MAX)).force_no_tty();
        table.set_header(header).add_rows(rows);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        out += &fill(title, screen.width);
        table.to_string().lines().for_each(|line| out += &format!("{}\n", line.trim_end()));
        out += &fill(&format!("Source: {citation}"), screen.width);
        findings.iter().for_each(|finding| out += &fill(finding, screen.width));
        out.push('\n');
    }
    out
}

/// The tables as Markdown.
pub(crate) fn markdown(tables: &[SourceTable]) -> String {
    let mut out = String::new();
    let line = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|field| field.replace('|', "\\|")).collect();
        format!("| {} |\n", fields.join(" | "))
    };
    for SourceTable { title, citation, header, rows, findings } in tables {
        out += &format!("**{title}** (source: {citation})\n\n{}|{}\n", line(header), "---|".repeat(header.len()));
        rows.iter().for_each(|row| out += &line(row));
        out.push('\n');
        findings.iter().for_each(|finding| out += &format!("* {finding}\n"));
        out.push('\n');
    }
    out
}

/// The tables as a part of the page; empty without tables.
pub(crate) fn html(tables: &[SourceTable]) -> Markup {
    html! {
        @for SourceTable { title, citation, header, rows, findings } in tables {
            section.source {
                h2 { (title) }
                p.hint { "Source: " (citation) }
                (boxed(title, &html! { table {
                    thead { tr { @for (index, name) in header.iter().enumerate() { th.number[index > 0] { (name) } } } }
                    tbody { @for row in rows { tr {
                        @for (index, field) in row.iter().enumerate() {
                            @if index == 0 { th scope="row" { (field) } } @else { td.number { (field) } }
                        }
                    } } }
                } }))
                @if !findings.is_empty() { ul.findings { @for finding in findings { li { (finding) } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen { width: 60, colour: false };

    fn made_up() -> Vec<SourceTable> {
        let strings = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>();
        vec![SourceTable {
            title: "Rooms of chatting guests".to_owned(),
            citation: "A. Uthor, a list's post of 2001",
            header: strings(&["rooms", "host", "rsdl", "the source's"]),
            rows: vec![strings(&["10", "1.00k", "1.72k", "1.50k <|>"]), strings(&["20", "800", "1.70k", "1.40k"])],
            findings: strings(&["rsdl gains 1.72 times with 10 rooms, as the source did (1.72)."]),
        }]
    }

    #[test]
    fn every_field_source_and_finding_is_shown_in_each_form() {
        let tables = made_up();
        let shown = [terminal(&tables, PLAIN), markdown(&tables), html(&tables).into_string()];
        let table = &tables[0];
        for text in shown {
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let fields = table.rows.iter().flatten().chain(&table.header).filter(|field| !field.contains('|'));
            for field in fields.chain(&table.findings).chain([&table.title, &table.citation.to_owned()]) {
                assert!(joined.contains(field.as_str()), "no `{field}` in {text}");
            }
        }
    }

    #[test]
    fn lines_keep_to_the_screen_and_marks_do_not_break_a_form() {
        let tables = made_up();
        let text = terminal(&tables, Screen { width: 40, ..PLAIN });
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(markdown(&tables).contains("1.50k <\\|>"));
        assert!(html(&tables).into_string().contains("1.50k &lt;|&gt;"));
    }

    #[test]
    fn without_tables_nothing_is_shown() {
        assert_eq!((terminal(&[], PLAIN), markdown(&[]), html(&[]).into_string()), Default::default());
    }
}
