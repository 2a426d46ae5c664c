//! Which diagnostics are shown.

use super::Verbosity;
use std::str::FromStr;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The variable of the environment that holds a filter.
pub(super) const VARIABLE: &str = "STILE_LOG";
/// The accepted values of `STILE_LOG`.
const ACCEPTED: &str = "a level (error, warn, info, debug, trace, off), or TARGET=LEVEL with a target such as \
                        stile_machine, or several of them with commas between";

/// `STILE_LOG` cannot be read.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("{VARIABLE}: `{directive}` is no filter: {wrong}")]
#[diagnostic(help("accepted: {ACCEPTED}"))]
pub(crate) struct FilterError {
    directive: String,
    wrong: String,
}

/// The filter for these options and this value of `STILE_LOG`.
pub(super) fn of(verbosity: Verbosity, variable: Option<&str>) -> Result<Targets, FilterError> {
    match variable.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => parse(text),
        None => Ok(of_options(verbosity)),
    }
}

/// The options choose the level of this program's own diagnostics. Those of libraries are shown from `warn` on.
pub(super) fn of_options(Verbosity { verbose, quiet, .. }: Verbosity) -> Targets {
    let own = match (verbose, quiet) {
        (2.., _) => LevelFilter::TRACE,
        (1, _) => LevelFilter::DEBUG,
        (0, 0) => LevelFilter::INFO,
        (0, 1) => LevelFilter::WARN,
        (0, 2..) => LevelFilter::ERROR,
    };
    // A target matches all targets that begin with it, and so those of all crates of the workspace.
    Targets::new().with_default(own.min(LevelFilter::WARN)).with_target("stile", own)
}

fn parse(text: &str) -> Result<Targets, FilterError> {
    for directive in text.split(',').map(str::trim) {
        let faulty = |wrong: String| FilterError { directive: directive.to_owned(), wrong };
        if directive.is_empty() {
            return Err(faulty("nothing stands there".to_owned()));
        }
        // A single word that is not a level would be taken for a target, and a misspelt level would show nothing.
        let is_word = !directive.contains(['=', ':']);
        if is_word && LevelFilter::from_str(directive).is_err() && !directive.starts_with("stile") {
            return Err(faulty("neither a level nor a part of stile".to_owned()));
        }
        Targets::from_str(directive).map_err(|error| faulty(error.to_string()))?;
    }
    Targets::from_str(text).map_err(|error| FilterError { directive: text.to_owned(), wrong: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(verbose: u8, quiet: u8) -> String {
        of(Verbosity { verbose, quiet, ..Verbosity::default() }, None).unwrap().to_string()
    }

    #[test]
    fn options_choose_the_level_of_this_program_and_libraries_stay_at_warnings() {
        let levels = [(0, 2), (0, 1), (0, 0), (1, 0), (2, 0), (7, 0)].map(|(v, q)| options(v, q));
        let shown = ["stile=error,error", "stile=warn,warn", "stile=info,warn", "stile=debug,warn"];
        assert_eq!(levels[..4], shown);
        assert_eq!(levels[4..], ["stile=trace,warn", "stile=trace,warn"]);
    }

    #[test]
    fn the_variable_wins_over_the_options_and_an_empty_one_says_nothing() {
        let quiet = Verbosity { quiet: 2, ..Verbosity::default() };
        assert_eq!(of(quiet, Some("debug")).unwrap().to_string(), "debug");
        assert_eq!(of(quiet, Some(" ")).unwrap().to_string(), "stile=error,error");
    }

    #[test]
    fn a_faulty_filter_is_refused_with_the_part_that_is_wrong() {
        for (text, directive) in [("warn,stile=loud", "stile=loud"), ("debgu", "debgu"), ("info,,", "")] {
            let error = of(Verbosity::default(), Some(text)).unwrap_err();
            assert_eq!(error.directive, directive, "{error}");
            assert!(error.to_string().starts_with("STILE_LOG: "), "{error}");
        }
        assert!(of(Verbosity::default(), Some("warn,stile_machine=trace,stile")).is_ok());
    }
}
