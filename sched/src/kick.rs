//! Kicks and timers of threads that run vCPUs.
//!
//! The kernel's signals, or a model checker's flags in their place.

#[cfg(not(all(test, shuttle)))]
mod departure;
#[cfg(all(test, shuttle))]
mod modelled;
#[cfg(not(all(test, shuttle)))]
mod signal;

#[cfg(not(all(test, shuttle)))]
pub use departure::Departure;
#[cfg(all(test, shuttle))]
pub(crate) use modelled::{Departure, ThreadId, Timer, block, drain, is_pending, send, this_thread};
#[cfg(all(test, not(shuttle)))]
pub(crate) use signal::pending_kicks;
#[cfg(not(all(test, shuttle)))]
pub use signal::{ThreadId, Timer, block, drain, is_pending, send, signal, this_thread, wait};
