//! A disk that does not answer: its VM can be ended in time, with a message that names it, and other VMs run on.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use stile_machine::devices::block::Disk;
use stile_machine::linux::devices::{DeviceConfig, prepare};
use stile_machine::linux::{Interrupts, LinuxVm, Payload, Spec};
use stile_machine::vm::console::Sink;
use stile_machine::vm::{HostFeatures, Outcome};
use stile_sched::{Attributes, Domain};
use stile_tests::unanswered::{BYTE, UnansweredFile};
use stile_tests::{Carrier, Recipe, require_kvm, skip, wait_for};
use tempfile::TempDir;
use vm_memory::{Bytes, GuestAddress};

const MEMORY: u64 = 16 << 20;
/// See the guest's `disk.rs`.
const GO: u64 = 0x4000;
const DISK_BYTES: u64 = 1 << 20;
/// Far more than the deadline of an end.
const LIMIT: Duration = Duration::from_secs(60);

/// A VM that reads the first sector of its disk.
struct Reader {
    vm: LinuxVm,
    text: Arc<Mutex<Vec<u8>>>,
    told: Receiver<String>,
}

impl Reader {
    fn start(
        kvm: &kvm_ioctls::Kvm,
        domain: &Arc<dyn Domain>,
        folder: &TempDir,
        file: &UnansweredFile,
        words: &str,
    ) -> Self {
        let kernel = folder.path().join("ring0");
        std::fs::write(&kernel, stile_guest_images::RING0).expect("the folder is this test's own");
        let payload = Payload::open(&kernel, None, &format!("disk {words}"), MEMORY).expect("the image is a kernel");
        let (tells, told) = channel();
        let tells = Mutex::new(tells);
        let tell = move |text: &str| {
            let _ = tells.lock().unwrap_or_else(PoisonError::into_inner).send(text.to_owned());
        };
        let devices = DeviceConfig {
            name: "reader",
            port: None,
            tap: None,
            disk: Some(Disk::open(file.path(), false).expect("it can be opened")),
            socket: None,
            console: Sink::Discard,
            tell: Arc::new(tell),
        };
        let text = Arc::new(Mutex::new(Vec::new()));
        let spec = Spec {
            name: "reader",
            payload: &payload,
            vcpus: 1,
            attributes: Attributes::default(),
            interrupts: Interrupts::User,
            halt_poll: None,
            shown: HostFeatures::default(),
            console: Sink::Buffer(Arc::clone(&text)),
            devices: prepare(devices).expect("a worker can be started"),
        };
        let vm = LinuxVm::create(kvm, spec, Arc::clone(domain)).expect("KVM makes it");
        file.hold();
        vm.start();
        Self { vm, text, told }
    }

    /// The disk is at work: a guest that is to reset it goes on.
    fn lets_go_on(&self) {
        self.vm.state().memory().write_obj(1u8, GuestAddress(GO)).expect("it is memory");
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Runs `test` on a thread of its own, since that has other mounts afterwards.
fn with_unanswered_file(test: impl FnOnce(&TempDir, UnansweredFile) + Send + 'static) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let run = move || {
        let folder = tempfile::tempdir().expect("a test may write temporary files");
        let path = folder.path().join("disk.img");
        std::fs::write(&path, "").expect("the folder is this test's own");
        match UnansweredFile::mount(&path, DISK_BYTES) {
            Ok(file) => test(&folder, file),
            Err(error) => skip(&format!("no file system of this process can be mounted here: {error}")),
        }
    };
    let thread = thread::Builder::new().name(name).spawn(run).expect("threads can be started");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn a_disk_that_answers_late_is_waited_for_and_read() {
    for words in ["", "reset"] {
        let kvm = require_kvm!();
        with_unanswered_file(move |folder, file| {
            let domain = Carrier::default_policy().domain();
            let reader = Reader::start(&kvm, &domain, folder, &file, words);
            assert!(file.is_read(), "nobody reads the disk: {}", reader.text());
            wait_for("the guest waits", || reader.text().starts_with("asks"));
            reader.lets_go_on();
            file.answer();
            assert_eq!(reader.vm.wait_for(LIMIT), Some(Outcome::PoweredOff), "{}", reader.text());
            let expected =
                if words == "reset" { "was reset".into() } else { format!("status 0, first byte {BYTE:#x}") };
            assert!(reader.text().contains(&expected), "{}", reader.text());
            drop(reader.vm);
            assert_eq!(reader.told.try_iter().collect::<Vec<_>>(), [""; 0]);
        });
    }
}

/// One after the other, since each end takes its deadline.
#[test]
fn a_disk_that_does_not_answer_stops_nobody_else_and_the_end_names_it_in_time() {
    let _kvm = require_kvm!();
    ends_in_time(Carrier::default_policy(), "");
    Carrier::mechanisms().into_iter().for_each(|carrier| ends_in_time(carrier, "reset"));
}

/// `words` make the guest wait in its own way: by looking for the answer, or with a reset that is not carried out.
fn ends_in_time(carrier: Carrier, words: &'static str) {
    with_unanswered_file(move |folder, file| {
        let kvm = stile_tests::kvm().expect("it was there before");
        let domain = carrier.domain();
        let reader = Reader::start(&kvm, &domain, folder, &file, words);
        let _answers = file.answers_at_last();
        assert!(file.is_read(), "nobody reads the disk: {}", reader.text());
        wait_for("the guest waits", || reader.text().starts_with("asks"));
        reader.lets_go_on();
        let others = ["hog", "probe"].map(|name| Recipe::builtin(name).start(&kvm, &domain));
        others.iter().for_each(|other| other.progresses([0], 3));
        assert_eq!(reader.text().trim(), "asks", "{carrier}");
        reader.vm.stop();
        assert_eq!(reader.vm.wait_for(LIMIT), Some(Outcome::Stopped), "{carrier}, {words}");
        let (ends, ended) = channel();
        let (vm, told) = (reader.vm, reader.told);
        thread::spawn(move || {
            drop(vm);
            let _ = ends.send(());
        });
        let disk = file.path().display();
        let expected =
            format!("VM reader: virtio-blk ({disk}) does not end: a call to the host has not returned for 5s");
        assert_eq!(told.recv_timeout(LIMIT), Ok(expected), "{carrier}");
        others.iter().for_each(|other| other.progresses([0], 3));
        // KVM gives a VM back with the help of threads of the host's kernel, which vCPUs may starve (docs/adr/0005).
        others.into_iter().for_each(drop);
        ended.recv_timeout(LIMIT).expect("the end waits for the disk");
        assert_eq!(told.try_iter().count(), 0, "{carrier}");
    });
}
