//! KVM on this host: opening it, the reasons for failure, and its capabilities.
//!
//! [`open_kvm`] is the one way to KVM. It succeeds only where guests can run. Each kind of failure has one sentence,
//! with a remedy. No VM is created here.

use std::io;

use kvm_bindings as kvm;
use kvm_ioctls::Kvm;
use serde::Serialize;

use super::cpu::CpuFacts;
use super::cpulist::CpuList;
use super::root::HostRoot;

/// The KVM API has had this version since Linux 2.6.22, and KVM's documentation asks to refuse every other.
const API_VERSION: i32 = 12;

/// Why no guest can run on this host. Shown as one sentence: the reason, then the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", self.reason(), self.remedy())]
pub enum KvmUnavailable {
    /// There is no `/dev/kvm`, or nothing behind it.
    NoDevice,
    /// `/dev/kvm` may not be opened by this user.
    Denied,
    /// `/dev/kvm` cannot be opened for some other reason.
    Open(#[source] io::Error),
    /// The device speaks another version of the protocol.
    ApiVersion(i32),
    /// KVM lacks the named capability, which every guest needs.
    Lacks(&'static str),
}

impl KvmUnavailable {
    /// The reason, in words.
    pub fn reason(&self) -> String {
        match self {
            Self::NoDevice => "this host has no KVM (/dev/kvm is missing)".to_owned(),
            Self::Denied => "/dev/kvm may not be opened for reading and writing".to_owned(),
            Self::Open(error) => format!("/dev/kvm cannot be opened ({error})"),
            Self::ApiVersion(version) => format!("/dev/kvm speaks version {version} of the KVM API, not {API_VERSION}"),
            Self::Lacks(capability) => format!("KVM of this kernel lacks {capability}, which every guest needs"),
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoDevice => {
                "load the module kvm_intel or kvm_amd; in a virtual machine, let its host enable nested virtualisation; in \
                 a container, pass the device /dev/kvm in"
            }
            Self::Denied => "add the user to the group that owns it (`sudo usermod -aG kvm $USER`, then log in again)",
            Self::Open(_) => "see the kernel log for the cause (`sudo dmesg | grep -i kvm`)",
            Self::ApiVersion(_) | Self::Lacks(_) => "use a newer Linux kernel",
        }
    }
}

/// What runs the guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Intel VMX.
    Vmx,
    /// AMD SVM.
    Svm,
    /// Software, on a host without hardware virtualisation.
    Pvm,
    /// KVM is there with vendor modules that are not known; their names.
    Unknown(Vec<String>),
    /// No KVM.
    Absent,
}

/// What stile does without a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: no guest runs.
    Required,
    /// It runs guests, without the feature that this text describes.
    Useful(&'static str),
}

/// A KVM capability that stile asks for.
#[derive(Debug, Clone, Copy)]
pub struct UsedCapability {
    /// Name in the kernel's headers.
    pub name: &'static str,
    /// What is lost without it.
    pub need: Need,
    number: u32,
}

/// Every KVM capability that stile asks for.
pub const CAPABILITIES: [UsedCapability; 8] = {
    const fn used(name: &'static str, number: u32, need: Need) -> UsedCapability {
        UsedCapability { name, need, number }
    }
    use Need::{Required, Useful};
    [
        used("KVM_CAP_USER_MEMORY", kvm::KVM_CAP_USER_MEMORY, Required),
        used("KVM_CAP_IMMEDIATE_EXIT", kvm::KVM_CAP_IMMEDIATE_EXIT, Required),
        used("KVM_CAP_MAX_VCPUS", kvm::KVM_CAP_MAX_VCPUS, Useful("the most vCPUs of a VM are not known beforehand")),
        used("KVM_CAP_NR_MEMSLOTS", kvm::KVM_CAP_NR_MEMSLOTS, Useful("the most memory slots are not known beforehand")),
        used(
            "KVM_CAP_MP_STATE",
            kvm::KVM_CAP_MP_STATE,
            Useful("a vCPU of a Linux guest that halts is not seen to do so, and keeps its pCPU"),
        ),
        used("KVM_CAP_SYNC_REGS", kvm::KVM_CAP_SYNC_REGS, Useful("looking whether a guest spins costs a call")),
        used("KVM_CAP_HALT_POLL", kvm::KVM_CAP_HALT_POLL, Useful("halt polling can only be set for the whole host")),
        used("KVM_CAP_GET_TSC_KHZ", kvm::KVM_CAP_GET_TSC_KHZ, Useful("the guests' clock has to be calibrated")),
    ]
};

/// A capability as this host's KVM answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Name in the kernel's headers.
    pub name: &'static str,
    /// What KVM answers: 0 is absent, 1 present; some answer with a number.
    pub value: i32,
}

impl Capability {
    /// Whether KVM has it.
    pub fn present(&self) -> bool {
        self.value > 0
    }
}

/// A [`KvmUnavailable`] as a fact, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// The reason.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

/// KVM on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KvmFacts {
    /// What carries the guests.
    pub backend: Backend,
    /// Why guests cannot run; `None`: they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
    /// Version of the API, if KVM could be opened.
    pub api_version: Option<i32>,
    /// How long KVM polls for an event after a vCPU has halted, before its thread sleeps (units: ns).
    pub halt_poll_ns: Option<u64>,
    /// The capabilities that stile uses; empty if KVM could not be opened.
    pub capabilities: Vec<Capability>,
}

impl KvmFacts {
    /// Reads the host at `root`. `opened` is the result of [`probe`].
    pub(super) fn read(root: &HostRoot, cpu: &CpuFacts, opened: Result<Vec<Capability>, KvmUnavailable>) -> Self {
        let (unavailable, capabilities) = match opened {
            Ok(capabilities) => (None, capabilities),
            Err(reason) => (Some(reason), Vec::new()),
        };
        let api_version = match &unavailable {
            None | Some(KvmUnavailable::Lacks(_)) => Some(API_VERSION),
            Some(KvmUnavailable::ApiVersion(version)) => Some(*version),
            Some(_) => None,
        };
        Self {
            backend: backend_of(root, cpu),
            unavailable: unavailable.map(|why| Unavailable { reason: why.reason(), remedy: why.remedy().to_owned() }),
            api_version,
            halt_poll_ns: root.value("/sys/module/kvm/parameters/halt_poll_ns"),
            capabilities,
        }
    }
}

/// Opens KVM, if guests can run on it.
pub fn open_kvm() -> Result<Kvm, KvmUnavailable> {
    let kvm = Kvm::new().map_err(|error| unavailable(error.into()))?;
    match kvm.get_api_version() {
        API_VERSION => {}
        other => return Err(KvmUnavailable::ApiVersion(other)),
    }
    lacking(&capabilities(&kvm)).map_or(Ok(kvm), |name| Err(KvmUnavailable::Lacks(name)))
}

/// Opens KVM and asks for its capabilities.
pub(super) fn probe() -> Result<Vec<Capability>, KvmUnavailable> {
    open_kvm().map(|kvm| capabilities(&kvm))
}

fn capabilities(kvm: &Kvm) -> Vec<Capability> {
    let ask = |used: &UsedCapability| kvm.check_extension_raw(used.number.into());
    CAPABILITIES.iter().map(|used| Capability { name: used.name, value: ask(used) }).collect()
}

/// The first required capability that is not there.
fn lacking(capabilities: &[Capability]) -> Option<&'static str> {
    let absent = |used: &&UsedCapability| !capabilities.iter().any(|found| found.name == used.name && found.present());
    CAPABILITIES.iter().filter(|used| used.need == Need::Required).find(absent).map(|used| used.name)
}

/// What an error at opening `/dev/kvm` means.
fn unavailable(error: io::Error) -> KvmUnavailable {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => KvmUnavailable::NoDevice,
        Some(libc::EACCES | libc::EPERM) => KvmUnavailable::Denied,
        _ => KvmUnavailable::Open(error),
    }
}

/// What runs guests on this host.
pub fn backend() -> Backend {
    let root = HostRoot::default();
    // Only the CPU's features matter here, not which CPUs may be used.
    backend_of(&root, &CpuFacts::read(&root, CpuList::default()))
}

/// Finds the vendor module that is at work. A module that is compiled in is listed on the other vendor's CPUs too,
/// where it does nothing; hence the flags.
fn backend_of(root: &HostRoot, cpu: &CpuFacts) -> Backend {
    let loaded = |module: &str| root.exists(&format!("/sys/module/{module}"));
    if loaded("kvm_intel") && cpu.has("vmx") {
        Backend::Vmx
    } else if loaded("kvm_amd") && cpu.has("svm") {
        Backend::Svm
    } else if loaded("kvm_pvm") {
        Backend::Pvm
    } else if loaded("kvm") {
        let vendor = root.names("/sys/module").into_iter().filter(|module| module.starts_with("kvm_"));
        Backend::Unknown(vendor.collect())
    } else {
        Backend::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    fn found_on(host: &FakeHost) -> Backend {
        let root = host.root();
        backend_of(&root, &CpuFacts::read(&root, "0-1".parse().unwrap()))
    }

    #[test]
    fn backend_is_told_from_module_and_cpu() {
        assert_eq!(found_on(&FakeHost::vmx()), Backend::Vmx);
        assert_eq!(found_on(&FakeHost::svm()), Backend::Svm);
        assert_eq!(found_on(&FakeHost::pvm()), Backend::Pvm);
        assert_eq!(found_on(&FakeHost::empty()), Backend::Absent);
    }

    #[test]
    fn module_of_the_other_vendor_is_not_the_backend() {
        let host = FakeHost::svm();
        host.directory("sys/module/kvm_intel");
        assert_eq!(found_on(&host), Backend::Svm);
    }

    #[test]
    fn unknown_vendor_module_is_named() {
        let host = FakeHost::empty();
        host.directory("sys/module/kvm");
        host.directory("sys/module/kvm_zhaoxin");
        assert_eq!(found_on(&host), Backend::Unknown(vec!["kvm_zhaoxin".to_owned()]));
    }

    #[test]
    fn each_error_at_opening_has_its_reason_and_remedy() {
        let told = |errno| unavailable(io::Error::from_raw_os_error(errno)).to_string();
        assert!(told(libc::ENOENT).contains("nested virtualisation"));
        assert!(told(libc::ENODEV).contains("kvm_intel or kvm_amd"));
        assert!(told(libc::EACCES).contains("usermod -aG kvm"));
        assert!(told(libc::EBUSY).contains("busy"));
        assert!(KvmUnavailable::ApiVersion(11).to_string().contains("version 11 of the KVM API, not 12"));
        for errno in [libc::ENOENT, libc::EACCES, libc::EBUSY] {
            assert!(!told(errno).contains('\n'), "one message, one line");
        }
    }

    #[test]
    fn required_capability_that_is_absent_is_named() {
        let mut found: Vec<_> = CAPABILITIES.iter().map(|used| Capability { name: used.name, value: 1 }).collect();
        assert_eq!(lacking(&found), None);
        found[1].value = 0;
        assert_eq!(lacking(&found), Some("KVM_CAP_IMMEDIATE_EXIT"));
        assert_eq!(lacking(&[]), Some("KVM_CAP_USER_MEMORY"));
    }
}
