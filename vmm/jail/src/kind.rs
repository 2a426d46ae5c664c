//! Kinds of threads: each has a list of system calls of its own.

/// What a thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Runs vCPUs, or keeps time for threads that do and may start more of them: executors, threads of vCPUs, the
    /// watchdog.
    Carrier,
    /// Serves the devices of a Linux guest that has no socket of the host's, or its keyboard.
    Device,
    /// Serves the devices of a Linux guest that has a unix socket.
    DeviceWithSockets,
    /// Writes what guests print, or a recording, to files that are open.
    Output,
    /// Starts, watches and ends VMs, and writes reports: the first thread, and helpers of comparisons.
    Control,
    /// Answers requests on sockets that are open. What a request asks for is done by threads of [`Kind::Node`].
    Api,
    /// Does what a node is asked for: as [`Kind::Control`], and it starts VMs that have unix sockets.
    Node,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Carrier, Self::Device, Self::DeviceWithSockets, Self::Output, Self::Control, Self::Api, Self::Node];

    /// Its place in [`ALL`](Self::ALL).
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Whether its threads may keep the capabilities of scheduling. The first thread hands them on to those that it
    /// starts.
    pub(crate) fn schedules(self) -> bool {
        matches!(self, Self::Carrier | Self::Control | Self::Node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_at_its_index() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
    }
}
