//! The command line of a Linux guest: what the monitor needs of the kernel, then what the user says.
//!
//! A kernel that panics stops for good unless it is told otherwise, and reboots as any other if it is. So that a panic can
//! be told from a reboot without a driver in the guest, the kernel is asked to leave the PC's *warm boot* flag behind when,
//! and only when, it reboots for a panic (`reboot=panic_warm`, Linux 5.3 and later; older ones just reboot). See
//! [`power`](super::power).

/// Of a guest that names no console itself.
const CONSOLE: &str = "console=ttyS0";
/// Reboot at once at a panic.
const PANIC: &str = "panic=-1";
/// Leave the flag at a panic.
const TELL_PANIC: &str = "reboot=panic_warm";

/// A whole command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cmdline {
    text: String,
    tells_panic: bool,
}

impl Cmdline {
    /// With the user's words last, so that they win.
    pub fn new(user: &str) -> Self {
        let words = || user.split_ascii_whitespace();
        let has = |key: &str| words().any(|word| word.starts_with(key));
        let boots_warm = words().filter_map(|word| word.strip_prefix("reboot=")).any(any_warm);
        let ours = [(CONSOLE, !has("console=")), (PANIC, !has("panic=")), (TELL_PANIC, !boots_warm)];
        let ours = ours.into_iter().filter_map(|(word, wanted)| wanted.then_some(word));
        let text = ours.chain(Some(user.trim()).filter(|user| !user.is_empty())).collect::<Vec<_>>().join(" ");
        Self { text, tells_panic: !boots_warm }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the warm boot flag means that the kernel panicked; else the user has it set at every reboot.
    pub fn tells_panic(&self) -> bool {
        self.tells_panic
    }
}

/// Whether one of these words of `reboot=` asks for a warm boot at every reboot.
fn any_warm(words: &str) -> bool {
    words.split(',').any(|word| word.starts_with('w'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_monitor_needs_stands_before_what_the_user_says() {
        let line = Cmdline::new(" quiet init=/bin/sh ");
        assert_eq!(line.as_str(), "console=ttyS0 panic=-1 reboot=panic_warm quiet init=/bin/sh");
        assert!(line.tells_panic());
        assert_eq!(Cmdline::new("").as_str(), "console=ttyS0 panic=-1 reboot=panic_warm");
    }

    #[test]
    fn a_user_who_says_it_differently_is_not_contradicted() {
        assert_eq!(Cmdline::new("console=hvc0 panic=0").as_str(), "reboot=panic_warm console=hvc0 panic=0");
        // Other words of `reboot=` go together with ours.
        let line = Cmdline::new("reboot=k");
        assert!(line.tells_panic() && line.as_str().ends_with("reboot=panic_warm reboot=k"));
    }

    #[test]
    fn where_every_reboot_is_warm_nothing_can_be_told_of_panics() {
        for user in ["reboot=w", "reboot=warm,k", "reboot=t,warm"] {
            let line = Cmdline::new(user);
            assert!(!line.tells_panic() && !line.as_str().contains("panic_warm"), "{user}");
        }
    }
}
