use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use tempfile::{NamedTempFile, TempDir};

use super::*;
use crate::devices::virtio::Device;
use crate::devices::virtio::testing::*;

/// A descriptor: address, length, flags.
type Part = (u64, u32, u16);

const SECTORS: u64 = 64;
const FLUSH: u64 = 1 << 9;
const INDIRECT_TABLES: u64 = 1 << 28;
const STATUS: u64 = BUFFERS + 0x8_0000;
const DATA: u64 = BUFFERS + 0x1000;
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Byte `at` of a fresh disk.
fn pattern(at: u64) -> u8 {
    (at / SECTOR_BYTES) as u8 ^ at as u8
}

fn file() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..SECTORS * SECTOR_BYTES).map(pattern).collect();
    file.write_all(&bytes).unwrap();
    file
}

fn rig(file: &Path, read_only: bool) -> Rig<BlockDevice> {
    let disk = Disk::open(file, read_only).unwrap();
    Rig::new(FLUSH, |memory, line| BlockDevice::new(disk, memory, line))
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
}

fn segment(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

impl Rig<BlockDevice> {
    /// Sends one request and returns its status.
    fn request(&mut self, kind: u32, sector: u64, out: &[u8], room: u32) -> u8 {
        self.put(BUFFERS, &header(kind, sector));
        self.put(DATA, out);
        self.put(STATUS, &[0xee]);
        let data = match (out.len() as u32, room) {
            (0, 0) => None,
            (0, room) => Some((DATA, room, WRITE)),
            (length, _) => Some((DATA, length, 0)),
        };
        let buffers: Vec<_> = [Some((BUFFERS, 16, 0)), data, Some((STATUS, 1, WRITE))].into_iter().flatten().collect();
        self.offer(0, 0, &buffers);
        self.ring(0);
        let (head, written) = self.used(0).expect("the request comes back");
        let status = self.get(STATUS, 1)[0];
        assert_eq!(head, 0);
        assert!(status != OK || written == room + 1, "{written} bytes written");
        status
    }
}

#[test]
fn what_is_read_is_what_the_file_holds() {
    let file = file();
    let mut rig = rig(file.path(), false);
    assert_eq!(rig.request(0, 3, &[], 1024), OK);
    let expected: Vec<u8> = (3 * SECTOR_BYTES..5 * SECTOR_BYTES).map(pattern).collect();
    assert_eq!(rig.get(DATA, 1024), expected);
    assert_eq!(rig.bell.rung(), 1);
}

#[test]
fn what_is_written_is_in_the_file_and_nothing_else_changes() {
    let file = file();
    let mut rig = rig(file.path(), false);
    assert_eq!(rig.request(1, 2, &[7; 512], 0), OK);
    assert_eq!(rig.request(4, 0, &[], 0), OK);
    let bytes = fs::read(file.path()).unwrap();
    assert_eq!(bytes.len() as u64, SECTORS * SECTOR_BYTES);
    for (at, byte) in (0..).zip(bytes) {
        assert_eq!(byte, if at / SECTOR_BYTES == 2 { 7 } else { pattern(at) }, "byte {at}");
    }
}

#[test]
fn what_reaches_outside_of_the_disk_or_is_no_sector_is_an_error_and_does_nothing() {
    let file = file();
    let before = fs::read(file.path()).unwrap();
    let mut rig = rig(file.path(), false);
    for sector in [SECTORS, SECTORS - 1, u64::MAX, u64::MAX / 512, (u64::MAX / 512) + 1] {
        assert_eq!(rig.request(0, sector, &[], 1024), IO_ERROR, "{sector}");
        assert_eq!(rig.request(1, sector, &[1; 1024], 0), IO_ERROR, "{sector}");
    }
    for odd in [1, 511, 513] {
        assert_eq!(rig.request(0, 0, &[], odd), IO_ERROR, "{odd}");
        assert_eq!(rig.request(1, 0, &vec![1; odd as usize], 0), IO_ERROR, "{odd}");
    }
    assert_eq!(fs::read(file.path()).unwrap(), before);
    assert_eq!(rig.fault(), None);
}

#[test]
fn a_read_only_disk_says_so_and_is_not_changed() {
    let file = file();
    let before = fs::read(file.path()).unwrap();
    let mut rig = rig(file.path(), true);
    assert_eq!(rig.device.device().features() & (1 << 5 | 1 << 13 | 1 << 14), 1 << 5);
    assert_eq!(rig.request(1, 0, &[1; 512], 0), IO_ERROR);
    for kind in [11, 13] {
        assert_eq!(rig.request(kind, 0, &segment(0, 1, 0), 0), IO_ERROR, "{kind}");
    }
    assert_eq!(rig.request(0, 0, &[], 512), OK);
    assert_eq!(rig.request(4, 0, &[], 0), OK);
    assert_eq!(fs::read(file.path()).unwrap(), before);
}

#[test]
fn discarded_and_zeroed_sectors_are_gone_and_the_others_stay() {
    let file = file();
    let mut rig = rig(file.path(), false);
    for (at, flags) in [(4, 0), (10, 1)] {
        assert_eq!(rig.request(13, 0, &segment(at, 2, flags), 0), OK);
    }
    assert_eq!(rig.request(11, 0, &[segment(20, 1, 0), segment(22, 1, 0), segment(40, 0, 0)].concat(), 0), OK);
    let bytes = fs::read(file.path()).unwrap();
    assert_eq!(bytes.len() as u64, SECTORS * SECTOR_BYTES);
    for (at, byte) in (0..).zip(bytes) {
        match at / SECTOR_BYTES {
            4 | 5 | 10 | 11 => assert_eq!(byte, 0, "byte {at}"),
            // Discarded sectors may hold anything.
            20 | 22 => {}
            _ => assert_eq!(byte, pattern(at), "byte {at}"),
        }
    }
}

#[test]
fn segments_that_break_the_limits_are_refused_as_a_whole() {
    let file = file();
    let before = fs::read(file.path()).unwrap();
    let mut rig = rig(file.path(), false);
    for kind in [11, 13] {
        for bad in [segment(SECTORS, 1, 0), segment(u64::MAX, 2, 0), segment(0, u32::MAX, 0), segment(0, 65, 0)] {
            let segments = if kind == 11 { [segment(0, 1, 0), bad].concat() } else { bad.to_vec() };
            assert_eq!(rig.request(kind, 0, &segments, 0), IO_ERROR, "{kind}");
        }
        assert_eq!(rig.request(kind, 0, &segment(0, 1, 2), 0), UNSUPPORTED, "{kind}");
        assert_eq!(rig.request(kind, 0, &segment(0, 1, 0)[..15], 0), IO_ERROR, "{kind}");
        assert_eq!(rig.request(kind, 0, &segment(0, 1, 0).repeat(17), 0), IO_ERROR, "{kind}");
    }
    assert_eq!(rig.request(13, 0, &[segment(0, 1, 0), segment(1, 1, 0)].concat(), 0), IO_ERROR);
    assert_eq!(rig.request(11, 0, &segment(0, 1, 1), 0), UNSUPPORTED);
    assert_eq!(fs::read(file.path()).unwrap(), before);
}

#[test]
fn the_id_is_the_same_each_time_and_unknown_requests_are_unsupported() {
    let file = file();
    let mut rig = rig(file.path(), false);
    assert_eq!(rig.request(8, 0, &[], 20), OK);
    let id = rig.get(DATA, 20);
    assert!(id.iter().any(|byte| *byte != 0));
    assert_eq!(rig.request(8, 9, &[], 20), OK);
    assert_eq!(rig.get(DATA, 20), id);
    for kind in [2, 3, 14, 99, u32::MAX] {
        assert_eq!(rig.request(kind, 0, &[], 512), UNSUPPORTED, "{kind}");
    }
}

#[test]
fn the_configuration_space_holds_size_and_limits() {
    let file = file();
    let rig = rig(file.path(), false);
    let read = |at: u64, length: usize| {
        let mut bytes = [0; 8];
        rig.device.read(0x100 + at, &mut bytes[..length]);
        u64::from_le_bytes(bytes)
    };
    assert_eq!(read(0, 8), SECTORS);
    assert_eq!((read(8, 4), read(12, 4)), (256 << 10, 254));
    assert_eq!((read(36, 4), read(40, 4), read(44, 4)), (1 << 16, 16, 1));
    assert_eq!((read(48, 4), read(52, 4), read(56, 1)), (1 << 16, 1, 1));
}

#[test]
fn chains_without_room_for_header_or_status_or_in_the_wrong_order_turn_the_device_off() {
    let cases: [(&str, &[Part]); 6] = [
        ("no status", &[(BUFFERS, 16, 0), (DATA, 512, 0)]),
        ("short header", &[(BUFFERS, 15, 0), (STATUS, 1, WRITE)]),
        ("nothing to read", &[(STATUS, 1, WRITE)]),
        ("status before header", &[(STATUS, 1, WRITE), (BUFFERS, 16, 0)]),
        ("data outside", &[(BUFFERS, 16, 0), (MEMORY_BYTES - 8, 512, WRITE), (STATUS, 1, WRITE)]),
        ("wraps", &[(BUFFERS, 16, 0), (u64::MAX - 8, 512, WRITE), (STATUS, 1, WRITE)]),
    ];
    for (name, buffers) in cases {
        let file = file();
        let mut rig = rig(file.path(), false);
        rig.put(BUFFERS, &header(0, 0));
        rig.offer(0, 0, buffers);
        rig.ring(0);
        assert!(rig.fault().is_some_and(|fault| fault.starts_with("Chain { queue: 0, head: 0")), "{name}");
        assert_eq!(rig.used(0), None, "{name}");
        // A reset turns the device on again.
        rig.reset(FLUSH);
        assert_eq!(rig.request(0, 0, &[], 512), OK, "{name}");
    }
}

#[test]
fn a_loop_turns_the_device_off() {
    let file = file();
    let mut rig = rig(file.path(), false);
    rig.queues[0].describe(0, BUFFERS, 16, NEXT, 1);
    rig.queues[0].describe(1, DATA, 512, NEXT, 0);
    rig.queues[0].offer(0);
    rig.ring(0);
    assert!(rig.fault().unwrap().contains("Endless"));
}

#[test]
fn many_requests_are_answered_over_several_turns_in_order() {
    let file = file();
    let mut rig = rig(file.path(), false);
    rig.reset(FLUSH | INDIRECT_TABLES);
    for n in 0..15u64 {
        // Each request has one descriptor in the queue, which is too few. An indirect table holds the others.
        let table = BUFFERS + 0x2_0000 + n * 64;
        let (request, status) = (BUFFERS + n * 32, STATUS + n);
        rig.put(request, &header(0, n));
        let entry = |address: u64, length: u32, flags: u16, next: u16| {
            [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
        };
        let data = DATA + n * SECTOR_BYTES;
        let entries =
            [entry(request, 16, NEXT, 1), entry(data, 512, WRITE | NEXT, 2), entry(status, 1, WRITE, 0)].concat();
        rig.put(table, &entries);
        rig.queues[0].describe(n as u16, table, entries.len() as u32, INDIRECT, 0);
        rig.queues[0].offer(n as u16);
    }
    rig.ring(0);
    for n in 0..15 {
        assert_eq!(rig.used(0), Some((n, 513)));
    }
    let expected: Vec<u8> = (0..15 * SECTOR_BYTES).map(pattern).collect();
    assert_eq!(rig.get(DATA, 15 * 512), expected);
}

#[test]
fn a_disk_that_is_written_is_nobody_elses_and_readers_share_one() {
    let file = file();
    let writer = Disk::open(file.path(), false).unwrap();
    for read_only in [false, true] {
        let error = Disk::open(file.path(), read_only).unwrap_err();
        assert!(matches!(error, DiskError::InUse { .. }));
        assert!(error.remedy().contains("read_only"));
    }
    drop(writer);
    let readers = (Disk::open(file.path(), true).unwrap(), Disk::open(file.path(), true).unwrap());
    assert!(matches!(Disk::open(file.path(), false), Err(DiskError::InUse { .. })));
    drop(readers);
    Disk::open(file.path(), false).unwrap();
}

#[test]
fn what_can_be_no_disk_is_refused_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let check = |name: &str| Disk::check(&path(name), false).unwrap_err();
    File::create(path("empty")).unwrap();
    fs::write(path("odd"), [0; 1000]).unwrap();
    assert!(matches!(check("none"), DiskError::Open { .. }));
    assert!(check("none").remedy().contains("truncate -s 1G"));
    let device = Disk::check(Path::new("/dev/no-such-disk"), false).unwrap_err().remedy();
    assert!(device.contains("/dev") && !device.contains("truncate"), "{device}");
    assert!(matches!(check("empty"), DiskError::Empty { .. }));
    assert_eq!(
        check("odd").to_string(),
        format!("the disk {} has 1000 bytes, not a whole number of 512-byte sectors", path("odd").display())
    );
    assert!(check("odd").remedy().contains("truncate -s %512"));
    assert!(matches!(Disk::check(folder.path(), false), Err(DiskError::Kind { .. })));
    assert!(matches!(Disk::check(Path::new("/dev/null"), false), Err(DiskError::Kind { .. })));
}

#[test]
fn a_file_without_write_permission_is_refused_for_writing_alone() {
    let file = file();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o444)).unwrap();
    Disk::check(file.path(), true).unwrap();
    // Root can write it nevertheless.
    if let Err(error) = Disk::check(file.path(), false) {
        assert!(error.remedy().contains("read_only"), "{}", error.remedy());
    }
}

/// Splits `length` bytes at these places into parts, which are in guest memory in another order.
fn scatter(length: usize, cuts: &[usize], base: u64) -> Vec<(u64, u32)> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (length + 1)).chain([0, length]).collect();
    cuts.sort_unstable();
    let parts = cuts.windows(2).map(|ends| ends[1] - ends[0]).enumerate();
    parts.map(|(n, part)| (base + 0x4000 * (15 - n as u64), part as u32)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a driver cuts a request into buffers, the data that were written are read back, and the file holds them.
    #[test]
    fn requests_of_any_shape_carry_the_same_bytes(
        sector in 0..SECTORS - 8,
        sectors in 1u64..8,
        seed in any::<u8>(),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        header_cuts in prop::collection::vec(any::<usize>(), 0..3),
    ) {
        let file = file();
        let mut rig = rig(file.path(), false);
        let length = (sectors * SECTOR_BYTES) as usize;
        let data: Vec<u8> = (0..length).map(|at| at as u8 ^ seed).collect();

        // Out: header and data may share buffers.
        let request = [header(1, sector), data.clone()].concat();
        let parts = scatter(request.len(), &[cuts.clone(), header_cuts.clone()].concat(), BUFFERS);
        let mut rest = &request[..];
        for (address, part) in &parts {
            rig.put(*address, &rest[..*part as usize]);
            rest = &rest[*part as usize..];
        }
        let mut buffers: Vec<_> = parts.iter().map(|(address, part)| (*address, *part, 0)).collect();
        buffers.push((STATUS, 1, WRITE));
        rig.offer(0, 0, &buffers);
        rig.ring(0);
        prop_assert_eq!(rig.used(0), Some((0, 1)));
        prop_assert_eq!(rig.get(STATUS, 1)[0], OK);
        let at = (sector * SECTOR_BYTES) as usize;
        prop_assert_eq!(&fs::read(file.path()).unwrap()[at..][..length], &data[..]);

        // In: data and status may share buffers.
        rig.put(BUFFERS, &header(0, sector));
        let parts = scatter(length + 1, &cuts, BUFFERS + 0x1000);
        let buffers = parts.iter().map(|(address, part)| (*address, *part, WRITE));
        let buffers: Vec<_> = [(BUFFERS, 16, 0)].into_iter().chain(buffers).collect();
        rig.offer(0, 0, &buffers);
        rig.ring(0);
        prop_assert_eq!(rig.used(0), Some((0, length as u32 + 1)));
        let mut read = Vec::new();
        for (address, part) in parts {
            read.extend(rig.get(address, part as usize));
        }
        prop_assert_eq!(read.pop(), Some(OK));
        prop_assert_eq!(read, data);
    }
}
