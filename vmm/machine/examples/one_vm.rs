//! Runs one VM with four vCPUs on the host's CPUs 0 and 1, scheduled by the policy `rsdl`.
//!
//! It needs `stile-machine`, `stile-sched` and KVM. The guest is one of the built-in images. Any static ELF program
//! that is built on `stile-rt` would do. A guest that has not ended after a second is stopped.
//!
//! ```text
//! cargo run -p stile-machine --example one_vm            # hog: every vCPU computes without end
//! cargo run -p stile-machine --example one_vm -- hello   # prints a line and ends
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kvm_ioctls::Kvm;
use stile_machine::unikernel::{Spec, Vm};
use stile_machine::vm::console::Sink;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::lock::LockRules;
use stile_sched::policy::rsdl::{Rsdl, RsdlConfig};
use stile_sched::{Attributes, Domain};

/// The host's CPUs that run vCPUs. The domain has one slot for each.
const PCPUS: [usize; 2] = [0, 1];
const RUN_FOR: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "hog".into());
    let image = stile_guest_images::image(&name).ok_or_else(|| format!("no built-in image is called `{name}`"))?;

    let policy = Rsdl::new(RsdlConfig::default(), PCPUS.len());
    let domain: Arc<dyn Domain> =
        Arc::new(Executors::new(&PCPUS, Box::new(policy), LockRules::default(), Switches::default())?);

    let printed = Arc::new(Mutex::new(Vec::new()));
    let spec = Spec {
        name: &name,
        image,
        vcpus: 4,
        memory: 16 << 20,
        attributes: Attributes::default(),
        cmdline: "",
        console: Sink::Buffer(Arc::clone(&printed)),
        device: None,
    };
    let vm = Vm::create(&Kvm::new()?, &spec, domain)?;

    vm.start();
    if vm.wait_for(RUN_FOR).is_none() {
        vm.stop();
    }
    let outcome = vm.wait();
    print!("{}", String::from_utf8_lossy(&printed.lock().expect("no thread panicked with the lock")));
    println!("{name} ended: {outcome}");
    for (index, vcpu) in vm.usage().iter().enumerate() {
        let [run, wait] = [vcpu.run_ns, vcpu.wait_ns].map(Duration::from_nanos);
        println!("vCPU {index}: ran {run:.1?}, waited {wait:.1?}, {} exits", vcpu.exits);
    }
    Ok(())
}
