//! Events in words, for whoever has to look at single ones. Times are nanoseconds.

use super::event::{Event, What};
use std::fmt;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.time.0, self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { vcpu, nice, class, group } => {
                write!(f, "{vcpu} joins, class {class}, nice {}", nice.get())?;
                group.map_or(Ok(()), |group| write!(f, ", group {}", group.id.0))
            }
            Self::Remove { vcpu } => write!(f, "{vcpu} leaves"),
            Self::Wake { vcpu, placement } => write!(f, "{vcpu} wakes: {placement:?}"),
            Self::Ask { slot, vcpu, why, decision } => {
                match vcpu {
                    Some(vcpu) => write!(f, "{slot} with {vcpu} asks, {why:?}: ")?,
                    None => write!(f, "{slot} asks, {why:?}: ")?,
                }
                match decision.run {
                    Some(lease) if lease.until == crate::Time::NEVER => write!(f, "{} without end", lease.vcpu)?,
                    Some(lease) => write!(f, "{} until {}", lease.vcpu, lease.until.0)?,
                    None => f.write_str("nobody")?,
                }
                decision.kick.map_or(Ok(()), |slot| write!(f, ", {slot} is to ask"))
            }
            Self::Steal { slot, thief, taken } => {
                write!(f, "{thief} {} {slot}", if *taken { "takes" } else { "may not take" })
            }
            Self::Resume { vcpu, placement } => write!(f, "{vcpu} is no longer held back: {placement:?}"),
            Self::Late { slot, by } => write!(f, "{slot} began to run {} late", by.0),
            Self::Idled { vcpu, since } => write!(f, "{vcpu} has idled since {}", since.0),
            Self::Gap { lost } => write!(f, "{lost} events are missing"),
        }
    }
}
