//! The sizes that a suite can have, and the division of sizes that do not divide evenly.

use super::case::Case;
use super::guests;
use super::options::Options;
use stile_machine::unikernel::image::Image;
use stile_machine::unikernel::layout::{Layout, LayoutError};
use stile_suites::descriptor::Least;
use stile_suites::parts::uneven;
use stile_suites::{Load, Setup, Suite, VmShape, Vms};

/// The most workers that the guest of a build has room for.
const WORKERS: u32 = 64;

/// A case that makes no sense, or that its guests cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// A part of the suite would have no vCPU.
    #[error("{suite} means nothing with {}: it needs {least} at least, {why}", stile_text::count(*size as usize, "vCPU"))]
    TooFew {
        /// The suite.
        suite: Suite,
        /// vCPUs asked for.
        size: u32,
        /// The smallest number that makes sense.
        least: u32,
        /// What that number is needed for.
        why: &'static str,
    },
    /// A build has room for fewer workers.
    #[error("the load {load} has at most {WORKERS} vCPUs, not {size}")]
    TooMany {
        /// The load.
        load: &'static str,
        /// vCPUs asked for.
        size: u32,
    },
    /// A VM's memory does not hold its vCPUs, or exceeds the maximum.
    #[error("--setup {setup}: {why}")]
    Memory {
        /// The VM's shape.
        setup: Setup,
        /// The reason.
        why: LayoutError,
    },
}

/// Checks that all cases of these options can be run.
pub fn check(options: &Options) -> Result<(), SizeError> {
    Case::all(options).into_iter().try_for_each(|case| check_case(options.suite, case))
}

fn check_case(suite: Suite, Case { size, setup }: Case) -> Result<(), SizeError> {
    if let Some(error) = too_few(suite, size) {
        return Err(error);
    }
    match setup {
        Setup::Load(load @ (Load::Make | Load::MakeCcache)) if size > WORKERS => {
            Err(SizeError::TooMany { load: load.name(), size })
        }
        Setup::Each(VmShape { vcpus, mib }) => {
            let file = stile_guest_images::image(guests::image(suite)).expect("the suites run built-in images");
            let end = Image::parse(file).expect("the built-in images are sound").end();
            let fits = Layout::new(u64::from(mib) << 20, vcpus, end);
            fits.map(drop).map_err(|why| SizeError::Memory { setup, why })
        }
        Setup::Load(_) | Setup::Usual | Setup::On(_) | Setup::Affinity | Setup::Bare(_) | Setup::Locks(_) => Ok(()),
    }
}

/// The error for a number of vCPUs that leaves a part of the suite without any.
pub(crate) fn too_few(suite: Suite, size: u32) -> Option<SizeError> {
    let Least { size: least, why } = suite.descriptor().least.filter(|least| size < least.size)?;
    Some(SizeError::TooFew { suite, size, least, why })
}

/// A sentence for each size of these options that does not divide evenly.
pub fn divisions(options: &Options) -> Vec<String> {
    options.sizes().into_iter().filter_map(|size| division(options.suite, size)).collect()
}

/// A sentence on a size that does not divide evenly among the suite's parts; `None` if it does.
fn division(suite: Suite, size: u32) -> Option<String> {
    let how = match suite.builtin()?.vms {
        Vms::Nices(nices) if !size.is_multiple_of(nices.len() as u32) => {
            let guests = guests::guests(suite, size);
            let each = guests.iter().map(|guest| format!("{} of nice {}", guest.vcpus, guest.nice.get()));
            stile_text::list(&each.collect::<Vec<_>>())
        }
        Vms::Nices(_) | Vms::One | Vms::Beside { .. } => uneven(suite.parts(), size as usize)?,
        Vms::PerSize { .. } => return None,
    };
    Some(format!("Of {size} vCPUs of {suite}: {how}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_suites::{Part, RunKind};

    fn options(suite: Suite, policies: &[&str], kind: RunKind) -> Options {
        let policies = policies.iter().map(|p| ((*p).to_owned(), p.parse().unwrap())).collect();
        Options { kind, ..Options::new(suite, policies, "0-1".parse().unwrap()) }
    }

    fn checked(suite: Suite, sizes: &[u32], setups: &[&str]) -> Result<(), String> {
        let setups = setups.iter().map(|setup| setup.parse().unwrap()).collect();
        check(&Options { sizes: sizes.to_vec(), setups, ..options(suite, &["rsdl"], RunKind::Usual) })
            .map_err(|e| e.to_string())
    }

    #[test]
    fn the_suites_own_sizes_are_all_accepted() {
        for suite in Suite::ALL {
            for kind in [RunKind::Usual, RunKind::Quick, RunKind::Full] {
                let own = options(suite, &["host"], kind);
                check(&own).unwrap_or_else(|e| panic!("{suite}: {e}"));
            }
        }
    }

    #[test]
    fn a_size_that_leaves_a_part_without_a_vcpu_is_refused_with_the_least() {
        let told = checked(Suite::Pingpong, &[4, 1], &[]).unwrap_err();
        assert_eq!(told, "pingpong means nothing with 1 vCPU: it needs 2 at least, a pair");
        assert!(checked(Suite::Threeway, &[3], &[]).unwrap_err().contains("4 at least"));
        for suite in [Suite::Pingpong, Suite::Mixed, Suite::Probe, Suite::Threeway] {
            let least = suite.descriptor().least.unwrap().size as usize;
            let played = |wanted| (0..least).any(|vcpu| suite.part(vcpu, least) == wanted);
            assert!(played(Part::Main) && !played(Part::Odd), "{suite}");
        }
        assert_eq!(checked(Suite::Ticket, &[1], &[]), Ok(()));
    }

    #[test]
    fn vms_that_do_not_fit_their_memory_are_refused_with_what_is_needed() {
        let told = checked(Suite::Boot, &[1], &["1x1M"]).unwrap_err();
        assert!(
            told.starts_with("--setup 1x1M: memory of 1024 KiB is too small") && told.contains("are needed"),
            "{told}"
        );
        assert!(checked(Suite::Boot, &[1], &["1024x8M"]).unwrap_err().contains("1024 vCPU(s)"));
        assert!(checked(Suite::Boot, &[1], &["1x8M", "1x60000M"]).unwrap_err().contains("too large"));
        assert!(checked(Suite::Interactive, &[65], &["make"]).unwrap_err().contains("at most 64 vCPUs, not 65"));
        assert_eq!(checked(Suite::Interactive, &[65], &["memload"]), Ok(()));
    }

    #[test]
    fn what_does_not_divide_evenly_is_told() {
        let told = |suite, size| division(suite, size).unwrap_or_default();
        assert_eq!(told(Suite::Pingpong, 5), "Of 5 vCPUs of pingpong: 4 play in pairs, and 1 idles.");
        assert_eq!(told(Suite::Mixed, 5), "Of 5 vCPUs of mixed: 2 at the lock, 3 computing.");
        assert_eq!(told(Suite::Threeway, 8), "Of 8 vCPUs of threeway: 2 in pairs, 3 at the lock, 3 computing.");
        assert_eq!(told(Suite::Weights, 8), "Of 8 vCPUs of weights: 3 of nice 0, 3 of nice 5 and 2 of nice 10.");
        for (suite, even) in [(Suite::Pingpong, 4), (Suite::Probe, 6), (Suite::Threeway, 12), (Suite::Weights, 6)] {
            assert_eq!(division(suite, even), None, "{suite}");
        }
        assert_eq!(division(Suite::Ticket, 5), None);
    }
}
