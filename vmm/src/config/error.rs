//! What is wrong with a configuration file, and where.
//!
//! A file is checked to its end: one error carries every mistake found, each with line, column, key, the accepted
//! range or list, and the span for a snippet. `Display` gives a line for each, for logs; miette's report of the same
//! error shows the snippets.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use super::keypath::KeyPath;

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file was read and is wrong.
    #[error("{0}")]
    Invalid(Box<Invalid>),
}

/// Every mistake in one file.
#[derive(Debug)]
pub struct Invalid {
    source: NamedSource<String>,
    problems: Vec<Problem>,
}

/// One mistake in a file.
#[derive(Debug)]
pub struct Problem {
    file: String,
    key: String,
    line: usize,
    column: usize,
    span: Range<usize>,
    finding: Finding,
}

/// A mistake at a place, before the place is counted out in lines and columns.
#[derive(Debug)]
pub(super) struct Misplaced {
    pub(super) key: KeyPath,
    pub(super) span: Range<usize>,
    pub(super) finding: Finding,
}

/// What is wrong, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// Complete without the key: "300 is out of range".
    pub(super) wrong: String,
    /// Short text at the snippet.
    pub(super) label: String,
    /// What to write in its place, with the accepted range or list.
    pub(super) help: Option<String>,
}

impl ConfigError {
    pub(super) fn invalid(file: &str, text: &str, mut found: Vec<Misplaced>) -> Self {
        found.sort_by_key(|misplaced| (misplaced.span.start, misplaced.span.end));
        let problems = found.into_iter().map(|misplaced| Problem::locate(file, text, misplaced)).collect();
        let source = NamedSource::new(file, text.to_owned()).with_language("toml");
        Self::Invalid(Box::new(Invalid { source, problems }))
    }

    /// The mistakes in the file, in the order of the file; none if it could not be read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid(invalid) => &invalid.problems,
        }
    }
}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let Self::Unreadable { source, .. } = self else { return None };
        let help = match source.kind() {
            io::ErrorKind::NotFound => "check the path; `stile schema` describes what a configuration holds",
            io::ErrorKind::PermissionDenied => "the file must be readable by the user who runs stile",
            io::ErrorKind::InvalidData => "a configuration is UTF-8 text",
            io::ErrorKind::IsADirectory => "give the configuration file itself, not its directory",
            _ => return None,
        };
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid(invalid) => Some(&invalid.source),
        }
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.problems().iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.problems.len() == 1 { "" } else { "s" };
        write!(f, "{}: {} mistake{plural} in the configuration", self.source.name(), self.problems.len())
    }
}

impl Problem {
    fn locate(file: &str, text: &str, Misplaced { key, span, finding }: Misplaced) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Self { file: file.to_owned(), key: key.to_string(), line, column, span, finding }
    }

    /// The key, written from the top of the file (`vm[0].memory`); empty for the file as a whole.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Line of the value, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Column of the value, from 1 (units: characters).
    pub fn column(&self) -> usize {
        self.column
    }

    /// What to write instead, with the accepted range or list, where that can be said.
    pub fn accepted(&self) -> Option<&str> {
        self.finding.help.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.finding.wrong)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.finding.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(Some(self.finding.label.clone()), self.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}
