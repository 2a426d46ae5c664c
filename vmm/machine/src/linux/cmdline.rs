//! The command line of a Linux guest: first the monitor's words for the kernel, then the user's.
//!
//! A kernel that panics stops for good, unless its command line makes it reboot. Such a reboot looks like any other. To
//! tell them apart without a driver in the guest, the kernel is asked to set the PC's *warm boot* flag when it reboots
//! after a panic, and only then (`reboot=panic_warm`, Linux 5.3 and later; older kernels just reboot). See
//! [`power`](super::power).

/// Console of a guest that names none itself.
const CONSOLE: &str = "console=ttyS0";
/// Makes the kernel reboot at once after a panic.
const PANIC: &str = "panic=-1";
/// Makes the kernel set the flag after a panic.
const TELL_PANIC: &str = "reboot=panic_warm";

/// A complete command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cmdline {
    text: String,
    tells_panic: bool,
}

impl Cmdline {
    /// A command line with the user's words last, so that they take precedence.
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

    /// Whether the warm boot flag means that the kernel panicked. If not, the user has the kernel set it at every
    /// reboot.
    pub fn tells_panic(&self) -> bool {
        self.tells_panic
    }
}

/// Whether one of these words of `reboot=` makes every reboot a warm boot.
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
        // Other words of `reboot=` do not exclude ours.
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
