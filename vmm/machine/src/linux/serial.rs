//! The serial port of a Linux guest, a 16550. Its output goes to the VM's console. Its input may come from a user.
//!
//! Output is written on the vCPU's thread, byte by byte. Input is written by the thread that reads the user's terminal.
//! That thread waits until the guest has taken the earlier input.

use crate::devices::virtio::{Interrupt, Notify};
use crate::vm::console::Console;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vm_superio::serial::SerialEvents;
use vm_superio::{Serial, Trigger};

/// How long input waits for a guest that takes nothing, before `is_of_use` is asked whether to go on waiting.
const PATIENCE: Duration = Duration::from_millis(100);

/// The interrupt line.
struct Line(Arc<Interrupt>);

impl Trigger for Line {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        self.0.notify();
        Ok(())
    }
}

/// Tells the waiting writer that the guest has taken all input.
#[derive(Clone, Default)]
struct Taken(Arc<Condvar>);

impl SerialEvents for Taken {
    fn buffer_read(&self) {}
    fn out_byte(&self) {}
    fn tx_lost_byte(&self) {}

    fn in_buffer_empty(&self) {
        self.0.notify_all();
    }
}

/// The port.
pub struct SerialPort {
    port: Mutex<Serial<Line, Taken, Console>>,
    taken: Taken,
    interrupt: Arc<Interrupt>,
}

impl SerialPort {
    /// A port with its output on this console.
    pub fn new(console: Console) -> io::Result<Self> {
        let interrupt = Arc::new(Interrupt::new()?);
        let taken = Taken::default();
        let port = Serial::with_events(Line(Arc::clone(&interrupt)), taken.clone(), console);
        Ok(Self { port: Mutex::new(port), taken, interrupt })
    }

    /// How the port interrupts the guest.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Handles a write to a register.
    pub fn write(&self, register: u8, value: u8) {
        // The console drops what it cannot print.
        let _ = self.port().write(register, value);
    }

    /// Handles a read of a register.
    pub fn read(&self, register: u8) -> u8 {
        self.port().read(register)
    }

    /// Passes these bytes to the guest. Waits until the guest has taken the earlier input, as long as `is_of_use`
    /// returns true. Returns how many bytes were passed.
    pub fn receive(&self, mut bytes: &[u8], is_of_use: impl Fn() -> bool) -> usize {
        let (mut port, all) = (self.port(), bytes.len());
        while !bytes.is_empty() && is_of_use() {
            let room = port.fifo_capacity().min(bytes.len());
            // The port takes no input while the driver tests it in loopback. An error comes from the trigger, after the
            // input was taken.
            let taken = if room == 0 { 0 } else { port.enqueue_raw_bytes(&bytes[..room]).unwrap_or(room) };
            bytes = &bytes[taken..];
            if taken == 0 {
                port = self.taken.0.wait_timeout(port, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        all - bytes.len()
    }

    fn port(&self) -> MutexGuard<'_, Serial<Line, Taken, Console>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::vm::console::Sink;

    /// A port, and the text that it wrote.
    pub(in crate::linux) fn port() -> (SerialPort, Arc<Mutex<Vec<u8>>>) {
        let text = Arc::default();
        (SerialPort::new(Console::new("vm", Sink::Buffer(Arc::clone(&text)))).unwrap(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::port;
    use std::sync::atomic::{AtomicBool, Ordering};

    const DATA: u8 = 0;
    const ENABLE: u8 = 1;
    const STATUS: u8 = 5;
    const HAS_DATA: u8 = 1;

    #[test]
    fn what_is_typed_arrives_in_order_with_an_interrupt_for_who_wants_it() {
        let (port, _) = port();
        port.write(ENABLE, 1);
        port.receive(b"ls\n", || true);
        assert!(port.interrupt().event().read().is_ok());
        let read: Vec<u8> =
            std::iter::from_fn(|| (port.read(STATUS) & HAS_DATA != 0).then(|| port.read(DATA))).collect();
        assert_eq!(read, b"ls\n");
    }

    #[test]
    fn more_than_fits_waits_for_the_guest_and_none_is_lost() {
        let (port, _) = port();
        let sent: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let read = std::thread::scope(|scope| {
            scope.spawn(|| port.receive(&sent, || true));
            let mut read = Vec::new();
            while read.len() < sent.len() {
                if port.read(STATUS) & HAS_DATA != 0 {
                    read.push(port.read(DATA));
                }
            }
            read
        });
        assert_eq!(read, sent);
    }

    #[test]
    fn a_guest_that_takes_nothing_keeps_nobody_waiting_once_there_is_no_use() {
        let (port, _) = port();
        let of_use = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| port.receive(&[0; 1000], || of_use.load(Ordering::Relaxed)));
            of_use.store(false, Ordering::Relaxed);
        });
    }
}
