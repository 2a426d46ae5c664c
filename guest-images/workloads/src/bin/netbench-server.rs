//! The image `builtin:netbench-server`.
#![cfg_attr(feature = "guest", no_std, no_main)]

stile_workloads::image!(stile_workloads::netbench_server::main);
