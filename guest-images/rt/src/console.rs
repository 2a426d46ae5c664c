//! Text to the monitor: line-buffered through the console doorbell, or byte by byte through the serial port.

use crate::{Cpu, doorbell};
use core::fmt::{self, Write};

/// Text gathered and printed with one doorbell per line (or per full buffer): an exit costs microseconds.
#[derive(Debug)]
pub struct Console {
    cpu: Cpu,
    buffer: [u8; 256],
    used: usize,
}

impl Console {
    /// A console of this vCPU.
    pub fn new(cpu: Cpu) -> Self {
        Self { cpu, buffer: [0; 256], used: 0 }
    }

    /// Prints what is gathered.
    pub fn flush(&mut self) {
        if self.used > 0 {
            doorbell::console(self.cpu, &self.buffer[..self.used]);
            self.used = 0;
        }
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            self.buffer[self.used] = byte;
            self.used += 1;
            if byte == b'\n' || self.used == self.buffer.len() {
                self.flush();
            }
        }
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Text to the serial port.
#[derive(Debug)]
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(doorbell::serial);
        Ok(())
    }
}
