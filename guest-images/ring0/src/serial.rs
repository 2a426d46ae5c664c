//! Text on the serial port.

use crate::cpu;
use core::fmt;

const PORT: u16 = 0x3f8;

/// The serial port.
pub(crate) struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| cpu::out(PORT, byte));
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($part:tt)*) => {{
        use core::fmt::Write as _;
        let _ = writeln!($crate::serial::Serial, $($part)*);
    }};
}
