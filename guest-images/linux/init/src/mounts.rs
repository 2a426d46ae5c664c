//! The file systems that programs expect.

use rustix::mount::{MountFlags, mount};

/// Kind and place of each.
const MOUNTS: [(&str, &str); 5] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp"), ("tmpfs", "/dev/shm")];

/// Mounts all, and says what went wrong.
pub(crate) fn mount_all() -> Vec<String> {
    let one = |(kind, place): (&str, &str)| {
        // A place may be there already; if it cannot be made, mounting says so.
        let _ = std::fs::create_dir(place);
        let mounted = mount(kind, place, kind, MountFlags::empty(), None);
        mounted.err().map(|error| format!("cannot mount {kind} at {place}: {error}"))
    };
    MOUNTS.into_iter().filter_map(one).collect()
}
