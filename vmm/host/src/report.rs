//! A diagnosis as text for people, and as JSON for programs.

use serde_json::{Value, json};

use super::doctor::{Diagnosis, Finding, State};

/// Version of the JSON.
const SCHEMA: u32 = 1;
/// Column at which the text of a finding starts (units: columns).
const INDENT: usize = 21;
/// Width at which lines are broken (units: columns).
const WIDTH: usize = 100;

impl Diagnosis {
    /// The findings as text, with colours if `colour`.
    pub fn text(&self, colour: bool) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            write_finding(&mut text, finding, colour);
        }
        let verdict = match (self.guests_can_run, self.warnings()) {
            (false, _) => "No guest can run on this host.".to_owned(),
            (true, 0) => "Guests can run on this host.".to_owned(),
            (true, 1) => "Guests can run on this host, with 1 warning.".to_owned(),
            (true, warnings) => format!("Guests can run on this host, with {warnings} warnings."),
        };
        text.push_str(&format!("\n{verdict}\n"));
        text
    }

    /// The findings and the facts they rest on as JSON.
    pub fn json(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "guests_can_run": self.guests_can_run,
            "findings": self.findings,
            "facts": self.facts,
        })
    }

    fn warnings(&self) -> usize {
        self.findings.iter().filter(|finding| finding.state == State::Warn).count()
    }
}

fn write_finding(text: &mut String, finding: &Finding, colour: bool) {
    let (word, code) = match finding.state {
        State::Good => ("ok", "32"),
        State::Warn => ("warn", "33"),
        State::Bad => ("bad", "31"),
    };
    // Padded before it is coloured: escape codes have no width.
    let word = format!("{word:<5}");
    let word = if colour { format!("\x1b[1;{code}m{word}\x1b[0m") } else { word };
    let head = format!("{word} {:<14} ", finding.subject);
    text.push_str(&head);
    write_wrapped(text, &finding.fact);
    for (mark, line) in [("-> ", Some(&finding.consequence)), ("fix: ", finding.remedy.as_ref())] {
        if let Some(line) = line {
            text.push_str(&" ".repeat(INDENT));
            write_wrapped(text, &format!("{mark}{line}"));
        }
    }
}

/// Writes `words`, broken into lines, from column [`INDENT`], where the text stands now.
fn write_wrapped(text: &mut String, words: &str) {
    let mut column = INDENT;
    for (index, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeHost, live};
    use crate::{HostFacts, KvmUnavailable, Live, diagnose};

    fn diagnosis(live: Live) -> Diagnosis {
        diagnose(HostFacts::read(&FakeHost::vmx().root(), live), 16 << 20)
    }

    #[test]
    fn text_gives_each_finding_its_state_consequence_and_fix() {
        let text = diagnosis(live()).text(false);
        assert!(text.contains("ok    KVM            /dev/kvm can be opened; API version 12\n"), "{text}");
        assert!(text.contains("\n                     -> guests can run\n"), "{text}");
        assert!(text.contains("fix: set `halt_poll` where `auto` does not do"), "{text}");
        assert!(text.ends_with("\nGuests can run on this host, with 2 warnings.\n"), "{text}");
    }

    #[test]
    fn text_stays_within_the_width_and_has_no_colour_unless_asked() {
        let diagnosis = diagnosis(Live { kvm: Err(KvmUnavailable::NoDevice), ..live() });
        let plain = diagnosis.text(false);
        assert!(plain.lines().all(|line| line.chars().count() <= WIDTH && line.trim_end() == line), "{plain}");
        assert!(!plain.contains('\x1b') && plain.contains("No guest can run"));
        assert!(diagnosis.text(true).contains("\x1b[1;31mbad  \x1b[0m KVM"));
    }

    #[test]
    fn json_holds_verdict_findings_and_facts() {
        let json = diagnosis(live()).json();
        assert_eq!((&json["schema"], &json["guests_can_run"]), (&json!(1), &json!(true)));
        assert_eq!(json["findings"][0]["state"], "good");
        assert_eq!(json["facts"]["kvm"]["backend"], "vmx");
    }
}
