//! `stile guest`: lists images, and makes the kernel and the initramfs of Linux guests.

use super::args::{GuestCommand, GuestImage};
use super::failure::Failure;
use super::output;
use std::path::Path;
use stile_linux_images::guest::{self, Built, Image};
use stile_linux_images::{Archive, Cache, ImageError, ImageKind, digest};
use tracing::info;

pub(super) fn guest(command: &GuestCommand) -> Result<(), Failure> {
    let cache = Cache::of_user().map_err(Failure::run)?;
    match command {
        GuestCommand::Build { guest: GuestImage::Linux, out } => build(ImageKind::Usual, &cache, out.as_deref()),
        GuestCommand::Build { guest: GuestImage::LinuxLarge, out } => build(ImageKind::Large, &cache, out.as_deref()),
        GuestCommand::List => list(&cache),
    }
}

fn build(kind: ImageKind, cache: &Cache, out: Option<&Path>) -> Result<(), Failure> {
    let folder = out.map_or_else(|| kind.folder(cache), Path::to_owned);
    let Built { image, made } = guest::build(kind, &Archive::of_machine(), cache, &folder, &mut |what| info!("{what}"))
        .map_err(Failure::run)?;
    match made {
        true => info!("made of the packages"),
        false => info!("reused, for nothing it is made of has changed: the packages"),
    }
    image.packages().iter().for_each(|package| info!("  {package}"));
    tell(&image)
}

fn list(cache: &Cache) -> Result<(), Failure> {
    output::line(format_args!("# {}", built_in()))?;
    ImageKind::ALL.into_iter().try_for_each(|kind| match Image::open(&kind.folder(cache)) {
        Ok(image) => tell(&image),
        Err(ImageError::None { .. }) => {
            let name = kind.name();
            output::line(format_args!("# No guest {name}; `stile guest build {name}` makes one"))
        }
        Err(error) => output::line(format_args!("# Guest {} is not used: {error}", kind.name())),
    })
}

/// The names of the built-in images, and how a configuration names them.
pub(super) fn built_in() -> String {
    format!("Built-in images, as image = \"builtin:NAME\": {}", stile_guest_images::names().join(", "))
}

/// Prints the lines that a configuration file needs for this image.
fn tell(image: &Image) -> Result<(), Failure> {
    output::line(format_args!("# Linux {}", image.release()))?;
    for (key, path) in [("kernel", image.kernel()), ("initrd", image.initramfs())] {
        let digest = digest::of_file(&path).map_err(Failure::run)?;
        output::line(format_args!("{key} = \"{}\"  # SHA-256 {}", path.display(), &digest[..16]))?;
    }
    Ok(())
}
