//! A Linux guest reports to its host over vsock. Runs where Linux guests can: in the hardware lane, which gives the
//! paths of kernel and initramfs.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, thread};

/// Folder with `vmlinuz` and `initramfs.cpio` of `stile guest build linux`.
const GUEST: &str = "STILE_LINUX_GUEST";

#[test]
fn a_guests_reports_reach_who_listens_on_the_ports_socket() {
    let Some(guest) = env::var_os(GUEST).map(PathBuf::from) else {
        return stile_tests::skip(&format!("no Linux guest: {GUEST} is not set"));
    };
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[policy]\nalgorithm = \"rsdl\"\n[[vm]]\nname = \"linux\"\nkernel = \"{kernel}\"\ninitrd = \"{initrd}\"\n\
         memory = \"256M\"\ncmdline = 'quiet stile.run=\"echo over vsock\"'\nvsock = \"sock\"\n",
        kernel = guest.join("vmlinuz").display(),
        initrd = guest.join("initramfs.cpio").display(),
    );
    let file = folder.path().join("guest.toml");
    fs::write(&file, config).unwrap();
    let listener = UnixListener::bind(folder.path().join("sock_7700")).unwrap();
    let reports = thread::spawn(move || {
        let (guest, _) = listener.accept().unwrap();
        BufReader::new(guest).lines().map_while(Result::ok).collect::<Vec<_>>()
    });
    let run = Command::new("stile").arg("run").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    // The guest has closed its end, or the monitor has closed it with the VM.
    let reports = reports.join().unwrap();
    assert!(reports.iter().any(|line| line.contains("over vsock")), "{reports:?}");
    assert!(reports.iter().any(|line| line.starts_with("finished ok")), "{reports:?}");
}
