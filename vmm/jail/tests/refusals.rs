//! Each kind of thread makes a call that its list refuses. The process has to end with a message that names both.
//!
//! The calls are made in a process of their own: this program is started anew for one test, with the plan in an
//! environment variable.
#![allow(unsafe_code, reason = "system calls that no sound program makes here")]

use std::io;
use std::process::{Command, Output};
use std::ptr;
use std::thread;
use stile_jail::{EXIT_CODE, Jail, Kind, Place, narrow};

/// The variable with the plan of a child: a kind of thread and the name of a call.
const PLAN: &str = "STILE_PLANTED";
/// The test that carries out a plan.
const CHILD: &str = "a_planted_call";

/// Each kind, with the name of a thread.
const KINDS: [(&str, Kind); Kind::ALL.len()] = [
    ("pcpu 0", Kind::Carrier),
    ("dev web", Kind::Device),
    ("dev socket", Kind::DeviceWithSockets),
    ("consoles", Kind::Output),
    ("control", Kind::Control),
    ("api", Kind::Api),
    ("api work", Kind::Node),
];

/// The kinds that may make unix sockets.
const WITH_SOCKETS: [&str; 2] = ["dev socket", "api work"];

/// Runs the plan in a process of its own.
fn run(thread: &str, call: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = Command::new(program);
    command.args([CHILD, "--exact", "--nocapture", "--test-threads=1"]).env(PLAN, format!("{thread}/{call}"));
    let Output { status, stderr, .. } = command.output().expect("this program can be started again");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Carries out the plan, if this process has one.
#[test]
fn a_planted_call() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let (thread, call) = plan.split_once('/').expect("a plan has two parts");
    let sockets = WITH_SOCKETS.contains(&thread);
    let without_terminal = call == "request";
    let missing = Jail { sockets, without_terminal, ..Jail::default() }.enter().expect("the kernel takes the jail");
    eprintln!("missing: {missing:?}");
    let kind = KINDS.iter().find(|(name, _)| *name == thread).map(|(_, kind)| *kind);
    let call = call.to_owned();
    let act = move || {
        kind.into_iter().for_each(narrow);
        eprintln!("{call}: {}", make(&call));
    };
    // A test of the harness has its own name, so that the process's own list is tried on a thread without a kind.
    thread::Builder::new()
        .name(thread.to_owned())
        .spawn(act)
        .expect("threads may be started")
        .join()
        .expect("no panic");
}

/// Makes a call with arguments that do no harm. Returns the outcome.
fn make(call: &str) -> String {
    let null = ptr::null::<libc::c_void>();
    // SAFETY: the kernel refuses each of these calls or does nothing that concerns memory: addresses are null or of
    // strings that outlive the call.
    let result = unsafe {
        match call {
            "ptrace" => libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, null, null),
            "execve" => libc::syscall(libc::SYS_execve, c"/bin/true".as_ptr(), null, null),
            "socket" => libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0),
            "unix socket" => libc::syscall(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0),
            "fork" => libc::syscall(libc::SYS_clone, libc::SIGCHLD, null, null, null, null),
            "executable memory" => {
                let (access, kind) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                libc::syscall(libc::SYS_mmap, null, 4096, access, kind, -1, 0)
            }
            "writing open" => libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/dev/null".as_ptr(), libc::O_RDWR),
            "thread" => return thread::Builder::new().spawn(|| ()).map_or_else(|e| e.to_string(), |_| "done".into()),
            "time" => libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, null),
            "terminal" => libc::syscall(libc::SYS_ioctl, 0, libc::TIOCSTI, c"x".as_ptr()),
            "request" => libc::syscall(libc::SYS_ioctl, 0, libc::FIOCLEX, null),
            other => return format!("unknown: {other}"),
        }
    };
    if result < 0 { io::Error::last_os_error().to_string() } else { "done".to_owned() }
}

/// The process ends at this call, and says the name of the call and of the thread.
#[track_caller]
fn refused(thread: &str, call: &str, name: &str) {
    let (code, told) = run(thread, call);
    assert_eq!(code, Some(EXIT_CODE), "{thread}, {call}: {told}");
    let expected = format!("error: the jail refused a system call of thread `{thread}`: {name} (number ");
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn ptrace_execve_and_sockets_of_networks_are_refused_on_each_kind_of_thread() {
    for (thread, _) in KINDS {
        for call in ["ptrace", "execve", "socket"] {
            refused(thread, call, call);
        }
    }
}

#[test]
fn a_thread_without_a_kind_is_bound_by_the_list_of_the_process() {
    for call in ["ptrace", "execve", "socket"] {
        refused("helper", call, call);
    }
}

#[test]
fn unix_sockets_are_for_devices_that_connect_with_them_and_for_who_starts_these_on_a_node() {
    for (thread, _) in KINDS.into_iter().filter(|(thread, _)| !WITH_SOCKETS.contains(thread)) {
        refused(thread, "unix socket", "socket");
    }
    for thread in WITH_SOCKETS {
        let (code, told) = run(thread, "unix socket");
        assert!(code == Some(0) && told.contains("unix socket: done"), "{told}");
    }
}

#[test]
fn new_processes_and_executable_memory_are_refused() {
    for (thread, _) in KINDS {
        refused(thread, "fork", "clone");
        refused(thread, "executable memory", "mmap");
    }
}

#[test]
fn threads_that_open_no_files_to_write_are_refused_that() {
    for (thread, _) in KINDS.into_iter().filter(|(thread, _)| !["control", "api work"].contains(thread)) {
        refused(thread, "writing open", "openat");
    }
}

#[test]
fn keys_cannot_be_typed_into_the_terminal() {
    for (thread, _) in KINDS.into_iter().filter(|(thread, _)| !["control", "api work"].contains(thread)) {
        refused(thread, "terminal", "ioctl");
    }
}

#[test]
fn threads_that_run_vcpus_make_any_request_where_no_terminal_takes_keys() {
    let (code, told) = run("pcpu 0", "request");
    assert!(code == Some(0) && told.contains("request: done"), "{told}");
    for thread in ["dev web", "dev socket", "consoles", "api"] {
        refused(thread, "request", "ioctl");
    }
}

#[test]
fn permitted_calls_go_on_and_threads_can_be_started_where_domains_do_so() {
    for (thread, _) in KINDS {
        let (code, told) = run(thread, "time");
        assert!(code == Some(0) && told.contains("time: "), "{thread}: {told}");
    }
    for thread in ["pcpu 0", "control", "api", "api work", "helper"] {
        let (code, told) = run(thread, "thread");
        assert!(code == Some(0) && told.contains("thread: done"), "{thread}: {told}");
    }
}

/// The plan of a child whose jail has places.
const FILES: &str = "STILE_FILES";

#[test]
fn a_child_that_opens_files() {
    let Ok(folder) = std::env::var(FILES) else { return };
    let of = |name: &str| std::path::Path::new(&folder).join(name);
    let places = vec![Place::Read(of("read")), Place::Write(of("written")), Place::Folder(of("report"))];
    let missing = Jail { places, ..Jail::default() }.enter().expect("the kernel takes the jail");
    eprintln!("missing: {missing:?};");
    let tell = |what: &str, done: io::Result<()>| match done {
        Ok(()) => eprintln!("{what}: done;"),
        Err(error) => eprintln!("{what}: {:?};", error.kind()),
    };
    tell("read", std::fs::read(of("read")).map(drop));
    tell("write what is read", std::fs::write(of("read"), "x"));
    tell("write", std::fs::write(of("written"), "x"));
    tell("read another", std::fs::read(of("other")).map(drop));
    tell("make a file", std::fs::write(of("new"), "x"));
    tell("make a report", std::fs::create_dir(of("report/raw")).and_then(|()| std::fs::write(of("report/raw/x"), "x")));
    tell("replace a report", std::fs::rename(of("report/raw/x"), of("report/raw/y")));
    tell("read own figures", std::fs::read("/proc/thread-self/schedstat").map(drop));
    tell("read passwords", std::fs::read("/etc/passwd").map(drop));
}

#[test]
fn files_that_are_not_named_cannot_be_opened() {
    let folder = tempfile::tempdir().expect("a test may write temporary files");
    for name in ["read", "written", "other"] {
        std::fs::write(folder.path().join(name), "text").expect("as above");
    }
    std::fs::create_dir(folder.path().join("report")).expect("as above");
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command.args(["a_child_that_opens_files", "--exact", "--nocapture"]).env(FILES, folder.path());
    let Output { status, stderr, .. } = command.output().expect("this program can be started again");
    let told = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{told}");
    if told.contains("missing: [Landlock]") {
        eprintln!("SKIPPED: this kernel has no Landlock");
        return;
    }
    let done = ["read", "write", "make a report", "replace a report", "read own figures"];
    let denied = ["write what is read", "read another", "make a file", "read passwords"];
    for what in done {
        assert!(told.contains(&format!("\n{what}: done;")), "{what}: {told}");
    }
    for what in denied {
        assert!(told.contains(&format!("\n{what}: PermissionDenied;")), "{what}: {told}");
    }
}

/// The plan of a child that tells what its threads have left.
const RIGHTS: &str = "STILE_RIGHTS";

#[test]
fn a_child_that_tells_its_rights() {
    if std::env::var(RIGHTS).is_err() {
        return;
    }
    Jail { descriptors: Some(100), ..Jail::default() }.enter().expect("the kernel takes the jail");
    assert!(matches!(Jail::default().enter(), Err(stile_jail::JailError::Twice)));
    for (name, kind) in KINDS {
        let tell = move || {
            narrow(kind);
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc may be read");
            let line = |key: &str| status.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
            let keys = ["NoNewPrivs:", "Seccomp:", "CapEff:", "CapPrm:"].map(|key| line(key).replace('\t', ""));
            eprintln!("{name}: {};", keys.join(" "));
        };
        thread::Builder::new().name(name.into()).spawn(tell).expect("threads may be started").join().expect("no panic");
    }
    let limits = std::fs::read_to_string("/proc/self/limits").expect("/proc may be read");
    let limits = limits.lines().filter(|line| line.contains("open files") || line.contains("core file"));
    limits.for_each(|line| eprintln!("{};", line.split_whitespace().collect::<Vec<_>>().join(" ")));
    // SAFETY: it reads a flag of the process.
    eprintln!("dumpable: {};", unsafe { libc::prctl(libc::PR_GET_DUMPABLE) });
}

#[test]
fn threads_keep_no_capability_but_those_of_scheduling_where_they_need_them() {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command.args(["a_child_that_tells_its_rights", "--exact", "--nocapture"]).env(RIGHTS, "1");
    let Output { stderr, .. } = command.output().expect("this program can be started again");
    let told = String::from_utf8_lossy(&stderr);
    for (name, kind) in KINDS {
        let line = told.lines().find(|line| line.starts_with(&format!("{name}: "))).unwrap_or_default();
        assert!(line.contains("NoNewPrivs:1") && line.contains("Seccomp:2"), "{told}");
        if !matches!(kind, Kind::Carrier | Kind::Control | Kind::Node) {
            assert!(line.contains("CapEff:0000000000000000 CapPrm:0000000000000000"), "{told}");
        }
    }
    assert!(told.contains("Max core file size 0 0 bytes;"), "{told}");
    assert!(told.contains("Max open files 100 100 files;"), "{told}");
    assert!(told.contains("dumpable: 0;"), "{told}");
}
