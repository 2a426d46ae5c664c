//! The roles of a VM's vCPUs, as the guests assign them.

/// The part that a vCPU has in its suite's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The metrics of the suite are about it.
    Main,
    /// It passes messages, beside vCPUs that the metrics are about.
    Pair,
    /// It computes, beside vCPUs that the metrics are about.
    Hog,
    /// It has no peer and idles.
    Odd,
}

/// The work of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes a ticket lock in turn with the others.
    Locks,
    /// It passes a message to and fro with another.
    Talks,
    /// It wakes every few milliseconds for a short job.
    Wakes,
    /// It computes.
    Computes,
    /// It idles.
    Idles,
    /// Work that only the suite's guests know, and this table does not.
    Own,
}

/// Consecutive vCPUs of a VM with the same role.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Their part in the suite's metrics.
    pub part: Part,
    /// Their work.
    pub role: Role,
    /// Their number.
    pub take: Take,
}

/// The number of vCPUs of a share, taken from those that the shares before it left.
#[derive(Debug, Clone, Copy)]
pub enum Take {
    /// Half of them, rounded down.
    Half,
    /// Half of them, rounded up.
    LargerHalf,
    /// The largest even number: all that form pairs.
    Pairs,
    /// A third of them, rounded down to an even number.
    ThirdInPairs,
    /// All of them.
    Rest,
}

impl Take {
    fn of(self, left: usize) -> usize {
        match self {
            Self::Half => left / 2,
            Self::LargerHalf => left.div_ceil(2),
            Self::Pairs => left & !1,
            Self::ThirdInPairs => (left + 3) / 6 * 2,
            Self::Rest => left,
        }
    }
}

impl Share {
    /// All vCPUs have this role, and the metrics are about them.
    pub const fn all(role: Role) -> Self {
        Self { part: Part::Main, role, take: Take::Rest }
    }
}

/// Returns the number of vCPUs of each share, in order.
pub fn divide(shares: &[Share], vcpus: usize) -> Vec<usize> {
    let mut left = vcpus;
    let take = |share: &Share| {
        let taken = share.take.of(left);
        left -= taken;
        taken
    };
    shares.iter().map(take).collect()
}

/// Returns the share of the vCPU with this index.
pub fn share_of(shares: &'static [Share], vcpu: usize, vcpus: usize) -> Option<&'static Share> {
    let mut end = 0;
    let has = |count: &usize| {
        end += count;
        vcpu < end
    };
    shares.get(divide(shares, vcpus).iter().position(has)?)
}

/// Describes the division of a number of vCPUs that does not divide evenly: "2 at the lock, 3 computing"; `None` if it
/// does.
pub fn uneven(shares: &[Share], vcpus: usize) -> Option<String> {
    let counts = divide(shares, vcpus);
    let of = |wanted: fn(&Share) -> bool| {
        shares.iter().zip(&counts).filter(move |(share, _)| wanted(share)).map(|(share, count)| (share.role, *count))
    };
    let playing: Vec<(Role, usize)> = of(|share| share.part != Part::Odd).collect();
    let idle: usize = of(|share| share.part == Part::Odd).map(|(_, count)| count).sum();
    let words = |words: fn(Role) -> &'static str| {
        let all = playing.iter().map(|(role, count)| format!("{count} {}", words(*role)));
        all.collect::<Vec<_>>().join(", ")
    };
    if idle > 0 {
        return Some(format!("{}, and {idle} idles", words(Role::verb)));
    }
    let first = playing.first().map(|(_, count)| *count);
    let is_uneven = playing.iter().any(|(_, count)| Some(*count) != first);
    is_uneven.then(|| words(Role::participle))
}

impl Role {
    /// As a verb: "play in pairs".
    fn verb(self) -> &'static str {
        match self {
            Self::Locks => "take the lock",
            Self::Talks => "play in pairs",
            Self::Wakes => "wake",
            Self::Computes => "compute",
            Self::Idles => "idle",
            Self::Own => "work",
        }
    }

    /// As a state: "in pairs".
    fn participle(self) -> &'static str {
        match self {
            Self::Locks => "at the lock",
            Self::Talks => "in pairs",
            Self::Wakes => "waking",
            Self::Computes => "computing",
            Self::Idles => "idling",
            Self::Own => "working",
        }
    }

    /// The name of the role on guests' command lines; `None` if guests do not get it.
    pub fn keyword(self) -> Option<&'static str> {
        match self {
            Self::Locks => Some("locker"),
            Self::Talks => Some("pair"),
            Self::Computes => Some("hog"),
            Self::Wakes | Self::Idles | Self::Own => None,
        }
    }
}
