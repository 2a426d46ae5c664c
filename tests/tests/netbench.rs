//! The netbench client and server as real guests, on the host's own scheduler.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kvm_ioctls::Kvm;
use stile::net::{NetDevice, PortNumber, Switch, VmEvents};
use stile::vm::console::Sink;
use stile::vm::{MmioDevice, Outcome, Spec, Vm};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::{Domain, Nice};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const MEMORY: u64 = 8 << 20;

struct Guest {
    vm: Vm,
    text: Arc<Mutex<Vec<u8>>>,
}

fn guest(kvm: &Kvm, domain: &Arc<dyn Domain>, switch: &Arc<Switch>, image: &str, number: u16, cmdline: &str) -> Guest {
    let events = Arc::new(VmEvents::default());
    let number = PortNumber::new(number).unwrap();
    let text = Arc::<Mutex<Vec<u8>>>::default();
    let device = |memory: &GuestMemoryMmap| -> Arc<dyn MmioDevice> {
        Arc::new(NetDevice::attach(switch, number, memory.clone(), Arc::clone(&events) as _).unwrap())
    };
    let spec = Spec {
        name: image,
        image: stile_guest_images::image(image).unwrap(),
        vcpus: 1,
        memory: MEMORY,
        nice: Nice::default(),
        cmdline: &format!("net.ip={}/16 {cmdline}", number.ip()),
        console: Sink::Buffer(Arc::clone(&text)),
        device: Some(&device),
    };
    let vm = Vm::create(kvm, &spec, Arc::clone(domain)).unwrap();
    events.lead_to(vm.state());
    Guest { vm, text }
}

impl Guest {
    /// Operations, payload and errors so far.
    fn counts(&self) -> [u64; 3] {
        let gauge = self.vm.state().layout().gauge(0);
        [0, 8, 16].map(|at| self.vm.state().memory().load(GuestAddress(gauge + at), Ordering::Relaxed).unwrap())
    }

    fn ended(&self) -> String {
        self.vm.stop();
        let outcome = self.vm.wait();
        format!("{outcome}: {}", String::from_utf8_lossy(&self.text.lock().unwrap()))
    }
}

#[test]
fn a_client_and_its_server_exchange_without_errors_or_drops() {
    let kvm = match Kvm::new() {
        Ok(kvm) => kvm,
        Err(error) => {
            assert!(std::env::var("STILE_REQUIRE").as_deref() != Ok("kvm"), "no KVM: {error}");
            return eprintln!("SKIPPED: no KVM: {error}");
        }
    };
    let domain: Arc<dyn Domain> = Arc::new(HostThreads::new(&[0, 1], HostYield::Sched));
    let switch = Switch::new();
    let server = guest(&kvm, &domain, &switch, "netbench-server", 1, "");
    let client = guest(&kvm, &domain, &switch, "netbench-client", 2, "server=10.0.0.1 seed=7");
    server.vm.start();
    client.vm.start();
    let deadline = Instant::now() + Duration::from_secs(10);
    while client.counts()[0] < 2000 && !client.vm.state().has_ended() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ([ops, bytes, errors], [answered, ..]) = (client.counts(), server.counts());
    let drops = switch.total().drops;
    assert!(ops >= 2000, "{ops} operations; {}; {}; {:?}", client.ended(), server.ended(), switch);
    assert!(answered >= ops && bytes > 0);
    assert_eq!((errors, drops.total()), (0, 0), "{drops:?}");
    assert_eq!((client.vm.state().outcome(), server.vm.state().outcome()), (None, None));
    assert_eq!(client.ended(), format!("{}: ", Outcome::Stopped));
}
