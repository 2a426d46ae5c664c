//! ACPI tables: the vCPUs, the interrupt controllers, the devices, and how to switch the machine off.
//!
//! The machine is *hardware-reduced* in ACPI's terms. It has none of the PC's fixed hardware: no PIT, no 8259, no
//! real-time clock, no keyboard controller, no PCI. The tables describe what it has, so a kernel looks for nothing
//! else.

use super::layout::{IO_APIC, LOCAL_APIC, PAGE, POWER_BUTTON_GSI, SERIAL_GSI, device_base, device_gsi};
use super::ports::{RESET, RESET_VALUE, SERIAL, SERIAL_PORTS, SLEEP_CONTROL, SLEEP_STATUS, SLEEP_TYPE_OFF};
use acpi_tables::Aml;
use acpi_tables::aml::{
    Arg, Device, EISAName, Equal, IO, If, Interrupt, Memory32Fixed, Method, Name, Notify, Package, Path,
    ResourceTemplate, Scope,
};
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;

const OEM: [u8; 6] = *b"STILE ";
const OEM_TABLE: [u8; 8] = *b"STILEVM ";
const OEM_REVISION: u32 = 1;
/// Length of a table's header (units: bytes).
const HEADER: u32 = 36;
/// Tables begin at multiples of this.
const ALIGN: usize = 16;
/// Boot architecture flags: no VGA, no MSI, no real-time clock. The bits for ISA devices and for a keyboard controller
/// are clear.
const BOOT_ARCHITECTURE: u16 = 1 << 2 | 1 << 3 | 1 << 5;
/// What a button's driver is notified of when it is pressed.
const PRESSED: u8 = 0x80;
/// Input of every local APIC to which NMIs are connected.
const NMI_LINE: u8 = 1;

/// What the tables describe.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// vCPUs; the number of each is its APIC id.
    pub vcpus: u32,
    /// Each virtio device: its registers and its interrupt line.
    pub devices: usize,
}

/// All tables as they lie in memory from `start` on. The root pointer comes first.
pub fn tables(machine: &Machine, start: u64) -> Vec<u8> {
    let mut all = vec![0; Rsdp::len().next_multiple_of(ALIGN)];
    let mut put = |table: &dyn Aml| {
        let at = start + all.len() as u64;
        table.to_aml_bytes(&mut all);
        all.resize(all.len().next_multiple_of(ALIGN), 0);
        at
    };
    let dsdt = put(&dsdt(machine));
    let others = [put(&fadt(dsdt)), put(&madt(machine.vcpus))];
    let mut xsdt = sdt(b"XSDT", 1);
    others.iter().for_each(|table| xsdt.append_slice(&table.to_le_bytes()));
    let xsdt = put(&xsdt);
    let mut root = Vec::new();
    Rsdp::new(OEM, xsdt).to_aml_bytes(&mut root);
    all[..root.len()].copy_from_slice(&root);
    all
}

fn sdt(signature: &[u8; 4], revision: u8) -> Sdt {
    Sdt::new(*signature, HEADER, revision, OEM, OEM_TABLE, OEM_REVISION)
}

/// The table of the machine as a whole: hardware-reduced, with registers for sleep and reset.
fn fadt(dsdt: u64) -> impl Aml {
    let mut table = FADTBuilder::new(OEM, OEM_TABLE, OEM_REVISION)
        .dsdt_64(dsdt)
        .flag(Flags::HwReducedAcpi)
        .flag(Flags::ResetRegSup)
        // No fixed buttons.
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::Headless);
    table.iapc_boot_arch = BOOT_ARCHITECTURE.into();
    table.reset_reg = register(RESET);
    table.reset_value = RESET_VALUE;
    table.sleep_control_reg = register(SLEEP_CONTROL);
    table.sleep_status_reg = register(SLEEP_STATUS);
    table.finalize()
}

fn register(port: u16) -> GAS {
    GAS {
        address_space_id: AddressSpace::SystemIo,
        register_bit_width: 8,
        register_bit_offset: 0,
        access_size: AccessSize::ByteAccess,
        address: u64::from(port).into(),
    }
}

/// The table of vCPUs and interrupt controllers.
fn madt(vcpus: u32) -> Sdt {
    let mut table = sdt(b"APIC", 5);
    table.append_slice(&LOCAL_APIC.to_le_bytes());
    // There are no 8259 beside them.
    table.append_slice(&0u32.to_le_bytes());
    let mut entries = Vec::new();
    for vcpu in 0..vcpus as u8 {
        // Local APIC: processor, id, enabled.
        entries.extend([0, 8, vcpu, vcpu, 1, 0, 0, 0]);
    }
    // I/O APIC: id 0, its address, first line 0.
    entries.extend([1, 12, 0, 0]);
    entries.extend(IO_APIC.to_le_bytes());
    entries.extend([0; 4]);
    // NMIs are connected to this input of all processors.
    entries.extend([4, 6, 0xff, 0, 0, NMI_LINE]);
    table.append_slice(&entries);
    table
}

/// The table of devices, and the value to write for power-off.
fn dsdt(machine: &Machine) -> Sdt {
    let mut code = Vec::new();
    Name::new("_S5_".into(), &Package::new(vec![&SLEEP_TYPE_OFF])).to_aml_bytes(&mut code);
    serial(&mut code);
    power_button(&mut code);
    (0..machine.devices).for_each(|number| virtio(number, &mut code));
    let mut table = sdt(b"DSDT", 2);
    table.append_slice(&code);
    table
}

fn serial(code: &mut Vec<u8>) {
    let interrupt = Interrupt::new(true, true, false, false, SERIAL_GSI);
    let ports = IO::new(SERIAL, SERIAL, 1, SERIAL_PORTS);
    let hardware = Name::new("_HID".into(), &EISAName::new("PNP0501"));
    let number = Name::new("_UID".into(), &0u8);
    let resources = Name::new("_CRS".into(), &ResourceTemplate::new(vec![&ports, &interrupt]));
    on_system_bus(&Device::new("COM1".into(), vec![&hardware, &number, &resources]), code);
}

/// A power button that is a device. Its interrupt comes through a Generic Event Device (ACPI 6.5, 5.6.9), for a
/// hardware-reduced machine has no fixed button.
fn power_button(code: &mut Vec<u8>) {
    let hardware = Name::new("_HID".into(), &EISAName::new("PNP0C0C"));
    on_system_bus(&Device::new("PWRB".into(), vec![&hardware]), code);
    let interrupt = Interrupt::new(true, true, false, false, POWER_BUTTON_GSI);
    let hardware = Name::new("_HID".into(), &"ACPI0013");
    let resources = Name::new("_CRS".into(), &ResourceTemplate::new(vec![&interrupt]));
    let button = Path::new("\\_SB_.PWRB");
    let press = Notify::new(&button, &PRESSED);
    let (line, is_its) = (POWER_BUTTON_GSI as u8, Arg(0));
    let is_its = Equal::new(&is_its, &line);
    let then = If::new(&is_its, vec![&press]);
    let event = Method::new("_EVT".into(), 1, true, vec![&then]);
    on_system_bus(&Device::new("GED0".into(), vec![&hardware, &resources, &event]), code);
}

fn virtio(number: usize, code: &mut Vec<u8>) {
    // Below the hole's end, which is below 4 GiB.
    let registers = Memory32Fixed::new(true, device_base(number) as u32, PAGE as u32);
    let interrupt = Interrupt::new(true, true, false, false, device_gsi(number));
    let hardware = Name::new("_HID".into(), &"LNRO0005");
    let unique = Name::new("_UID".into(), &number);
    let resources = Name::new("_CRS".into(), &ResourceTemplate::new(vec![&registers, &interrupt]));
    let name = format!("V{number:03}");
    on_system_bus(&Device::new(name.as_str().into(), vec![&hardware, &unique, &resources]), code);
}

fn on_system_bus(device: &Device<'_>, code: &mut Vec<u8>) {
    Scope::new("\\_SB_".into(), vec![device]).to_aml_bytes(code);
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0xe_0000;

    /// The bytes of a table, by its address. They add up to 0.
    fn table(all: &[u8], at: u64) -> &[u8] {
        let from = &all[(at - START) as usize..];
        let length = u32::from_le_bytes(from[4..8].try_into().unwrap()) as usize;
        assert_eq!(sum(&from[..length]), 0, "checksum of {}", String::from_utf8_lossy(&from[..4]));
        &from[..length]
    }

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    /// The table with this signature, found from the root as a kernel finds it.
    fn found<'a>(all: &'a [u8], signature: &[u8; 4]) -> &'a [u8] {
        assert_eq!((&all[..8], all[15]), (&b"RSD PTR "[..], 2));
        assert_eq!((sum(&all[..20]), sum(&all[..36])), (0, 0));
        let xsdt = table(all, word(all, 24));
        let entries = xsdt[36..].chunks(8).map(|entry| table(all, word(entry, 0)));
        entries.into_iter().find(|table| table[..4] == *signature).unwrap()
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn every_table_is_found_from_the_root_and_has_its_checksum() {
        for (vcpus, devices) in [(1, 0), (64, 19)] {
            let all = tables(&Machine { vcpus, devices }, START);
            let fadt = found(&all, b"FACP");
            assert_eq!(&table(&all, word(fadt, 140))[..4], b"DSDT");
            found(&all, b"APIC");
            assert!(START as usize + all.len() <= 0x10_0000, "{} bytes", all.len());
        }
    }

    #[test]
    fn the_machine_is_hardware_reduced_with_registers_to_sleep_and_to_reset() {
        let all = tables(&Machine { vcpus: 1, devices: 0 }, START);
        let fadt = found(&all, b"FACP");
        assert_eq!(fadt.len(), 276);
        let flags = u32::from_le_bytes(fadt[112..116].try_into().unwrap());
        assert_eq!(flags & (1 << 20 | 1 << 10), 1 << 20 | 1 << 10);
        // A register: port space, 8 bits wide, accessed by bytes, its address.
        let port = |at: usize| (fadt[at..at + 4] == [1, 8, 0, 1]).then(|| word(fadt, at + 4));
        assert_eq!((port(116), fadt[128]), (Some(RESET.into()), RESET_VALUE));
        assert_eq!((port(244), port(256)), (Some(SLEEP_CONTROL.into()), Some(SLEEP_STATUS.into())));
    }

    #[test]
    fn the_power_button_is_notified_by_an_interrupt_of_its_own() {
        let all = tables(&Machine { vcpus: 1, devices: 0 }, START);
        let fadt = found(&all, b"FACP");
        let dsdt = table(&all, word(fadt, 140));
        // EISA id PNP0C0C; Notify(\_SB_.PWRB, 0x80).
        assert!(contains(dsdt, &[0x0c, 0x41, 0xd0, 0x0c, 0x0c]));
        assert!(contains(dsdt, b"\x86\\\x2e_SB_PWRB\x0a\x80"));
        assert!(contains(dsdt, b"ACPI0013\0") && contains(dsdt, &POWER_BUTTON_GSI.to_le_bytes()));
    }

    #[test]
    fn each_vcpu_has_an_enabled_local_apic_and_there_is_one_io_apic() {
        let all = tables(&Machine { vcpus: 64, devices: 0 }, START);
        let mut entries = &found(&all, b"APIC")[44..];
        let mut kinds = Vec::new();
        while let [kind, length, ..] = entries {
            let (entry, rest) = entries.split_at((*length).into());
            match kind {
                0 => assert_eq!(entry[2..], [kinds.len() as u8, kinds.len() as u8, 1, 0, 0, 0]),
                1 => assert_eq!(entry[4..8], IO_APIC.to_le_bytes()),
                4 => assert_eq!((entry[2], entry[5]), (0xff, NMI_LINE)),
                _ => panic!("an entry of kind {kind}"),
            }
            kinds.push(*kind);
            entries = rest;
        }
        assert_eq!((kinds.len(), kinds.iter().filter(|kind| **kind == 0).count()), (66, 64));
    }

    #[test]
    fn each_device_has_its_registers_and_its_line() {
        let all = tables(&Machine { vcpus: 1, devices: 3 }, START);
        let dsdt = table(&all, word(found(&all, b"FACP"), 140));
        assert_eq!(dsdt.windows(8).filter(|window| window == b"LNRO0005").count(), 3);
        for number in 0..3 {
            let base = (device_base(number) as u32).to_le_bytes();
            assert!(contains(dsdt, &[&[0x86, 9, 0, 1][..], &base, &[0, 0x10, 0, 0]].concat()), "registers {number}");
            // Consumer, edge, active high, not shared.
            let line = device_gsi(number).to_le_bytes();
            assert!(contains(dsdt, &[&[0x89, 6, 0, 3, 1][..], &line].concat()), "line {number}");
        }
        assert!(contains(dsdt, b"_S5_") && contains(dsdt, b"COM1") && !contains(dsdt, b"V003"));
    }
}
