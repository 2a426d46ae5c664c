//! The built-in guest images: static ELF programs, which the build of this crate makes from `rt` and `workloads`; and
//! the first process of Linux guests, made from `linux/init`; and a guest at CPL 0, made from `ring0`.

/// Name and ELF bytes of every image, sorted by name.
static CATALOGUE: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// The ELF bytes of the first process of Linux guests.
pub static LINUX_INIT: &[u8] = include!(concat!(env!("OUT_DIR"), "/init.rs"));

/// The ELF bytes of a guest at CPL 0 that tests its interrupt controllers.
pub static RING0: &[u8] = include!(concat!(env!("OUT_DIR"), "/ring0.rs"));

/// The names that `builtin:NAME` accepts, sorted.
pub fn names() -> Vec<&'static str> {
    CATALOGUE.iter().map(|(name, _)| *name).collect()
}

/// The ELF bytes of an image.
pub fn image(name: &str) -> Option<&'static [u8]> {
    CATALOGUE.iter().find(|(n, _)| *n == name).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_is_an_elf_program() {
        assert!(LINUX_INIT.starts_with(b"\x7fELF") && RING0.starts_with(b"\x7fELF"));
    }

    #[test]
    fn every_name_has_an_elf_image() {
        assert!(names().contains(&"hello"));
        for name in names() {
            assert!(image(name).is_some_and(|bytes| bytes.starts_with(b"\x7fELF")), "{name}");
        }
        assert_eq!(image("no-such-image"), None);
    }
}
