//! Chromium without a window.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const LOG: &str = "log";

/// A browser that is ended when this is dropped.
pub(crate) struct Browser {
    process: Child,
    folder: TempDir,
}

impl Browser {
    pub(crate) fn open(chromium: &Path, address: &str) -> Self {
        let folder = tempfile::tempdir().expect("a test may write temporary files");
        let log = File::create(folder.path().join(LOG)).expect("as above");
        let process = Command::new(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"])
            .args(["--remote-debugging-port=0", "--no-first-run", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("Chromium can be started");
        Self { process, folder }
    }

    /// What it has printed. What pages write to their consoles has the word CONSOLE in it.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.folder.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
