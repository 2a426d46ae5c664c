//! Why a jail cannot be entered.

/// Why the jail could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// A right could not be given up.
    #[error("cannot give up rights: {what}")]
    Rights {
        /// What was tried.
        what: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A capability could not be dropped.
    #[error("cannot drop capabilities")]
    Capabilities(#[from] caps::errors::CapsError),
    /// A list has no program.
    #[error("a list of system calls cannot be made into a program")]
    List(#[from] seccompiler::BackendError),
    /// The kernel refused a list.
    #[error("cannot install a list of system calls")]
    Install(#[from] seccompiler::Error),
    /// The kernel refused the rules for files.
    #[error("cannot restrict files by Landlock")]
    Files(#[from] landlock::RulesetError),
    /// The process is in a jail already.
    #[error("the process is in its jail already")]
    Twice,
}
