//! The built-in workloads, one module each; `src/bin` names the image each becomes.
//!
//! A workload counts in its vCPU's gauge and runs until the monitor ends the VM, or until its work is done. Parameters
//! come from the command line; every vCPU reads them for itself.
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `loops_per_us` | work loop iterations in a microsecond, from the monitor | 1000 |
//! | `hold_ns`, `gap_ns` | work with the lock held, and between | 2000, 5000 |
//! | `spins` | PAUSEs before a yield | 200 |
//! | `hint` | `full`, `none`: whether yields say what they wait for; `silent`: no yields | `full` |
//! | `period_us`, `work_us` | probe: time between wakes, work at each | 5000, 200 |
//! | `period_us`, `work_us` | frames: time between jobs, work of each | 20000, 1000 |
//! | `waits`, `wait_us` | frames: pieces of a job, and the wait for a device after each | 0, 0 |
//! | `burst`, `rest` | frames, terminal: periods with a job, and without, in turn | 1, 0 |
//! | `period_us`, `work_us` | terminal: time between keys, work of both vCPUs for each | 20000, 500 |
//! | `buffer_mb` | memload: what is copied | 16 |
//! | `touch_kb`, `work_us` | script: memory it fills, work | 128, 200 |
//! | `strategy` | theft: `tick`, `slice`, `boost`, `yields`: when it stops | `tick` |
//! | `tick_us`, `slice_us` | theft: the tick that it dodges, how long it works in a slice | 10000, 5500 |
//! | `burst_us`, `rest_us` | theft: how long it works in a burst, how long it sleeps | 200, 100 |
//! | `jobs`, `cached`, `io_us` | make: compilations, percent of them cached, each wait for the disk | 64, 0, 2000 |
//! | `net.ip` | netbench: own address, `10.0.0.1/16` | none |
//! | `server` | netbench-client: its server's address | none |
//! | `seed` | netbench-client: which sequence of operations | 1 |
//! | `loops`, `messages` | hackbench, volano: messages of each sender to each receiver; of each user | 100 |
//! | `corrupt` | hackbench, volano: 1 damages one message, for tests | 0 |
//! | `mode` | hostile: an attack, or `random` | `random` |
//! | `seed`, `peers` | hostile: which sequence; ports 1 to this one are attacked | 1, 8 |
//! | `gate` | hostile: `open` if the monitor has opened the gate | closed |
//! | `roles` | mix: `pair:2,locker:4,hog:4`, in vCPU order | half lockers, half hogs |
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod assembly;
pub mod deadline;
pub mod doorbell;
pub mod frames;
pub mod hackbench;
pub mod hello;
pub mod hog;
pub mod hostile;
pub mod idle;
pub mod make;
pub mod memload;
pub mod message;
pub mod mix;
pub mod netbench;
pub mod netbench_client;
pub mod netbench_server;
pub mod params;
pub mod pingpong;
pub mod probe;
pub mod script;
pub mod tbench;
pub mod terminal;
pub mod theft;
pub mod ticket;
pub mod volano;

/// Makes a binary of a workload: the guest's entry point, or an empty host program when not built as a guest.
#[macro_export]
macro_rules! image {
    ($main:path) => {
        #[cfg(feature = "guest")]
        stile_rt::entry!($main);

        #[cfg(not(feature = "guest"))]
        fn main() {
            let _: fn(stile_rt::Cpu) -> u32 = $main;
        }
    };
}
