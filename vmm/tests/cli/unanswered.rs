//! `stile run` while the file behind a guest's disk does not answer.

use super::program::{folder, stile};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use stile_tests::unanswered::UnansweredFile;
use stile_tests::{require_kvm, skip};

const DISK_BYTES: u64 = 1 << 20;
/// Far more than the deadline of an end.
const LIMIT: Duration = Duration::from_secs(60);

/// A guest that reads its disk again and again, beside one that computes.
const VMS: &str = "[[vm]]\nname = \"reader\"\nkernel = \"ring0\"\ncmdline = \"disk again\"\ninterrupts = \"user\"\n\
                   disk = \"disk.img\"\n[[vm]]\nname = \"worker\"\nimage = \"builtin:hog\"\n";

/// It is killed if the test forgets it.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_run_that_is_terminated_while_a_disk_does_not_answer_ends_and_names_the_disk() {
    let _ = require_kvm!();
    // A thread of its own, which has other mounts afterwards.
    let test = thread::spawn(|| {
        let folder = folder(VMS);
        let disk = folder.path().join("disk.img");
        std::fs::write(&disk, "").expect("the folder is this test's own");
        std::fs::write(folder.path().join("ring0"), stile_guest_images::RING0).expect("as above");
        let file = match UnansweredFile::mount(&disk, DISK_BYTES) {
            Ok(file) => file,
            Err(error) => return skip(&format!("no file system of this process can be mounted here: {error}")),
        };
        let mut command = stile(folder.path(), &["run", "stile.toml", "--try-linux"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut run = Run(child.expect("cargo built the program"));
        let _answers = file.answers_at_last();
        let mut lines = BufReader::new(run.0.stdout.take().expect("it is a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("status 0")), "the guest has not read its disk");
        // What it prints from then on must not fill the pipe.
        let rest = thread::spawn(move || lines.count());
        file.hold();
        assert!(file.is_read(), "nobody reads the disk");
        let id = Pid::from_child(&run.0);
        kill_process(id, Signal::TERM).expect("it runs");
        let until = Instant::now() + LIMIT;
        let status = loop {
            match run.0.try_wait().expect("it was started") {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "the run does not end"),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let mut told = String::new();
        run.0.stderr.take().expect("it is a pipe").read_to_string(&mut told).expect("it is text");
        let words = told.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ");
        assert!(words.contains("VM reader: virtio-blk (") && words.contains("does not end"), "{status:?}: {told}");
        rest.join().expect("it only counts");
    });
    test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
