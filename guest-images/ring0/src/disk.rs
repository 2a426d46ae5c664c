//! A driver of the first device, which is a disk (virtio 1.2, sections 4.2 and 5.2): it reads the first sector.

use crate::say;
use core::hint::spin_loop;
use core::sync::atomic::{Ordering::SeqCst, fence};

/// The first device's registers.
const REGISTERS: u64 = 0xd000_0000;
/// A page that nothing else uses. Whoever runs the guest writes there when the device is at work.
const GO: u64 = 0x4000;
const DRIVER_FEATURES: u64 = 0x20;
const DRIVER_FEATURES_SEL: u64 = 0x24;
const QUEUE_NUM: u64 = 0x38;
const QUEUE_READY: u64 = 0x44;
const QUEUE_NOTIFY: u64 = 0x50;
const STATUS: u64 = 0x70;
const QUEUE_DESC: u64 = 0x80;
const QUEUE_DRIVER: u64 = 0x90;
const QUEUE_DEVICE: u64 = 0xa0;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const QUEUE_SIZE: usize = 4;
/// No status that a device gives.
const UNANSWERED: u8 = 0xee;

#[repr(C, align(16))]
struct Descriptor {
    address: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

/// The queue and the one request.
#[repr(C, align(4096))]
struct Area {
    table: [Descriptor; QUEUE_SIZE],
    /// Flags, index, and the heads of chains.
    available: [u16; 2 + QUEUE_SIZE],
    /// Flags and index, and chains that came back.
    used: [u32; 1 + 2 * QUEUE_SIZE],
    /// A read of sector 0.
    header: [u64; 2],
    sector: [u8; 512],
    status: u8,
}

static mut AREA: Area = Area {
    table: [const { Descriptor { address: 0, bytes: 0, flags: 0, next: 0 } }; QUEUE_SIZE],
    available: [0; 2 + QUEUE_SIZE],
    used: [0; 1 + 2 * QUEUE_SIZE],
    header: [0; 2],
    sector: [0; 512],
    status: UNANSWERED,
};

fn write(register: u64, value: u32) {
    // SAFETY: the monitor has the device's registers there, and no memory.
    unsafe { ((REGISTERS + register) as *mut u32).write_volatile(value) }
}

/// Asks for the sector and waits for it, or resets the device in the meantime. Returns whether it was read.
pub(crate) fn read(resets: bool) -> bool {
    let area = &raw mut AREA;
    // The device is off until it has its queue.
    write(STATUS, 0);
    // SAFETY: only this vCPU runs. The device reads and writes the area from the notification on.
    unsafe {
        (&raw mut (*area).status).write_volatile(UNANSWERED);
        let parts = [
            ((&raw const (*area).header) as u64, 16, 0),
            ((&raw const (*area).sector) as u64, 512, WRITE),
            ((&raw const (*area).status) as u64, 1, WRITE),
        ];
        for (at, (address, bytes, flags)) in parts.into_iter().enumerate() {
            let (flags, next) = if at < 2 { (flags | NEXT, at as u16 + 1) } else { (flags, 0) };
            (&raw mut (*area).table[at]).write_volatile(Descriptor { address, bytes, flags, next });
        }
        (&raw mut (*area).available[1]).write_volatile(1);
    }
    fence(SeqCst);
    [1, 3].into_iter().for_each(|status| write(STATUS, status));
    write(DRIVER_FEATURES_SEL, 1);
    write(DRIVER_FEATURES, 1);
    write(STATUS, 11);
    write(QUEUE_NUM, QUEUE_SIZE as u32);
    // SAFETY: only addresses are taken.
    let places = unsafe { [(&raw const (*area).table) as u64, (&raw const (*area).available) as u64] };
    write(QUEUE_DESC, places[0] as u32);
    write(QUEUE_DRIVER, places[1] as u32);
    // SAFETY: as above.
    write(QUEUE_DEVICE, unsafe { (&raw const (*area).used) as u32 });
    write(QUEUE_READY, 1);
    write(STATUS, 15);
    write(QUEUE_NOTIFY, 0);
    say!("asks");
    if resets {
        // SAFETY: nothing else is there.
        while unsafe { (GO as *const u8).read_volatile() } == 0 {
            spin_loop();
        }
        write(STATUS, 0);
        say!("was reset");
        return true;
    }
    // SAFETY: the device writes the byte once.
    let status = || unsafe { (&raw const (*area).status).read_volatile() };
    while status() == UNANSWERED {
        spin_loop();
    }
    // SAFETY: the device is through with the sector.
    let first = unsafe { (&raw const (*area).sector[0]).read_volatile() };
    say!("status {}, first byte {first:#x}", status());
    status() == 0
}
