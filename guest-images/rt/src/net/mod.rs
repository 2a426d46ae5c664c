//! TCP over virtio-net.
