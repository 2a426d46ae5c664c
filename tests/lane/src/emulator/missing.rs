//! What an emulator needs and the host does not have.

/// The emulator, or a program that makes what it boots, is not installed.
#[derive(Debug, thiserror::Error)]
#[error("there is no program {program}; `apt-get install --no-install-recommends {packages}` brings it")]
pub(crate) struct Missing {
    pub(super) program: &'static str,
    pub(super) packages: &'static str,
}
