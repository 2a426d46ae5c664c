//! guest-images/workloads
