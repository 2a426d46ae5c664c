//! Mistakes in a configuration file, or in another file that is checked against a schema, with their places.
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

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the {kind} {}", path.display())]
    Unreadable {
        /// The kind of file that it should be.
        kind: FileKind,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file was read and contains mistakes.
    #[error("{0}")]
    Invalid(Box<Invalid>),
}

/// The kind of file that a text should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A configuration.
    Configuration,
    /// What `stile sim` simulates.
    Simulation,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "configuration",
            Self::Simulation => "simulation file",
        })
    }
}

/// Every mistake in one file.
#[derive(Debug)]
pub struct Invalid {
    kind: FileKind,
    source: NamedSource<String>,
    problems: Vec<Problem>,
    /// It contradicts the schema, not only this host or itself.
    by_schema: bool,
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

/// A mistake at a span of the text, before line and column are known.
#[derive(Debug)]
pub struct Misplaced {
    /// The key.
    pub key: KeyPath,
    /// Where it stands in the text (units: bytes).
    pub span: Range<usize>,
    /// The mistake.
    pub finding: Finding,
}

/// A mistake in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The mistake, without the key: "300 is out of range".
    pub wrong: String,
    /// Short text that stands at the snippet.
    pub label: String,
    /// What to write in its place, with the accepted range or list.
    pub help: Option<String>,
}

impl ConfigError {
    pub(super) fn invalid(kind: FileKind, file: &str, text: &str, mut found: Vec<Misplaced>, by_schema: bool) -> Self {
        found.sort_by_key(|misplaced| (misplaced.span.start, misplaced.span.end));
        let problems = found.into_iter().map(|misplaced| Problem::locate(file, text, misplaced)).collect();
        let source = NamedSource::new(file, text.to_owned()).with_language("toml");
        Self::Invalid(Box::new(Invalid { kind, source, problems, by_schema }))
    }

    /// Whether the schema alone refuses it. If not, it contradicts this host or itself.
    pub fn is_by_schema(&self) -> bool {
        match self {
            Self::Unreadable { .. } => false,
            Self::Invalid(invalid) => invalid.by_schema,
        }
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
        let Self::Unreadable { source, kind, .. } = self else { return None };
        let help = match (source.kind(), kind) {
            (io::ErrorKind::NotFound, FileKind::Configuration) => {
                "check the path; `stile schema --markdown` describes every key of a configuration".to_owned()
            }
            (io::ErrorKind::NotFound, FileKind::Simulation) => {
                "check the path; docs/simulation-file.md describes what a simulation file holds".to_owned()
            }
            (io::ErrorKind::PermissionDenied, _) => {
                "the user who runs stile must be allowed to read the file".to_owned()
            }
            (io::ErrorKind::InvalidData, _) => format!("a {kind} is UTF-8 text"),
            (io::ErrorKind::IsADirectory, _) => format!("give the {kind} itself, not its directory"),
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
        write!(f, "{}: {} mistake{plural} in the {}", self.source.name(), self.problems.len(), self.kind)
    }
}

/// Line and column of a byte of a text, from 1 (units: lines, characters).
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    (before.matches('\n').count() + 1, column)
}

impl Problem {
    fn locate(file: &str, text: &str, Misplaced { key, span, finding }: Misplaced) -> Self {
        let (line, column) = line_and_column(text, span.start);
        Self { file: file.to_owned(), key: key.to_string(), line, column, span, finding }
    }

    /// The key, written from the top of the file (`vm[0].memory`); empty for the file as a whole.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The mistake, without the key and the place.
    pub fn wrong(&self) -> &str {
        &self.finding.wrong
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
