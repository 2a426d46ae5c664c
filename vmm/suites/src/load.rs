//! The loads of the suite `interactive`, which run beside its probes.

/// A load beside the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// No load.
    None,
    /// VMs that copy a 16 MB buffer without end.
    Memload,
    /// VMs that replace their program by itself without end.
    Execload,
    /// Small VMs that are started and ended without end.
    Forkload,
    /// A build.
    Make,
    /// A build with a compiler cache that knows most of it.
    MakeCcache,
}

impl Load {
    /// Every load, in the order of the source's table.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Memload, Self::Execload, Self::Forkload, Self::Make, Self::MakeCcache];

    /// Its name on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memload => "memload",
            Self::Execload => "execload",
            Self::Forkload => "forkload",
            Self::Make => "make",
            Self::MakeCcache => "make-ccache",
        }
    }

    /// Number of vCPUs of the load, or of VMs started at once. The source had as many processes.
    pub fn usual_size(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Memload | Self::Execload | Self::Forkload => 10,
            Self::Make | Self::MakeCcache => 5,
        }
    }

    /// Whether the load comes to an end, at which the window ends.
    pub fn is_build(self) -> bool {
        matches!(self, Self::Make | Self::MakeCcache)
    }
}
