//! The Linux guests of a cell: makes them, waits until they are at their gates, and reads them.

use super::agent::{Agent, Heard};
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::plan::case::Case;
use crate::plan::linux::Linux;
use crate::plan::options::Options;
use crate::window::{Reading, Window};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stile_config::PolicyConfig;
use stile_machine::devices::net::{PortNumber, Switch};
use stile_machine::devices::vsock::HostSocket;
use stile_machine::linux::devices::{self, DeviceConfig, Unavailable};
use stile_machine::linux::{self, LinuxVm, Payload, PayloadError};
use stile_machine::vm::HostFeatures;
use stile_machine::vm::console::Sink;
use stile_sched::attributes::Attributes;
use stile_suites::{Setup, VmShape};

/// The time limit for guests to boot and reach their gates, also on an emulator.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// The lines of a console's end that an error quotes for a guest that has ended.
const LAST_LINES: usize = 5;

/// Why a Linux guest cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinuxError {
    /// Its kernel or initramfs.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Its devices.
    #[error(transparent)]
    Device(#[from] Unavailable),
    /// The VM.
    #[error(transparent)]
    Create(#[from] linux::CreateError),
    /// The agent that receives its reports.
    #[error("its agent cannot be started")]
    Agent(#[source] io::Error),
}

/// Makes the guests of a cell.
pub(super) struct Lab<'a> {
    pub(super) site: &'a Site<'a>,
    linux: &'a Linux,
    pub(super) shape: VmShape,
    /// KVM's polling for halted vCPUs, as `stile run` sets it: none where other vCPUs could run.
    halt_poll: Option<Duration>,
}

/// A guest with an agent.
pub(super) struct Guest {
    pub(super) vm: LinuxVm,
    agent: Agent,
    console: Arc<Mutex<Vec<u8>>>,
}

impl<'a> Lab<'a> {
    /// Makes the lab of a cell with this number of VMs.
    pub(super) fn new(site: &'a Site<'a>, linux: &'a Linux, vms: u32) -> Self {
        let shape = shape(site.planned.case);
        let crowded = u64::from(vms) * u64::from(shape.vcpus) > site.pcpus.len() as u64;
        Self { site, linux, shape, halt_poll: crowded.then_some(Duration::ZERO) }
    }

    /// Makes a guest with these orders that does not run yet. With a port, it is on that network.
    pub(super) fn guest(
        &self,
        name: &str,
        orders: &str,
        port: Option<(Arc<Switch>, PortNumber)>,
    ) -> Result<Guest, CompareError> {
        let console = Arc::new(Mutex::new(Vec::new()));
        let made = Agent::new().map_err(LinuxError::Agent).and_then(|(agent, socket)| {
            let vm = self.vm(name, orders, Sink::Buffer(Arc::clone(&console)), Some(socket), port)?;
            Ok((vm, agent))
        });
        let (vm, agent) = made.map_err(|source| self.unmade(name, source))?;
        Ok(Guest { vm, agent, console })
    }

    /// A VM of the lab's shape.
    pub(super) fn vm(
        &self,
        name: &str,
        orders: &str,
        console: Sink,
        socket: Option<HostSocket>,
        port: Option<(Arc<Switch>, PortNumber)>,
    ) -> Result<LinuxVm, LinuxError> {
        let memory = u64::from(self.shape.mib) << 20;
        let payload = Payload::open(&self.linux.kernel, Some(&self.linux.initrd), &cmdline(orders), memory)?;
        let of_vm = name.to_owned();
        let tell = Arc::new(move |text: &str| tracing::warn!("VM {of_vm}: {text}"));
        let devices = devices::prepare(DeviceConfig {
            name,
            port,
            tap: None,
            disk: None,
            socket,
            console: console.clone(),
            tell,
        })?;
        let spec = linux::Spec {
            name,
            payload: &payload,
            vcpus: self.shape.vcpus,
            attributes: Attributes::default(),
            interrupts: self.linux.interrupts.under(&self.policy()),
            halt_poll: self.halt_poll,
            shown: HostFeatures::default(),
            console,
            devices,
        };
        let vm = LinuxVm::create(self.site.context.kvm, spec, Arc::clone(&self.site.domain))?;
        self.site.name(&vm);
        Ok(vm)
    }

    /// The cell's policy, with the mechanism that carries it out.
    fn policy(&self) -> PolicyConfig {
        let (_, policy) = &self.site.context.options.policies[self.site.planned.policy];
        stile_assembly::carried_out(policy)
    }

    /// The error for a guest of this name that could not be made.
    pub(super) fn unmade(&self, name: &str, source: LinuxError) -> CompareError {
        CompareError::Linux { name: name.to_owned(), label: self.site.label.to_owned(), source: Box::new(source) }
    }

    /// The error for a guest that cannot be measured.
    pub(super) fn broken(&self, vm: &LinuxVm, why: String) -> CompareError {
        let name = vm.status().name().to_owned();
        CompareError::Broken { name, label: self.site.label.to_owned(), why }
    }

    /// Starts guests and waits until all are at their gates. Returns false if the user ended the run meanwhile.
    pub(super) fn gather(&self, guests: &[Guest]) -> Result<bool, CompareError> {
        guests.iter().for_each(|guest| guest.vm.start());
        self.until(guests, PATIENCE, Heard::is_at_gate, "was not at its gate")
    }

    /// Opens the gate of a guest.
    pub(super) fn open(&self, guest: &Guest) -> Result<(), CompareError> {
        guest.agent.open_gate().map_err(|error| self.broken(&guest.vm, format!("is out of reach: {error}")))
    }

    /// Waits until `heard` holds for the reports of all these guests. Returns false if the user ended the run
    /// meanwhile. A guest that ends or fails, or that takes longer than the limit, is an error.
    pub(super) fn until(
        &self,
        guests: &[Guest],
        limit: Duration,
        is_reached: impl Fn(&Heard) -> bool,
        how_far: &str,
    ) -> Result<bool, CompareError> {
        let begun = Instant::now();
        let reached = self.site.look(|| {
            guests.iter().try_for_each(|guest| self.still_runs(guest))?;
            let Some(last) = guests.iter().find(|guest| !guest.agent.heard(&is_reached)) else { return Ok(Some(())) };
            if begun.elapsed() > limit {
                let (name, label) = (last.vm.status().name().to_owned(), self.site.label.to_owned());
                let how_far = format!("{how_far} ({})", last.last_lines());
                return Err(CompareError::Stuck { name, label, how_far, limit });
            }
            Ok(None)
        })?;
        Ok(reached.is_some())
    }

    /// Fails if a guest failed or ended, since it was not measured.
    pub(super) fn still_runs(&self, guest: &Guest) -> Result<(), CompareError> {
        if let Some(why) = guest.heard(Heard::failure) {
            return Err(self.broken(&guest.vm, why));
        }
        guest
            .vm
            .status()
            .outcome()
            .map_or(Ok(()), |outcome| Err(self.broken(&guest.vm, format!("ended: {outcome} ({})", guest.last_lines()))))
    }

    /// The scheduler's accounts of these guests' vCPUs at this moment.
    pub(super) fn read(&self, guests: &[Guest]) -> Reading {
        let vcpus: Vec<_> = guests.iter().flat_map(|guest| guest.vm.ids()).collect();
        Reading::of_accounts(&vcpus, &*self.site.domain)
    }

    /// The window from a reading to this moment, after an audit of its accounts.
    pub(super) fn window(&self, guests: &[Guest], before: &Reading) -> Result<Window, CompareError> {
        let window = before.until(&self.read(guests));
        self.site.audit(&window)?;
        Ok(window)
    }
}

impl Guest {
    /// Reads the guest's reports so far with this function.
    pub(super) fn heard<T>(&self, of: impl FnOnce(&Heard) -> T) -> T {
        self.agent.heard(of)
    }

    /// The end of the guest's console, for error messages.
    fn last_lines(&self) -> String {
        let console = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = text.lines().collect();
        match &lines[lines.len().saturating_sub(LAST_LINES)..] {
            [] => "its console is empty".to_owned(),
            last => format!("its console ends with: {}", last.join(" | ")),
        }
    }
}

/// The shape of a case's guests.
pub(super) fn shape(case: Case) -> VmShape {
    match case.setup {
        Setup::Each(shape) => shape,
        Setup::Usual | Setup::On(_) | Setup::Affinity | Setup::Bare(_) | Setup::Locks(_) | Setup::Load(_) => {
            Options::LINUX_SHAPE
        }
    }
}

/// The command line of a guest with these orders, without the part that stile adds.
pub(super) fn cmdline(orders: &str) -> String {
    format!("quiet stile.run=\"{orders}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use stile_config::VmInterrupts;
    use stile_suites::Suite;

    fn with_linux(suite: Suite) -> Options {
        let linux = Linux {
            kernel: "vmlinuz".into(),
            initrd: "initramfs.cpio".into(),
            peer: None,
            interrupts: VmInterrupts::Auto,
        };
        let policies = ["host", "rsdl"].map(|name| (name.to_owned(), name.parse().unwrap())).to_vec();
        Options { linux: Some(linux), ..Options::new(suite, policies, "0-1".parse().unwrap()) }
    }

    #[test]
    fn all_guests_have_the_usual_shape_unless_one_is_chosen_and_reports_tell_it() {
        for suite in [Suite::Boot, Suite::Hackbench, Suite::Tbench, Suite::Cyclictest] {
            let usual = with_linux(suite);
            assert!(Case::all(&usual).into_iter().all(|case| shape(case) == Options::LINUX_SHAPE), "{suite}");
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
