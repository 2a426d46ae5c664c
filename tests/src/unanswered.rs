//! A file that does not answer: whoever reads it waits in the host's kernel until the test lets it answer.
//!
//! It is a file of FUSE (include/uapi/linux/fuse.h), mounted where only the calling thread and those that it starts see
//! it, and served by a thread of this process.
//!
//! A request that is not answered stays in the kernel's queue. Had the server taken it, the reader could not be killed
//! (`request_wait_answer` in fs/fuse/dev.c), and a test that is killed would stay for good.
#![allow(unsafe_code, reason = "a thread leaves the namespace of mounts that it shares with others")]

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
/// Requests that get no answer: forget, interrupt, forget many.
const UNANSWERED: [u32; 3] = [2, 36, 42];
/// Reads are not served from a cache.
const DIRECT: u32 = 1;
const VERSION: [u32; 2] = [7, 31];
const HEADER: usize = 40;
const ENOSYS: i32 = -38;
/// As much as a request may have.
const REQUEST_BYTES: usize = (128 << 10) + 4096;

/// What each byte of the file is.
pub const BYTE: u8 = 0x5a;

/// A mounted file, which answers until it is [held](Self::hold). Dropping it lets it answer.
pub struct UnansweredFile {
    path: PathBuf,
    server: Arc<Server>,
    asked: Receiver<()>,
}

struct Server {
    fuse: File,
    bytes: u64,
    /// Requests are not answered.
    held: Mutex<bool>,
    /// Rings when they are answered again.
    released: Condvar,
}

impl UnansweredFile {
    /// A file of this size over the empty file `path`. Returns the reason if this machine or user can have none. The
    /// calling thread is in a namespace of mounts of its own from then on.
    pub fn mount(path: &Path, bytes: u64) -> io::Result<Self> {
        let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let options = CString::new(format!("fd={},rootmode=100644,user_id=0,group_id=0", fuse.as_raw_fd()))?;
        let server = Arc::new(Server { fuse, bytes, held: Mutex::new(false), released: Condvar::new() });
        let ((asks, asked), (mounted, is_mounted)) = (channel(), channel());
        let serves = Arc::clone(&server);
        // It is started before the namespace is left, so that it does not keep the new one.
        thread::Builder::new()
            .name("fuse".into())
            .spawn(move || is_mounted.recv().into_iter().for_each(|()| serves.run(&asks)))?;
        // SAFETY: no memory nor descriptor is shared less than before, only mounts and the current folder.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount("stile-tests", path, "fuse", MountFlags::NOSUID | MountFlags::NODEV, Some(&*options))?;
        // It waits for this.
        let _ = mounted.send(());
        // The kernel learns that there is nothing to flush. Else a killed process would wait for that as well.
        drop(File::open(path)?);
        Ok(Self { path: path.to_owned(), server, asked })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers nothing from now on. The file has to be open by then, so that the next request is a read.
    pub fn hold(&self) {
        *self.server.held() = true;
    }

    /// Waits until somebody reads the held file; false if nobody does in time.
    pub fn is_read(&self) -> bool {
        self.asked.recv_timeout(crate::LIMIT).is_ok()
    }

    /// Lets it answer when this is dropped, so that a test that fails does not hang.
    pub fn answers_at_last(&self) -> impl Drop {
        Answers(Arc::clone(&self.server))
    }

    /// Answers what waits, and all that comes.
    pub fn answer(&self) {
        self.server.release();
    }
}

impl Drop for UnansweredFile {
    fn drop(&mut self) {
        self.answer();
        // The server ends when nobody has the file any more.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// See [`UnansweredFile::answers_at_last`].
struct Answers(Arc<Server>);

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Server {
    fn held(&self) -> MutexGuard<'_, bool> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) {
        *self.held() = false;
        self.released.notify_all();
    }

    fn run(&self, asks: &Sender<()>) {
        let mut request = vec![0; REQUEST_BYTES];
        loop {
            self.await_request(asks);
            match (&self.fuse).read(&mut request) {
                Ok(read) if read >= HEADER => self.serve(&request[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nobody has the file any more.
                _ => return,
            }
        }
    }

    /// Waits for a request that may be answered, and leaves it in the kernel's queue.
    fn await_request(&self, asks: &Sender<()>) {
        // An error shows at the read as well.
        let _ = poll(&mut [PollFd::new(&self.fuse, PollFlags::IN)], None);
        let held = self.held();
        if *held {
            // The test may have seen enough.
            let _ = asks.send(());
            drop(self.released.wait_while(held, |held| *held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn serve(&self, request: &[u8]) {
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().expect("four bytes"));
        let unique = u64::from_le_bytes(request[8..16].try_into().expect("eight bytes"));
        match word(4) {
            operation if UNANSWERED.contains(&operation) => {}
            INIT => {
                let mut answer = VERSION.to_vec();
                answer.resize(16, 0);
                // The most that is written at a time.
                answer[5] = 4096;
                self.answer(unique, 0, &bytes_of(&answer));
            }
            GETATTR => self.answer(unique, 0, &self.attributes()),
            OPEN => self.answer(unique, 0, &bytes_of(&[0, 0, DIRECT, 0])),
            READ => self.answer(unique, 0, &vec![BYTE; word(HEADER + 16) as usize]),
            RELEASE => self.answer(unique, 0, &[]),
            _ => self.answer(unique, ENOSYS, &[]),
        }
    }

    fn attributes(&self) -> Vec<u8> {
        const MODE: u32 = 0o100_644;
        let size = [self.bytes as u32, (self.bytes >> 32) as u32];
        // How long they hold, then inode and size, and behind blocks and times the mode and the number of links.
        let mut words = vec![3600, 0, 0, 0, 1, 0, size[0], size[1]];
        words.resize(19, 0);
        words.extend([MODE, 1]);
        words.resize(26, 0);
        bytes_of(&words)
    }

    fn answer(&self, unique: u64, error: i32, body: &[u8]) {
        let length = (16 + body.len()) as u32;
        let answer = [&length.to_le_bytes()[..], &error.to_le_bytes(), &unique.to_le_bytes(), body].concat();
        // This fails if the reader was killed.
        let _ = (&self.fuse).write(&answer);
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
