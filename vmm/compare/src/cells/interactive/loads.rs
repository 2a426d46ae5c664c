//! The VMs of a load.

use crate::cells::site::Site;
use crate::error::CompareError;
use crate::workload::{manners, spec};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use stile_machine::devices::MmioDevice;
use stile_machine::unikernel::reload::Reloader;
use stile_machine::unikernel::{DeviceMaker, Spec, Vm};
use stile_suites::Load;
use vm_memory::GuestMemoryMmap;

/// Memory of a load without the memory that it works on (units: bytes).
const MEMORY: u64 = 8 << 20;
/// Memory of a build: tools for each worker (units: bytes).
const BUILD_MEMORY: u64 = 16 << 20;
/// Jobs of a build for each second of the intended window: about what two pCPUs do beside the probes.
const JOBS_PER_S: f64 = 260.0;
const CACHED_JOBS_PER_S: f64 = 400.0;
/// Compilations whose result the compiler cache has (unit: percent).
const CACHED: u64 = 85;

/// The VMs, which do not run yet; none if threads of the monitor are the load.
pub(super) struct Loaded {
    pub(super) vms: Vec<Vm>,
    /// Compilations of a build.
    pub(super) jobs: u64,
    reloaders: Vec<Arc<Reloader>>,
}

impl Loaded {
    pub(super) fn create(site: &Site<'_>, load: Load, size: u32) -> Result<Self, CompareError> {
        let options = site.context.options;
        let (window, calibration) = (site.planned.window, format!("loops_per_us={}", site.context.loops_per_us));
        let jobs = options.setting("jobs").unwrap_or(jobs(load, window));
        let made = RefCell::new(Vec::new());
        let (image, vms, vcpus, memory, line) = match load {
            Load::None | Load::Forkload => return Ok(Self { vms: Vec::new(), jobs, reloaders: Vec::new() }),
            Load::Memload => {
                let buffer = options.number("buffer_mb");
                ("memload", size, 1, MEMORY + ((2 * buffer) << 20), format!("{calibration} buffer_mb={buffer}"))
            }
            Load::Execload => ("script", size, 1, MEMORY, calibration),
            Load::Make => ("make", 1, size, BUILD_MEMORY, format!("{calibration} jobs={jobs}")),
            Load::MakeCcache => ("make", 1, size, BUILD_MEMORY, format!("{calibration} jobs={jobs} cached={CACHED}")),
        };
        let cmdline = format!("{line}{}", manners(options));
        let file = stile_guest_images::image(image).expect("the suites run built-in images");
        let reloader = |memory: &GuestMemoryMmap| {
            let reloader = Arc::new(Reloader::new(memory, file, &cmdline)?);
            made.borrow_mut().push(Arc::clone(&reloader));
            Ok(reloader as Arc<dyn MmioDevice>)
        };
        let create = |n: u32| {
            let device = (load == Load::Execload).then_some(&reloader as DeviceMaker<'_>);
            let name = format!("{}-{n}", load.name());
            site.create(&Spec { vcpus, device, ..spec(image, &name, memory, &cmdline) }, None)
        };
        let vms = (0..vms).map(create).collect::<Result<_, _>>()?;
        Ok(Self { vms, jobs, reloaders: made.into_inner() })
    }

    /// Makes sure that the program of every VM can be loaded anew.
    pub(super) fn check(&self, site: &Site<'_>) -> Result<(), CompareError> {
        let failed = self.vms.iter().zip(&self.reloaders).find_map(|(vm, device)| Some((vm, device.failed()?)));
        failed.map_or(Ok(()), |(vm, why)| Err(site.broken(vm, format!("cannot load its program anew: {why}"))))
    }
}

/// Number of compilations of a build that should take about this long.
fn jobs(load: Load, window: Duration) -> u64 {
    let each_second = if load == Load::MakeCcache { CACHED_JOBS_PER_S } else { JOBS_PER_S };
    (each_second * window.as_secs_f64()).ceil() as u64
}
