//! The state of `stile top`: what the node told last, and how the user looks at it.
//!
//! Keys ([`App::on_key`]) and news go in, an [`Action`] comes out. There is no thread, clock or terminal here. What
//! always holds:
//! * a row is selected whenever there are rows, and it stays selected while it is among them, wherever it moves;
//! * an order names a VM of the last frame.

mod keys;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use stile_api::{Frame, Problem, Reason};

use super::column::Column;
use super::history::History;
use super::node::Order;

pub(crate) use keys::KEYS;
pub(crate) use rows::Row;
use rows::RowId;

/// What a key leads to beyond the state.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Nothing.
    None,
    /// The program ends.
    Quit,
    /// The program stops, as by Ctrl-Z, until the shell continues it.
    Suspend,
    /// The node is to do something.
    Order(Order),
}

/// The connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    /// No frame has come yet.
    Begun,
    /// Frames come.
    Live,
    /// Frames came, or could not be had; another attempt follows.
    Lost,
}

/// What keys mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mode {
    /// They move, sort and order.
    Table,
    /// They are typed into the filter.
    Filter,
    /// They are typed as the cap of a VM.
    Cap {
        /// The VM.
        vm: String,
        /// What was typed.
        text: String,
    },
    /// Any of them ends the help.
    Help,
}

/// A line for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) text: String,
    /// Something did not work.
    pub(crate) is_problem: bool,
}

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sorting {
    pub(crate) column: Column,
    /// Against the column's own order, which is upwards for texts and downwards for numbers.
    pub(crate) is_reversed: bool,
}

/// A nice value that was ordered and is not in a frame yet. Further keys count from it.
#[derive(Debug, Clone, Copy)]
struct WantedNice {
    nice: i8,
    /// Orders without an answer.
    unanswered: u32,
}

/// The state of `stile top`.
#[derive(Debug)]
pub struct App {
    /// Whether colours may be used.
    pub(crate) color: bool,
    pub(crate) frame: Option<Frame>,
    pub(crate) connection: Connection,
    pub(crate) history: History,
    pub(crate) mode: Mode,
    pub(crate) message: Option<Message>,
    pub(crate) sorting: Sorting,
    pub(crate) filter: String,
    expanded: BTreeSet<String>,
    selected: Option<RowId>,
    /// Where the selected row was, for the case that it vanishes.
    place: usize,
    wanted: BTreeMap<String, WantedNice>,
}

impl App {
    /// Before the first frame.
    pub fn new(color: bool) -> Self {
        Self {
            color,
            frame: None,
            connection: Connection::Begun,
            history: History::default(),
            mode: Mode::Table,
            message: None,
            sorting: Sorting { column: Column::Run, is_reversed: false },
            filter: String::new(),
            expanded: BTreeSet::new(),
            selected: None,
            place: 0,
            wanted: BTreeMap::new(),
        }
    }

    /// A frame has come.
    pub fn on_frame(&mut self, frame: Frame) {
        if self.connection == Connection::Lost {
            self.message = Some(Message { text: "connected again".to_owned(), is_problem: false });
        }
        self.connection = Connection::Live;
        self.history.add(&frame);
        let has = |name: &str| frame.vms.iter().any(|vm| vm.name == name);
        self.expanded.retain(|vm| has(vm));
        self.wanted.retain(|vm, wanted| has(vm) && wanted.unanswered > 0);
        if let Mode::Cap { vm, .. } = &self.mode
            && !has(vm)
        {
            self.message = Some(Message { text: format!("{vm} exists no more"), is_problem: true });
            self.mode = Mode::Table;
        }
        self.frame = Some(frame);
        self.keep_selection();
    }

    /// No frames come for this reason.
    pub fn on_lost(&mut self, problem: &Problem) {
        self.connection = Connection::Lost;
        self.message = Some(Message { text: format!("no figures: {}", told(problem)), is_problem: true });
    }

    /// The node has answered an order.
    pub fn on_answer(&mut self, order: &Order, answer: Result<(), Problem>) {
        let wanted = self.wanted.get_mut(order.vm()).filter(|_| matches!(order, Order::Schedule { .. }));
        if let Some(wanted) = wanted {
            wanted.unanswered = wanted.unanswered.saturating_sub(1);
        }
        self.message = Some(match answer {
            Ok(()) => Message { text: order.outcome(), is_problem: false },
            Err(problem) => {
                self.wanted.remove(order.vm());
                Message { text: format!("could not {}: {}", order.wish(), told(&problem)), is_problem: true }
            }
        });
    }

    /// An order could not be handed over, because too many wait for the node.
    pub fn on_refused(&mut self, order: &Order) {
        let problem = Problem::new(Reason::TimedOut, "the node has not answered the orders before");
        self.on_answer(order, Err(problem));
    }

    /// Whether a policy decides, so that it is known which vCPU has which pCPU. Without one there are no kicks.
    pub(crate) fn has_policy(frame: &Frame) -> bool {
        frame.domain.kicks.is_some()
    }
}

/// A problem and its remedy in one line.
fn told(problem: &Problem) -> String {
    let remedy = problem.remedy.as_ref().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
    format!("{}{remedy}", problem.message).replace('\n', " ")
}
