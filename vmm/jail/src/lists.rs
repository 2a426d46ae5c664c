//! The system calls of each kind of thread.
//!
//! The lists were made by reading the code and by watching it with strace(1), built for glibc on x86-64. What only an
//! error's way needs is in them as well: printing a panic, with a backtrace if the user has asked for one, and ending.
//!
//! No list has execve, ptrace, a new process, a socket of a network, module, mount or namespace. Mappings cannot be
//! made executable.

use crate::kind::Kind;
use crate::list::{Argument, List};
use libc as c;

/// KVM's requests are of this type, of those of perf_event_open(2) of that (`_IOC_TYPE`).
const KVM_TYPE: u64 = 0xae;
const PERF_TYPE: u64 = 0x24;
/// What a request's number has in these bits is its type.
const TYPE_MASK: u64 = 0xff00;
/// termios with speeds as numbers (asm-generic/ioctls.h): TCGETS2 and TCSETS2.
const TCGETS2: i64 = 0x802c_542a;
const TCSETS2: i64 = 0x402c_542b;
/// prctl(2): the C library reads the auxiliary vector, and names mappings.
const PR_GET_AUXV: i64 = 0x4155_5856;
const PR_SET_VMA: i64 = 0x5356_4d41;
/// fcntl(2): the signal and the receiver of a descriptor.
const F_SETSIG: i64 = 10;
const F_SETOWN_EX: i64 = 15;
/// Flags of a thread of this process.
const THREAD: i32 = c::CLONE_VM | c::CLONE_SIGHAND | c::CLONE_THREAD;
/// What opening a file must not do where files are only read.
const WRITING: i32 = c::O_ACCMODE | c::O_CREAT | c::O_TRUNC;

/// The list of a kind of thread, of a process with or without a terminal that takes keys.
pub(crate) fn of(kind: Kind, without_terminal: bool) -> List {
    match kind {
        Kind::Carrier => carrier(without_terminal),
        Kind::Device => device(),
        Kind::DeviceWithSockets => with_sockets(device()),
        Kind::Output => output(),
        Kind::Control => control(),
        Kind::Api => api(),
        Kind::Node => with_listeners(control()),
    }
}

/// The list of the whole process: all kinds of threads start under it.
pub(crate) fn of_process(sockets: bool, children: bool) -> List {
    let mut list = control();
    if sockets {
        list = with_listeners(list);
    }
    if children {
        list = list.with(&[c::SYS_kill, c::SYS_wait4, c::SYS_waitid]);
    }
    list
}

/// Calls that fail instead of ending the process, in the threads whose list has them. The C library starts threads with
/// clone3(2), whose flags are behind an address, and takes clone(2) if there is no clone3.
pub(crate) fn absent() -> List {
    List::default().with(&[c::SYS_clone3])
}

/// What every thread needs: memory, locks, clocks, its own end, messages, and reading files.
fn common() -> List {
    List::default()
        .with(&[c::SYS_brk, c::SYS_madvise, c::SYS_mremap, c::SYS_munmap])
        .with_only(c::SYS_mmap, &[Argument::lacks(2, c::PROT_EXEC)])
        .with_only(c::SYS_mprotect, &[Argument::lacks(2, c::PROT_EXEC)])
        .with(&[c::SYS_futex, c::SYS_sched_yield, c::SYS_restart_syscall, c::SYS_getrandom])
        .with(&[c::SYS_clock_gettime, c::SYS_clock_getres, c::SYS_clock_nanosleep, c::SYS_nanosleep])
        .with(&[c::SYS_gettid, c::SYS_getpid, c::SYS_sched_getaffinity, c::SYS_getcpu, c::SYS_gettimeofday])
        .with(&[c::SYS_rseq, c::SYS_set_robust_list, c::SYS_sigaltstack, c::SYS_exit, c::SYS_exit_group])
        .with(&[c::SYS_rt_sigprocmask, c::SYS_rt_sigreturn, c::SYS_rt_sigaction, c::SYS_tgkill])
        .with(&[c::SYS_read, c::SYS_readv, c::SYS_write, c::SYS_writev, c::SYS_close, c::SYS_lseek])
        .with(&[c::SYS_fstat, c::SYS_newfstatat, c::SYS_statx, c::SYS_readlink, c::SYS_readlinkat, c::SYS_getcwd])
        .with(&[c::SYS_poll, c::SYS_ppoll])
        .with_only(c::SYS_openat, &[Argument::lacks(2, WRITING)])
        .with_only(c::SYS_open, &[Argument::lacks(1, WRITING)])
        .with_only(c::SYS_prlimit64, &[Argument::is_null(2)])
        .with_only(c::SYS_fcntl, &[Argument::is(1, c::F_GETFD as i64), Argument::is(1, c::F_GETFL as i64)])
        .with_only(c::SYS_ioctl, &terminal())
        .with_only(c::SYS_prctl, &threads_own())
        .with(&[c::SYS_seccomp, c::SYS_capget, c::SYS_capset])
}

/// A run that ends gives the terminal back as it was, and asks for its size.
fn terminal() -> [Argument; 5] {
    [c::TCGETS as i64, c::TCSETS as i64, TCGETS2, TCSETS2, c::TIOCGWINSZ as i64].map(|request| Argument::is(1, request))
}

/// A thread's name and timers, what narrows its rights further, and flags that are read.
fn threads_own() -> [Argument; 7] {
    let usual = [c::PR_SET_NAME, c::PR_GET_NAME, c::PR_SET_TIMERSLACK, c::PR_SET_NO_NEW_PRIVS, c::PR_GET_DUMPABLE];
    let [name, its_name, slack, privileges, dumpable] = usual.map(|option| Argument::is(0, option.into()));
    let [auxiliary, mapping] = [PR_GET_AUXV, PR_SET_VMA].map(|option| Argument::is(0, option));
    [name, its_name, slack, privileges, dumpable, auxiliary, mapping]
}

/// To wake vCPUs: a domain may move their threads to a pCPU, and the woken thread's timer may be set.
fn waking(list: List) -> List {
    list.with(&[c::SYS_sched_setaffinity, c::SYS_timer_settime])
}

fn of_type(number: u64) -> Argument {
    Argument { index: 1, mask: TYPE_MASK, value: number << 8 }
}

fn carrier(without_terminal: bool) -> List {
    let list = waking(common());
    // The kernel remembers that a call is permitted whatever its arguments. To compare those of each KVM_RUN costs more
    // than all else that a jail does.
    let list = if without_terminal {
        list.with(&[c::SYS_ioctl])
    } else {
        list.with_only(c::SYS_ioctl, &[of_type(KVM_TYPE), of_type(PERF_TYPE)])
    };
    list.with(&carrier_only())
        .with_only(c::SYS_fcntl, &[c::F_SETFL as i64, F_SETSIG, F_SETOWN_EX].map(|command| Argument::is(1, command)))
        .with_only(c::SYS_clone, &[Argument::has(0, THREAD)])
        .with(&[c::SYS_clone3])
        // The last owner of a VM's socket removes its path.
        .with(&[c::SYS_unlink])
}

fn device() -> List {
    waking(common())
        .with(&[c::SYS_epoll_wait, c::SYS_epoll_pwait, c::SYS_epoll_ctl])
        .with(&[c::SYS_pread64, c::SYS_pwrite64, c::SYS_preadv, c::SYS_pwritev])
        .with(&[c::SYS_fdatasync, c::SYS_fsync, c::SYS_fallocate])
        // Of a connection that was made for the guest beforehand.
        .with(&[c::SYS_recvfrom, c::SYS_sendto, c::SYS_recvmsg, c::SYS_sendmsg, c::SYS_shutdown])
        .with_only(c::SYS_ioctl, &[of_type(KVM_TYPE), Argument::is(1, c::FIONBIO as i64)])
        .with(&[c::SYS_unlink])
}

/// Unix sockets to connect with. A listener is made by the thread that starts the VM.
fn with_sockets(list: List) -> List {
    list.with(&[c::SYS_accept4, c::SYS_connect, c::SYS_getsockopt, c::SYS_getsockname, c::SYS_getpeername])
        .with_only(c::SYS_socket, &[Argument::is(0, c::AF_UNIX as i64)])
}

/// Unix sockets to connect with and to listen on. The threads that are started are under the list as well.
fn with_listeners(list: List) -> List {
    with_sockets(list).with(&[c::SYS_bind, c::SYS_listen, c::SYS_setsockopt])
}

fn output() -> List {
    common().with(&[c::SYS_fsync, c::SYS_fdatasync, c::SYS_ftruncate])
}

fn control() -> List {
    device()
        .with(&carrier_only())
        .with_only(c::SYS_clone, &[Argument::has(0, THREAD)])
        .with(&[c::SYS_clone3])
        .with(&[c::SYS_openat, c::SYS_open, c::SYS_access, c::SYS_faccessat, c::SYS_faccessat2, c::SYS_getdents64])
        .with(&[c::SYS_stat, c::SYS_lstat, c::SYS_statfs, c::SYS_fstatfs, c::SYS_flock, c::SYS_fadvise64])
        .with(&[c::SYS_mkdir, c::SYS_mkdirat, c::SYS_rmdir, c::SYS_rename, c::SYS_renameat, c::SYS_renameat2])
        .with(&[
            c::SYS_unlinkat,
            c::SYS_chmod,
            c::SYS_fchmod,
            c::SYS_ftruncate,
            c::SYS_copy_file_range,
            c::SYS_sendfile,
        ])
        .with(&[c::SYS_ioctl, c::SYS_fcntl, c::SYS_eventfd2, c::SYS_epoll_create1, c::SYS_pipe2, c::SYS_dup])
        // Between an agent and its guest.
        .with_only(c::SYS_socketpair, &[Argument::is(0, c::AF_UNIX as i64)])
        .with(&[c::SYS_uname, c::SYS_sysinfo, c::SYS_getrusage, c::SYS_times])
        .with(&[c::SYS_getuid, c::SYS_geteuid, c::SYS_getgid, c::SYS_getegid, c::SYS_getppid])
        .with(&[c::SYS_sched_getscheduler, c::SYS_sched_getparam, c::SYS_getpriority])
        .with(&[c::SYS_membarrier, c::SYS_mincore, c::SYS_mlock, c::SYS_munlock, c::SYS_sync_file_range])
}

/// Connections are taken on sockets that were made before, and threads are made for what may wait.
fn api() -> List {
    common()
        .with(&[c::SYS_epoll_wait, c::SYS_epoll_pwait, c::SYS_epoll_ctl])
        .with(&[c::SYS_accept4, c::SYS_recvfrom, c::SYS_sendto, c::SYS_recvmsg, c::SYS_sendmsg, c::SYS_shutdown])
        .with(&[c::SYS_getsockopt, c::SYS_setsockopt, c::SYS_getsockname, c::SYS_getpeername])
        .with_only(c::SYS_clone, &[Argument::has(0, THREAD)])
        .with(&[c::SYS_clone3])
}

/// What carriers need and devices do not. The first thread, which starts carriers, must have it as well.
fn carrier_only() -> [i64; 7] {
    [
        c::SYS_rt_sigtimedwait,
        c::SYS_rt_sigpending,
        c::SYS_timer_create,
        c::SYS_timer_delete,
        c::SYS_sched_setscheduler,
        c::SYS_setpriority,
        c::SYS_perf_event_open,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists of all kinds, with and without a terminal.
    fn all() -> impl Iterator<Item = List> {
        [false, true].into_iter().flat_map(|without| Kind::ALL.map(|kind| of(kind, without)))
    }

    #[test]
    fn the_list_of_the_process_has_all_calls_of_all_kinds() {
        let process = of_process(true, true);
        for kind in Kind::ALL {
            for call in of(kind, false).calls().chain(of(kind, true).calls()) {
                assert!(process.names(call), "{kind:?}: {call}");
            }
        }
    }

    #[test]
    fn no_list_has_a_call_that_leads_out() {
        let out = [c::SYS_execve, c::SYS_execveat, c::SYS_ptrace, c::SYS_fork, c::SYS_vfork];
        let more = [c::SYS_process_vm_writev, c::SYS_mount, c::SYS_unshare, c::SYS_setns, c::SYS_bpf, c::SYS_keyctl];
        let also = [c::SYS_init_module, c::SYS_io_uring_setup, c::SYS_userfaultfd, c::SYS_pkey_mprotect];
        for list in all().chain([of_process(false, false), of_process(true, true)]) {
            assert!(out.iter().chain(&more).chain(&also).all(|call| !list.names(*call)));
        }
        assert!(!of(Kind::Control, false).names(c::SYS_socket) && !of_process(false, true).names(c::SYS_socket));
    }

    #[test]
    fn all_lists_make_programs() {
        for list in all() {
            assert!(list.clone().trapping().is_ok_and(|program| !program.is_empty()), "{list:?}");
        }
        assert!(of_process(true, true).trapping().is_ok() && absent().failing(c::ENOSYS).is_ok());
    }
}
