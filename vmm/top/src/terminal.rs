//! Takes the terminal over, reads keys, and gives the terminal back.
//!
//! It is given back at the end, after an error, at a panic of any thread, by a hook, and at a signal that would end
//! the process: the signal sets a flag, which the loop reads.

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::{DefaultTerminal, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, unregister};
use std::io::{self, IsTerminal};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use super::app::{Action, App};
use super::draw::draw;
use super::link::{Link, News};
use super::node::Node;

/// How long the loop waits for a key before it looks for news: less than a person notices.
const LOOK: Duration = Duration::from_millis(50);
/// Signals that end a process.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// How `stile top` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopOptions {
    /// The length of the interval that each frame covers.
    pub interval: Duration,
    /// Whether colours may be used. The variable NO_COLOR forbids them as well.
    pub color: bool,
}

/// Why `stile top` ended.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// There is nothing to draw on or no keys to read.
    #[error("standard input and output must be a terminal")]
    NoTerminal,
    /// The terminal does not do what it is told.
    #[error("the terminal failed")]
    Terminal(#[source] io::Error),
    /// A thread has panicked, and said why.
    #[error("a thread panicked: this is a mistake in stile")]
    Panicked,
    /// A thread or the handling of a signal could not be set up.
    #[error("cannot start")]
    Start(#[source] io::Error),
}

impl Default for TopOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), color: true }
    }
}

/// Shows a node until the user quits or a signal ends it.
///
/// # Errors
/// If there is no terminal, or it fails. What the node does is shown, and ends nothing.
pub fn run(node: impl Node, options: TopOptions) -> Result<(), TopError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let signals = Signals::register().map_err(TopError::Start)?;
    let link = Link::start(node, options.interval).map_err(TopError::Start)?;
    let mut app = App::new(options.color && !forbidden);
    let mut terminal = Taken::new().map_err(TopError::Terminal)?;
    show(&mut app, &link, &mut terminal, &signals.ended)
}

fn show(app: &mut App, link: &Link, terminal: &mut Taken, ended: &AtomicBool) -> Result<(), TopError> {
    let mut is_new = true;
    while !ended.load(Ordering::Relaxed) {
        if !TAKEN.load(Ordering::Relaxed) {
            return Err(TopError::Panicked);
        }
        if is_new {
            terminal.screen.draw(|screen| draw(app, screen)).map_err(TopError::Terminal)?;
        }
        let event = next_event().map_err(TopError::Terminal)?;
        is_new = event.is_some();
        if let Some(Event::Key(key)) = event {
            match app.on_key(key) {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Suspend => terminal.suspend().map_err(TopError::Terminal)?,
                Action::Order(order) => {
                    if !link.order(order.clone()) {
                        app.on_refused(&order);
                    }
                }
            }
        }
        for news in link.news() {
            is_new = true;
            match news {
                News::Frame(frame) => app.on_frame(*frame),
                News::Lost(problem) => app.on_lost(&problem),
                News::Answered(order, answer) => app.on_answer(&order, answer),
            }
        }
    }
    Ok(())
}

/// A key or another event of the terminal, if one comes soon.
///
/// The wait is not crossterm's, which reads a terminal that has hung up again and again.
fn next_event() -> io::Result<Option<Event>> {
    let input = io::stdin();
    let mut keys = [PollFd::new(&input, PollFlags::IN)];
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    match poll(&mut keys, Some(&look)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has hung up"));
    }
    if event::poll(Duration::ZERO)? { event::read().map(Some) } else { Ok(None) }
}

/// Whether the terminal is taken over. Whoever clears it gives the terminal back: twice would put the cursor, and so
/// the shell's prompt, onto the message of a panic.
static TAKEN: AtomicBool = AtomicBool::new(false);

fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        ratatui::restore();
    }
}

/// Gives the terminal back before a panic of any thread is printed.
fn set_hook() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            print(info);
        }));
    });
}

/// The terminal, taken over until this is dropped.
struct Taken {
    screen: DefaultTerminal,
}

impl Taken {
    fn new() -> io::Result<Self> {
        set_hook();
        Self::take().map(|screen| Self { screen }).inspect_err(|_| give_back())
    }

    fn take() -> io::Result<DefaultTerminal> {
        TAKEN.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        Terminal::new(CrosstermBackend::new(io::stdout()))
    }

    /// Gives the terminal back to the shell until the process continues.
    fn suspend(&mut self) -> io::Result<()> {
        give_back();
        emulate_default_handler(SIGTSTP)?;
        self.screen = Self::take()?;
        self.screen.clear()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// A flag that signals set, until this is dropped.
struct Signals {
    ended: Arc<AtomicBool>,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    fn register() -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut signals = Self { ended: Arc::clone(&ended), registered: Vec::new() };
        for signal in ENDING {
            signals.registered.push(flag::register(signal, Arc::clone(&ended))?);
        }
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}
