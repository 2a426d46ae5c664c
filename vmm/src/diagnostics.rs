//! Diagnostics: messages about the program's work, on standard error, each with a level.
//!
//! | level | means | shown |
//! |---|---|---|
//! | error | the command failed | always |
//! | warn | it goes on, and a result may differ from what the user expects | unless `-qq` |
//! | info | steps that take long | unless `-q` |
//! | debug | steps for an operator: VMs made, started and ended, domains made | with `-v` |
//! | trace | such steps for each vCPU | with `-vv` |
//!
//! `STILE_LOG` has a filter, as [`Targets`](tracing_subscriber::filter::Targets) reads it, and takes precedence over
//! `-v` and `-q`. Results of a command go to standard output and are not diagnostics.
//!
//! The code of scheduling decisions and of guests' exits has no diagnostics at all. `tests/structure` checks that.

mod filter;
mod screen;
mod text;

pub(crate) use filter::FilterError;
pub(crate) use screen::{stay_above, write_to_stderr};

use screen::Screen;
use std::sync::OnceLock;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

/// How diagnostics are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    // Comments of variants would make all help texts long.
    #[default]
    Text,
    Json,
}

/// The options of every command for diagnostics.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Diagnostics, on standard error")]
pub(crate) struct Verbosity {
    /// Say more: -v what happens to VMs and domains, -vv to each vCPU as well. STILE_LOG=FILTER says what exactly
    #[arg(short, long = "verbose", global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Say less: -q warnings and errors only, without a progress bar, -qq errors only
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) quiet: u8,
    /// How diagnostics are written: text for people, or json, an object a line, for programs
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// The options, once [`start`] has run.
static CHOSEN: OnceLock<Verbosity> = OnceLock::new();

/// Shows diagnostics from now on, by the options and `STILE_LOG`.
pub(crate) fn start(verbosity: Verbosity) -> Result<(), FilterError> {
    CHOSEN.get_or_init(|| verbosity);
    screen::this_is_the_first_thread();
    let asked = filter::of(verbosity, std::env::var(filter::VARIABLE).ok().as_deref());
    // If the filter cannot be read, the options decide how that error is shown.
    let (filter, outcome) = asked.map_or_else(|wrong| (filter::of_options(verbosity), Err(wrong)), |f| (f, Ok(())));
    let registry = Registry::default().with(filter);
    let layer = fmt::layer().with_writer(|| Screen).log_internal_errors(false);
    match verbosity.log_format {
        LogFormat::Json => registry.with(layer.json().flatten_event(true).with_current_span(false)).init(),
        LogFormat::Text => registry.with(layer.event_format(text::Text::new(verbosity.verbose > 0))).init(),
    }
    outcome
}

/// Whether diagnostics are for programs.
pub(crate) fn are_json() -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.log_format == LogFormat::Json)
}

/// Whether a progress bar or a note of progress may be shown.
pub(crate) fn show_progress() -> bool {
    CHOSEN.get().is_none_or(|chosen| chosen.quiet == 0 && chosen.log_format == LogFormat::Text)
}
