//! Tells of what happens, to any number of readers who may be slow.

use std::time::SystemTime;
use stile_api::{Event, Happened};
use tokio::sync::broadcast;

/// Events that a reader may be behind before it misses some.
const BEHIND: usize = 1024;

/// The way of events to their readers.
pub struct Bus(broadcast::Sender<Event>);

impl Default for Bus {
    fn default() -> Self {
        Self(broadcast::channel(BEHIND).0)
    }
}

impl Bus {
    /// Tells all readers, and waits for none.
    pub fn tell(&self, what: Happened) {
        let event = Event { at: now(), what };
        tracing::debug!(event = ?event.what, "told");
        // Without a reader it is lost.
        let _ = self.0.send(event);
    }

    /// The events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64())
}
