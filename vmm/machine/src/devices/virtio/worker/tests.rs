use super::*;
use crate::devices::virtio::sync::mpsc::Sender;

/// A device whose host does not answer, until the channel ends.
struct Hangs {
    began: Sender<()>,
    answer: Mutex<Receiver<()>>,
}

impl Serve for Hangs {
    fn queue_turn(&self, _queue: u16) -> Progress {
        let _ = self.began.send(());
        let _ = self.answer.lock().recv();
        Progress::Done
    }

    fn host_turn(&self) -> Progress {
        Progress::Done
    }

    fn host_events(&self) -> Option<RawFd> {
        None
    }
}

#[test]
fn the_end_of_a_vm_names_the_device_whose_host_does_not_answer_and_goes_on() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let worker =
        Worker::start("vm", Kind::Device, Arc::new(move |text: &str| tell.lock().push(text.to_owned()))).unwrap();
    let ((began, begins), (answers, answer)) = (mpsc::channel(), mpsc::channel());
    let rings = event().unwrap();
    let rung = rings.try_clone().unwrap();
    let device = Arc::new(Hangs { began, answer: Mutex::new(answer) });
    worker.serve("virtio-blk (slow.img)", device, Arc::new([rings])).unwrap();
    rung.write(1).unwrap();
    begins.recv().unwrap();
    worker.end(Duration::from_millis(1));
    let expected = "VM vm: virtio-blk (slow.img) does not end: a call to the host has not returned for 1ms";
    assert_eq!(*told.lock(), [expected]);
    drop(answers);
}

#[test]
fn a_worker_that_is_through_ends_without_a_word() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    drop(Worker::start("vm", Kind::Device, Arc::new(move |text: &str| tell.lock().push(text.to_owned()))).unwrap());
    assert!(told.lock().is_empty());
}

/// A device in whose code there is a fault.
struct Panics;

impl Serve for Panics {
    fn queue_turn(&self, _queue: u16) -> Progress {
        panic!("planted");
    }

    fn host_turn(&self) -> Progress {
        Progress::Done
    }

    fn host_events(&self) -> Option<RawFd> {
        None
    }
}

#[test]
fn a_panic_is_told_with_the_device_in_whose_turn_it_came_and_the_vm_can_end() {
    let (tells, told) = mpsc::channel();
    let tells = Mutex::new(tells);
    let worker =
        Worker::start("vm", Kind::Device, Arc::new(move |text: &str| tells.lock().send(text.to_owned()).unwrap()))
            .unwrap();
    let rings = event().unwrap();
    rings.write(1).unwrap();
    worker.serve("virtio-rng", Arc::new(Panics), Arc::new([rings])).unwrap();
    assert_eq!(told.recv().unwrap(), "VM vm: none of its devices works any more: stile panicked in virtio-rng");
    drop(worker);
}

/// A device that never has done its work.
struct Busy;

impl Serve for Busy {
    fn queue_turn(&self, _queue: u16) -> Progress {
        let begun = thread_cpu_time();
        while thread_cpu_time() - begun < Nanos::from_micros(200) {}
        Progress::More
    }

    fn host_turn(&self) -> Progress {
        Progress::Done
    }

    fn host_events(&self) -> Option<RawFd> {
        None
    }
}

/// Tells what it pays, and until when the worker pauses then.
struct Pays(Mutex<Sender<(Nanos, Time)>>, fn() -> Time);

impl Payer for Pays {
    fn pays(&self, time: Nanos) -> Time {
        let until = (self.1)();
        // The test may have seen enough.
        let _ = self.0.lock().send((time, until));
        until
    }
}

fn busy_worker(until: fn() -> Time) -> (Arc<Worker>, Receiver<(Nanos, Time)>) {
    let worker = Worker::start("vm", Kind::Device, Arc::new(|text: &str| panic!("{text}"))).unwrap();
    let (pays, paid) = mpsc::channel();
    worker.payer().name(Arc::new(Pays(Mutex::new(pays), until)));
    let rings = event().unwrap();
    rings.write(1).unwrap();
    worker.serve("virtio-net", Arc::new(Busy), Arc::new([rings])).unwrap();
    (worker, paid)
}

#[test]
fn the_cpu_time_of_turns_is_paid_in_full() {
    let (worker, paid) = busy_worker(Time::default);
    let turns = 100;
    let sum = paid.iter().take(turns).fold(Nanos::ZERO, |sum, (time, _)| sum + time);
    assert!(sum >= Nanos::from_micros(200 * turns as u64), "{sum:?}");
    drop(worker);
}

#[test]
fn a_worker_whose_vm_has_used_up_its_cap_pauses_before_its_next_round() {
    let (worker, paid) = busy_worker(|| monotonic() + Nanos::from_millis(20));
    let mut until = paid.recv().unwrap().1;
    for _ in 0..3 {
        let (_, next) = paid.recv().unwrap();
        assert!(next >= until + Nanos::from_millis(20), "a round was made in the pause");
        until = next;
    }
    drop(worker);
}

#[test]
fn the_end_does_not_wait_for_a_pause() {
    let (worker, paid) = busy_worker(|| Time::NEVER);
    paid.recv().unwrap();
    drop(worker);
    assert!(paid.recv().is_err(), "no round follows");
}
