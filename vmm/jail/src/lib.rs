//! The jail: what the process gives up before guests run, and what each of its threads gives up besides.
//!
//! [`Jail::enter`] is called once, on the first thread, before any other thread starts. It sets no_new_privs, makes
//! the process non-dumpable, drops capabilities, sets limits, restricts the file system to the named places by
//! Landlock, and installs the process's list of system calls. The kernel keeps most of that for each thread, and new
//! threads inherit it. That is why it must come before them.
//!
//! [`narrow`] is called by each thread at its start, and by the first thread once everything is opened. It installs
//! the list of the thread's [`Kind`] on top: a call must be in all lists of a thread. Without a jail it does nothing,
//! so code that starts threads calls it without a condition.
//!
//! A call that a list refuses ends the process with exit code [`EXIT_CODE`] and a message that names the call and the
//! thread. A file that Landlock refuses gives an error, as a file without permission does.
//!
//! All threads share one address space. So a list bounds what code can do that has been misled on its thread, and not
//! code that already writes memory of other threads.

mod error;
mod files;
mod jail;
mod kind;
mod list;
mod lists;
mod offer;
mod privileges;
mod refusal;
mod terminal;

pub use error::JailError;
pub use files::Place;
pub use jail::{Jail, Missing, narrow};
pub use kind::Kind;
pub use offer::Offer;
pub use privileges::as_carrier;
pub use terminal::takes_keys;

/// Exit code of a process that made a refused system call.
pub const EXIT_CODE: i32 = 6;
