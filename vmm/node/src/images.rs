//! The image that a VM boots, opened and checked before there is a VM.

use std::borrow::Cow;
use std::path::Path;
use stile_config::{GuestConfig, ImageRef, VmConfig};
use stile_host::Backend;
use stile_linux_images::{Cache, ImageError, checks};
use stile_machine::linux::{Payload, PayloadError};
use stile_machine::unikernel::image::Image;
use stile_machine::unikernel::layout::Layout;

/// The image that a VM boots.
pub enum Guest {
    /// A unikernel.
    Unikernel(Cow<'static, [u8]>),
    /// A Linux kernel with its initramfs and command line.
    Linux(Box<Payload>),
}

/// An image that its VM cannot boot.
#[derive(Debug, thiserror::Error)]
#[error("{wrong}")]
pub struct Unfit {
    /// The key of the VM that names the image.
    pub key: &'static str,
    /// What is wrong.
    pub wrong: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Guest {
    /// Opens the image of a VM and checks it, and the VM's memory against it.
    pub fn open(vm: &VmConfig) -> Result<Self, Unfit> {
        match vm.guest() {
            GuestConfig::Unikernel(image) => unikernel(vm, image).map(Self::Unikernel),
            GuestConfig::Linux { kernel, initrd } => {
                let initrd: Option<&Path> = initrd.map(AsRef::as_ref);
                let cache = Cache::of_user().ok();
                for (key, file) in [("kernel", Some(kernel.as_ref())), ("initrd", initrd)] {
                    let Some(file) = file else { continue };
                    let unfit = |e: ImageError| Unfit { key, wrong: e.to_string(), remedy: None };
                    checks::check_file(file, cache.as_ref()).map_err(unfit)?;
                }
                let opened = Payload::open(kernel.as_ref(), initrd, &vm.cmdline, vm.memory().bytes());
                let unfit = |e: PayloadError| Unfit { key: key_of(&e), wrong: e.to_string(), remedy: Some(e.remedy()) };
                opened.map(Box::new).map(Self::Linux).map_err(unfit)
            }
        }
    }
}

/// Why Linux guests do not run on this host, if they do not.
pub fn linux_unsuited() -> Option<&'static str> {
    (stile_host::backend() == Backend::Pvm).then_some(
        "Linux comes no further than its init on this host: its KVM is kvm_pvm, which runs guests without hardware \
         virtualisation and only carries programs at CPL 3",
    )
}

/// The key of a Linux guest that a mistake concerns.
fn key_of(error: &PayloadError) -> &'static str {
    match error {
        PayloadError::Kernel { .. } => "kernel",
        PayloadError::Initrd { .. } | PayloadError::TooLargeInitrd { .. } => "initrd",
        PayloadError::TooLittleMemory { .. } => "memory",
        PayloadError::TooLongCmdline { .. } | PayloadError::OddCmdline(_) => "cmdline",
    }
}

fn unikernel(vm: &VmConfig, image: &ImageRef) -> Result<Cow<'static, [u8]>, Unfit> {
    let unfit = |wrong: String| Unfit { key: "image", wrong, remedy: None };
    let bytes = match image {
        ImageRef::Builtin(name) => {
            Cow::Borrowed(stile_guest_images::image(name).expect("the configuration was checked for known names"))
        }
        ImageRef::Path(path) => {
            Cow::Owned(std::fs::read(path).map_err(|e| unfit(format!("cannot read image {}: {e}", path.display())))?)
        }
    };
    let parsed = Image::parse(&bytes).map_err(|e| unfit(format!("image {image}: {e}")))?;
    Layout::new(vm.memory().bytes(), vm.vcpus, parsed.end()).map_err(|e| {
        let remedy = Some("set `memory` to at least that".to_owned());
        Unfit { key: "memory", wrong: e.to_string(), remedy }
    })?;
    Ok(bytes)
}
