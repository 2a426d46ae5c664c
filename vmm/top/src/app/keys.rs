//! What each key does.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use stile_api::{CapSetting, NoCap, SchedulingRequest, VmState};
use stile_config::CpuCap;

use super::{Action, App, Message, Mode, WantedNice};
use crate::column::Column;
use crate::node::Order;

/// Rows that a page key moves by.
const PAGE: isize = 10;
/// Nice values.
const NICE: std::ops::RangeInclusive<i8> = -20..=19;
/// Longest text that a line of input takes (unit: characters). Names and caps are shorter.
const INPUT_MAX: usize = 64;

/// The keys and what they do, for the help.
pub(crate) const KEYS: [(&str, &str); 10] = [
    ("arrows j k PgUp PgDn Home End g G", "select a row"),
    ("Enter Space Right Left l h", "show or hide the vCPUs of a VM"),
    ("*", "show or hide the vCPUs of all VMs"),
    ("< > r", "sort by the column before, after; reverse"),
    ("/", "show VMs with a text in their name; Esc: all"),
    ("p", "pause the VM, or resume it"),
    ("n or -, N or +", "nice one lower (more CPU time), one higher"),
    ("c", "set the cap of the VM"),
    ("? F1", "this help"),
    ("q F10 Ctrl-C, Ctrl-Z", "quit; back to the shell until fg"),
];

/// What a key in a line of input leads to.
enum Typed {
    /// The text, changed or not.
    Text(String),
    Done,
    Left,
}

impl App {
    /// A key was pressed.
    pub fn on_key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Quit,
                KeyCode::Char('z') => Action::Suspend,
                _ => Action::None,
            };
        }
        match std::mem::replace(&mut self.mode, Mode::Table) {
            Mode::Help => Action::None,
            Mode::Table => self.on_table_key(key.code),
            Mode::Filter => self.on_filter_key(key.code),
            Mode::Cap { vm, text } => self.on_cap_key(key.code, vm, text),
        }
    }

    fn on_table_key(&mut self, code: KeyCode) -> Action {
        self.message = None;
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.move_selection(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_selection(1),
            KeyCode::PageUp => self.move_selection(-PAGE),
            KeyCode::PageDown => self.move_selection(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.move_selection(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_selection(isize::MAX),
            KeyCode::Enter | KeyCode::Char(' ') => self.expand_selected(None),
            KeyCode::Right | KeyCode::Char('l') => self.expand_selected(Some(true)),
            KeyCode::Left | KeyCode::Char('h') => self.expand_selected(Some(false)),
            KeyCode::Char('*') => self.expand_all(),
            KeyCode::Char('<') => self.sort_beside(Column::ALL.len() - 1),
            KeyCode::Char('>') => self.sort_beside(1),
            KeyCode::Char('r') => {
                self.sorting.is_reversed = !self.sorting.is_reversed;
                self.keep_selection();
            }
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('p') => return self.pause_or_resume(),
            KeyCode::Char('n' | '-') => return self.change_nice(-1),
            KeyCode::Char('N' | '+') => return self.change_nice(1),
            KeyCode::Char('c') => self.begin_cap(),
            KeyCode::Char('q') | KeyCode::F(10) => return Action::Quit,
            _ => {}
        }
        Action::None
    }

    fn on_filter_key(&mut self, code: KeyCode) -> Action {
        match typed(code, self.filter.clone()) {
            Typed::Text(text) => {
                self.mode = Mode::Filter;
                self.set_filter(text);
            }
            Typed::Done => {}
            Typed::Left => self.set_filter(String::new()),
        }
        Action::None
    }

    fn on_cap_key(&mut self, code: KeyCode, vm: String, text: String) -> Action {
        match typed(code, text.clone()) {
            Typed::Text(text) => self.mode = Mode::Cap { vm, text },
            Typed::Left => self.message = None,
            Typed::Done => match cap_of(&text) {
                Ok(cap) => {
                    self.message = None;
                    let request = SchedulingRequest { cap: Some(cap), ..SchedulingRequest::default() };
                    return Action::Order(Order::Schedule { vm, request });
                }
                Err(wrong) => {
                    self.message = Some(Message { text: wrong, is_problem: true });
                    self.mode = Mode::Cap { vm, text };
                }
            },
        }
        Action::None
    }

    fn set_filter(&mut self, text: String) {
        self.filter = text;
        self.keep_selection();
    }

    fn sort_beside(&mut self, steps: usize) {
        let all = Column::ALL;
        let place = all.iter().position(|column| *column == self.sorting.column).unwrap_or_default();
        self.sorting.column = all[(place + steps) % all.len()];
        self.sorting.is_reversed = false;
        self.keep_selection();
    }

    fn expand_selected(&mut self, is_expanded: Option<bool>) {
        let Some(vm) = self.selected_vm().map(|vm| vm.name.clone()) else { return };
        let is_expanded = is_expanded.unwrap_or(!self.is_expanded(&vm));
        self.expand(&vm, is_expanded);
    }

    /// Expands all VMs, or none if all are.
    fn expand_all(&mut self) {
        let names: Vec<String> = self.frame.iter().flat_map(|frame| &frame.vms).map(|vm| vm.name.clone()).collect();
        let is_expanded = names.iter().any(|vm| !self.is_expanded(vm));
        names.iter().for_each(|vm| self.expand(vm, is_expanded));
    }

    fn pause_or_resume(&mut self) -> Action {
        let Some((vm, state)) = self.selected_vm().map(|vm| (vm.name.clone(), vm.state)) else { return Action::None };
        match state {
            VmState::Running => Action::Order(Order::Pause { vm }),
            VmState::Paused => Action::Order(Order::Resume { vm }),
            VmState::Stopped => {
                self.message = Some(Message { text: format!("{vm} is stopped"), is_problem: true });
                Action::None
            }
        }
    }

    fn change_nice(&mut self, by: i8) -> Action {
        let Some((vm, told)) = self.selected_vm().map(|vm| (vm.name.clone(), vm.nice)) else { return Action::None };
        let wanted = self.wanted.get(&vm).copied().unwrap_or(WantedNice { nice: told, unanswered: 0 });
        let nice = wanted.nice.saturating_add(by);
        if !NICE.contains(&nice) {
            let text = format!("nice is {} to {}", NICE.start(), NICE.end());
            self.message = Some(Message { text, is_problem: true });
            return Action::None;
        }
        self.wanted.insert(vm.clone(), WantedNice { nice, unanswered: wanted.unanswered + 1 });
        let request = SchedulingRequest { nice: Some(nice), ..SchedulingRequest::default() };
        Action::Order(Order::Schedule { vm, request })
    }

    fn begin_cap(&mut self) {
        let Some(vm) = self.selected_vm() else { return };
        let text = vm.cap.map(|cap| cap.to_string()).unwrap_or_default();
        self.mode = Mode::Cap { vm: vm.name.clone(), text };
    }
}

/// A key in a line of input.
fn typed(code: KeyCode, mut text: String) -> Typed {
    match code {
        KeyCode::Enter => return Typed::Done,
        KeyCode::Esc => return Typed::Left,
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char(c) if text.chars().count() < INPUT_MAX => text.push(c),
        _ => {}
    }
    Typed::Text(text)
}

/// A cap as it is typed; an empty line is no cap.
fn cap_of(text: &str) -> Result<CapSetting, String> {
    match text.trim() {
        "" | "none" => Ok(CapSetting::None(NoCap::None)),
        text => {
            let cpus: f64 = text.parse().map_err(|_| format!("`{text}` is no number of CPUs"))?;
            let cap = CpuCap::try_from(cpus).map_err(|error| format!("{}: it is {}", error.wrong, error.accepted))?;
            Ok(CapSetting::Cpus(cap))
        }
    }
}
