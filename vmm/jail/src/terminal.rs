//! Whether the process has a terminal for which it could type.

use std::fs::{self, File};
use std::io::{IsTerminal, stderr, stdin, stdout};

/// Whether what the process types into its terminal would be read as its user's (TIOCSTI, ioctl_tty(2)). The kernel
/// refuses that where `dev.tty.legacy_tiocsti` is 0 (Linux 6.2).
pub fn takes_keys() -> bool {
    let is_refused = fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").is_ok_and(|allowed| allowed.trim() == "0");
    let is_open = || stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal();
    !is_refused && (is_open() || File::open("/dev/tty").is_ok())
}
