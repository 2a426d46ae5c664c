//! The image `builtin:volano`.
#![cfg_attr(feature = "guest", no_std, no_main)]

stile_workloads::image!(stile_workloads::volano::main);
