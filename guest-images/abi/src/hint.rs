//! What a yield says: kind, target and whether it is the first of its wait, packed into the doorbell's 32 bits.

/// What a yielding vCPU waits for. Targets are vCPU indexes within the same VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintKind {
    /// Not known.
    Unknown,
    /// A lock, held by this vCPU.
    Lock {
        /// Index of the holder.
        holder: u16,
    },
    /// A message, expected from this vCPU.
    Message {
        /// Index of the peer.
        peer: u16,
    },
}

impl HintKind {
    /// The vCPU that the hint names; `None` if it names none.
    pub const fn target(self) -> Option<u16> {
        match self {
            Self::Unknown => None,
            Self::Lock { holder: target } | Self::Message { peer: target } => Some(target),
        }
    }
}

/// The value of a yield doorbell.
///
/// Layout: bits 0..16 target, bits 16..18 kind (0 nothing known, 1 lock, 2 message), bit 18 *again*; the rest is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// What the vCPU waits for.
    pub kind: HintKind,
    /// Not the first yield of this wait.
    pub again: bool,
}

const AGAIN: u32 = 1 << 18;

impl Hint {
    /// A yield that says nothing.
    pub const UNKNOWN: Self = Self { kind: HintKind::Unknown, again: false };

    /// The doorbell value.
    pub const fn pack(self) -> u32 {
        let kind = match self.kind {
            HintKind::Unknown => 0,
            HintKind::Lock { holder } => 1 << 16 | holder as u32,
            HintKind::Message { peer } => 2 << 16 | peer as u32,
        };
        kind | if self.again { AGAIN } else { 0 }
    }

    /// Unpacks a doorbell value; `None` if [`Hint::pack`] makes no such value.
    pub const fn unpack(value: u32) -> Option<Self> {
        let target = value as u16;
        let again = value & AGAIN != 0;
        let kind = match (value & !AGAIN) >> 16 {
            0 if target == 0 => HintKind::Unknown,
            1 => HintKind::Lock { holder: target },
            2 => HintKind::Message { peer: target },
            _ => return None,
        };
        Some(Self { kind, again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hint_survives_packing() {
        for again in [false, true] {
            for target in [0, 1, 1023, u16::MAX] {
                for kind in [HintKind::Unknown, HintKind::Lock { holder: target }, HintKind::Message { peer: target }] {
                    let hint = Hint { kind, again };
                    assert_eq!(Hint::unpack(hint.pack()), Some(hint));
                }
            }
        }
    }

    #[test]
    fn foreign_bits_are_refused() {
        for value in [3 << 16, 1 << 19, 1 << 31, 7] {
            assert_eq!(Hint::unpack(value), None, "{value:#x}");
        }
    }
}
