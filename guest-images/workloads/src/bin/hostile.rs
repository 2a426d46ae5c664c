//! The image `builtin:hostile`.
#![cfg_attr(feature = "guest", no_std, no_main)]

stile_workloads::image!(stile_workloads::hostile::main);
