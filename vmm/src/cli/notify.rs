//! The service manager: the socket that it gives, and what it is told (sd_listen_fds(3), sd_notify(3)).

use sd_notify::NotifyState;
use std::io;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use tracing::warn;

/// The socket that the service manager has made for this process.
pub(super) fn given_socket() -> io::Result<Option<UnixListener>> {
    listenfd::ListenFd::from_env().take_unix_listener(0)
}

/// The service manager, if there is one.
pub(super) struct Manager {
    /// Time between two signs of life that it wants.
    every: Option<Duration>,
    last: Instant,
}

impl Manager {
    /// That which has started this process.
    pub(super) fn new() -> Self {
        // Twice in the time after which it takes the process for dead.
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        Self { every, last: Instant::now() }
    }

    /// The node listens.
    pub(super) fn ready(&mut self) {
        tell(&[NotifyState::Ready]);
    }

    /// The node ends.
    pub(super) fn stopping(&mut self) {
        tell(&[NotifyState::Stopping]);
    }

    /// The process lives.
    pub(super) fn alive(&mut self) {
        if self.every.is_some_and(|every| self.last.elapsed() >= every) {
            self.last = Instant::now();
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!("the service manager cannot be told: {error}");
    }
}
