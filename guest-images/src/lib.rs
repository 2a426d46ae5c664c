//! guest-images
