//! Cells whose guests are Linux: the programs that people measure with, in guests as people run them.
//!
//! All guests of a cell are of one shape and boot the same kernel and initramfs, those of `stile guest build linux`; what
//! each does stands on its kernel's command line, and it reports over vsock (`agent`). A cell's guests gather at their
//! gates before anything is measured (`lab`), so that booting is none of it, but where booting is what is measured (`boot`).

mod agent;
mod boot;
mod cyclictest;
mod hackbench;
mod lab;
mod peer;
mod tbench;

pub use lab::LinuxError;
pub use peer::{Peer, PeerError};

use super::cells::Measured;
use super::cells::site::Site;
use super::error::CompareError;
use super::{Case, Options, Setup, VmShape};
use std::path::PathBuf;
use stile_results::suite::Suite;

/// From asking for a Linux guest until its first process runs and has loaded what it needs, about (unit: s).
const BOOT_SECONDS: f64 = 1.0;

/// What Linux guests boot, and what they are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linux {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs, whose first process is stile's.
    pub initrd: PathBuf,
    /// Another monitor that boots the same.
    pub peer: Option<Peer>,
}

impl Linux {
    /// The shape of guests unless it is chosen.
    pub(super) const USUAL: VmShape = VmShape { vcpus: 2, mib: 256 };

    /// Whether cells of this policy are the peer's.
    pub(super) fn is_peer(&self, policy: usize) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.column == policy)
    }
}

/// Time of a cell outside its window (unit: s).
pub(super) fn overhead(options: &Options, case: Case) -> f64 {
    let vms = match options.suite {
        // A batch is its window.
        Suite::Boot => return 0.0,
        Suite::Tbench => 2,
        _ => case.size,
    };
    let at_a_time = options.pcpus.len().max(1) as f64;
    BOOT_SECONDS * (f64::from(vms) / at_a_time).max(1.0)
}

/// One cell; `None` if the user ended it.
pub(super) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    match (site.context.options.suite, &linux.peer) {
        (Suite::Boot, Some(peer)) if linux.is_peer(site.planned.policy) => peer::measure(site, linux, peer),
        (Suite::Boot, _) => boot::measure(site, linux),
        (Suite::Hackbench, _) => hackbench::measure(site, linux),
        (Suite::Tbench, _) => tbench::measure(site, linux),
        (Suite::Cyclictest, _) => cyclictest::measure(site, linux),
        (suite, _) => unreachable!("{suite} has no Linux guests"),
    }
}

/// The shape of a case's guests.
fn shape(case: Case) -> VmShape {
    match case.setup {
        Setup::Each(shape) => shape,
        _ => Linux::USUAL,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::super::plan::tests::options;
    use super::*;

    fn with_linux(suite: Suite) -> Options {
        let linux = Linux { kernel: "vmlinuz".into(), initrd: "initramfs.cpio".into(), peer: None };
        Options { linux: Some(linux), ..options(suite, &["host", "rsdl"], false) }
    }

    #[test]
    fn all_guests_have_the_usual_shape_unless_one_is_chosen_and_reports_tell_it() {
        for suite in [Suite::Boot, Suite::Hackbench, Suite::Tbench, Suite::Cyclictest] {
            let usual = with_linux(suite);
            assert!(Case::all(&usual).into_iter().all(|case| shape(case) == Linux::USUAL), "{suite}");
            let chosen = Options { setups: vec!["1x128M".parse().unwrap()], sizes: vec![3], ..usual };
            let [case] = Case::all(&chosen)[..] else { panic!() };
            assert_eq!(shape(case), VmShape { vcpus: 1, mib: 128 });
            let told = case.params(&chosen);
            assert_eq!(told.get("guest").unwrap().to_string(), "linux");
            assert!(told.get("hint").is_none() && told.get("mib").is_some());
        }
    }

    #[test]
    fn time_to_boot_is_planned_for_all_guests_of_a_cell() {
        let time = |sizes: &[u32]| {
            let options = Options { sizes: sizes.to_vec(), duration: Some(1.0), ..with_linux(Suite::Cyclictest) };
            Plan::new(&options).estimate().as_secs_f64()
        };
        // Five rounds of two policies, two guests booting at a time.
        assert!((time(&[2]) - 20.0).abs() < 0.1, "{}", time(&[2]));
        assert!((time(&[8]) - 50.0).abs() < 0.1, "{}", time(&[8]));
    }
}
