//! The image `builtin:hackbench`.
#![cfg_attr(feature = "guest", no_std, no_main)]

stile_workloads::image!(stile_workloads::hackbench::main);
