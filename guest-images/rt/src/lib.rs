//! guest-images/rt
