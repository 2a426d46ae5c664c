//! `stile compare --guest linux`: the suites that can have Linux guests, and the images that these boot.

use super::args::{CompareArgs, GuestKind, one_of};
use super::failure::Failure;
use super::guests;
use std::path::{Path, PathBuf};
use stile_compare::{Hint, Linux, Options, Peer, check_settings, labelled};
use stile_config::{Mechanism, PolicyConfig, VmInterrupts};
use stile_linux_images::guest::Image;
use stile_linux_images::{Cache, ImageKind, checks};
use stile_suites::{LinuxGuests, LinuxImage, Suite};
use tracing::warn;

/// Makes the comparison with Linux guests, if it was asked for, or refuses it.
pub(super) fn guests(args: &CompareArgs, asked: &Options) -> Result<Option<Options>, Failure> {
    let suite = asked.suite;
    let GuestKind::Linux(folder) = &args.guest else {
        return match suite.is_of_linux() {
            false if args.interrupts.0 != VmInterrupts::Auto => Err(Failure::Input(miette::miette!(
                help = "--guest linux",
                "--interrupts: built-in guests have no interrupt controllers"
            ))),
            false => Ok(None),
            true => Err(Failure::Input(miette::miette!(help = "--guest linux", "{suite} has no built-in guests"))),
        };
    };
    let own = suite
        .descriptor()
        .linux
        .as_ref()
        .ok_or_else(|| Failure::Input(miette::miette!(help = suites(), "{suite} has no Linux guests")))?;
    if let Some(problem) = problem(args, asked, own) {
        return Err(Failure::Input(problem));
    }
    let mut policies = match &asked.policies[..] {
        [] => labelled(&["host", "rsdl"].map(known)),
        named => named.to_vec(),
    };
    let interrupts = args.interrupts.0;
    // Executors cannot carry vCPUs that wait inside the host's kernel.
    for (_, policy) in policies.iter_mut().filter(|_| interrupts == VmInterrupts::Kernel) {
        if policy.mechanism == Mechanism::Auto {
            policy.mechanism = Mechanism::Leases;
        }
    }
    guests::linux_runs_here(args.try_linux)?;
    let (kernel, initrd) = image(own.image, folder.as_deref())?;
    let peer = if own.measures_boot { peer(&mut policies) } else { None };
    Ok(Some(Options { policies, linux: Some(Linux { kernel, initrd, interrupts, peer }), ..asked.clone() }))
}

fn known(policy: &str) -> PolicyConfig {
    policy.parse().expect("the default policies are known")
}

/// The suites that can have Linux guests: "compare boot, hackbench, tbench or cyclictest".
pub(super) fn suites() -> String {
    let names: Vec<&str> = Suite::ALL.into_iter().filter(|suite| suite.takes_linux()).map(Suite::name).collect();
    format!("compare {}", one_of(&names))
}

/// Returns the error for an option that cannot be used with Linux guests.
fn problem(args: &CompareArgs, asked: &Options, own: &LinuxGuests) -> Option<miette::Report> {
    let suite = asked.suite;
    let settings = own.parameters;
    let set = asked.settings.iter().map(|(key, value)| (key.as_str(), *value));
    let unknown = asked.settings.iter().find(|(key, _)| settings.iter().all(|parameter| parameter.key != key));
    let inside = args.interrupts.0 == VmInterrupts::Kernel;
    let executors = asked.policies.iter().find(|(_, policy)| inside && policy.mechanism == Mechanism::Executors);
    if args.sim {
        Some(miette::miette!("--sim: there is no model of Linux guests"))
    } else if args.hint != Hint::Full {
        Some(miette::miette!("--hint {}: Linux guests give no hints", args.hint.name()))
    } else if let Some((key, _)) = unknown {
        let help = match settings {
            [] => format!("{suite} with Linux guests has no parameters"),
            all => {
                let keys: Vec<&str> = all.iter().map(|parameter| parameter.key).collect();
                format!("{suite} with Linux guests has {}", keys.join(" and "))
            }
        };
        Some(miette::miette!(help = help, "--set {key}: there is no such parameter"))
    } else if let Err(error) = check_settings(&[suite], set) {
        Some(miette::miette!("--set: {error}"))
    } else {
        executors.map(|(label, _)| {
            let help = "leave out --interrupts kernel, or take `leases`";
            miette::miette!(help = help, "--policies {label}: executors cannot carry vCPUs that halt inside the kernel")
        })
    }
}

/// The image that guests boot: from a folder, or from the cache.
fn image(image: LinuxImage, folder: Option<&Path>) -> Result<(PathBuf, PathBuf), Failure> {
    let kind = match image {
        LinuxImage::Usual => ImageKind::Usual,
        LinuxImage::Large => ImageKind::Large,
    };
    let files = match folder {
        Some(folder) => checks::files(folder),
        None => {
            let folder = kind.folder(&Cache::of_user().map_err(Failure::run)?);
            Image::open(&folder).map(|image| (image.kernel(), image.initramfs()))
        }
    };
    files.map_err(|error| {
        let help = format!("`stile guest build {}` makes one, with --out DIR in a folder of your choice", kind.name());
        Failure::Input(miette::miette!(help = help, "--guest linux: {error}"))
    })
}

/// The peer, QEMU's microvm, as the last of the policies, if it is installed.
fn peer(policies: &mut Vec<(String, PolicyConfig)>) -> Option<Peer> {
    let found = Peer::find(policies.len());
    match &found {
        Some(_) => policies.push((Peer::LABEL.to_owned(), known("host"))),
        None => warn!(remedy = Peer::REMEDY, "{}", no_peer()),
    }
    found
}

fn no_peer() -> String {
    format!("QEMU is not installed: Linux guests boot without {} beside them, to compare with", Peer::LABEL)
}

/// Notes for the report.
pub(super) fn notes(parts: &[Options]) -> Vec<String> {
    let alone = |options: &Options| {
        let has_peer = options.suite.descriptor().linux.as_ref().is_some_and(|guests| guests.measures_boot);
        has_peer && options.linux.as_ref().is_some_and(|linux| linux.peer.is_none())
    };
    parts.iter().filter(|options| alone(options)).map(|_| format!("{}.", no_peer())).collect()
}
