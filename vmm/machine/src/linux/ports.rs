//! I/O ports of a Linux guest: the serial port, power, and no others.
//!
//! Kernels look for hardware by reading ports. A port without hardware reads as all ones and ignores writes, as on a
//! PC.

use super::serial::SerialPort;

/// First register of the serial port.
pub const SERIAL: u16 = 0x3f8;
/// Number of its registers.
pub const SERIAL_PORTS: u8 = 8;
/// ACPI's sleep control register.
pub const SLEEP_CONTROL: u16 = 0x600;
/// ACPI's sleep status register.
pub const SLEEP_STATUS: u16 = 0x601;
/// ACPI's reset register.
pub const RESET: u16 = 0x602;
/// The value that resets the machine when it is written there.
pub const RESET_VALUE: u8 = 1;
/// The sleep type for power-off.
pub const SLEEP_TYPE_OFF: u8 = 5;
/// In the sleep control register: the bit that starts the sleep, and the position of the type.
const SLEEP_ENABLE: u8 = 1 << 5;
const SLEEP_TYPE_AT: u8 = 2;
const SLEEP_TYPE_MASK: u8 = 7;
/// The keyboard controller's command register, and its command to reset the machine, which `reboot=k` uses. The
/// keyboard controller does nothing else.
const KEYBOARD: u16 = 0x64;
const KEYBOARD_RESET: u8 = 0xfe;

/// A request of the guest that concerns the machine as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// Power off.
    Off,
    /// Restart.
    Reset,
}

/// Handles a write to a port.
pub fn write(serial: &SerialPort, port: u16, data: &[u8]) -> Option<Power> {
    match (port, data) {
        (SERIAL.., data) if in_serial(port) => {
            // Several bytes are several writes to the same register.
            data.iter().for_each(|byte| serial.write((port - SERIAL) as u8, *byte));
            None
        }
        (SLEEP_CONTROL, [value]) => {
            let off = SLEEP_ENABLE | SLEEP_TYPE_OFF << SLEEP_TYPE_AT;
            let asked = value & (SLEEP_ENABLE | SLEEP_TYPE_MASK << SLEEP_TYPE_AT);
            (asked == off).then_some(Power::Off)
        }
        (RESET, [RESET_VALUE]) | (KEYBOARD, [KEYBOARD_RESET]) => Some(Power::Reset),
        _ => None,
    }
}

/// Handles a read from a port.
pub fn read(serial: &SerialPort, port: u16, data: &mut [u8]) {
    match port {
        _ if in_serial(port) => data.iter_mut().for_each(|byte| *byte = serial.read((port - SERIAL) as u8)),
        // The machine is awake, and the keyboard controller is ready for a command.
        SLEEP_CONTROL | SLEEP_STATUS | KEYBOARD => data.fill(0),
        _ => data.fill(0xff),
    }
}

fn in_serial(port: u16) -> bool {
    (SERIAL..SERIAL + u16::from(SERIAL_PORTS)).contains(&port)
}

#[cfg(test)]
mod tests {
    use super::super::serial::testing::port;
    use super::*;

    #[test]
    fn only_the_type_off_with_the_enable_bit_switches_off() {
        let (serial, _) = port();
        assert_eq!(write(&serial, SLEEP_CONTROL, &[0x34]), Some(Power::Off));
        for value in [0, 0x14, 0x20, 0x30] {
            assert_eq!(write(&serial, SLEEP_CONTROL, &[value]), None, "{value:#x}");
        }
    }

    #[test]
    fn both_ways_to_reset_are_known() {
        let (serial, _) = port();
        assert_eq!(write(&serial, RESET, &[RESET_VALUE]), Some(Power::Reset));
        assert_eq!(write(&serial, KEYBOARD, &[KEYBOARD_RESET]), Some(Power::Reset));
        assert_eq!((write(&serial, RESET, &[0]), write(&serial, KEYBOARD, &[0xed])), (None, None));
    }

    #[test]
    fn ports_that_nothing_listens_on_read_as_ones_and_swallow_writes() {
        let (serial, text) = port();
        for at in [0, 0x70, 0xcf8, SERIAL - 1, SERIAL + 8, 0xffff] {
            let mut data = [0; 4];
            read(&serial, at, &mut data);
            assert_eq!(data, [0xff; 4], "{at:#x}");
            assert_eq!(write(&serial, at, &[1, 2, 3, 4]), None);
        }
        assert!(text.lock().unwrap().is_empty());
    }

    #[test]
    fn a_string_written_to_the_serial_port_comes_out_byte_by_byte() {
        let (serial, text) = port();
        write(&serial, SERIAL, b"hello\n");
        assert_eq!(*text.lock().unwrap(), b"hello\n");
        let mut status = [0];
        read(&serial, SERIAL + 5, &mut status);
        assert_eq!(status[0] & 0x60, 0x60, "ready for more");
    }
}
