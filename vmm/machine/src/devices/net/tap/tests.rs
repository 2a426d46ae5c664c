//! Tests with a real tap, where one can be made. The other end is the host's own network stack.

use std::net::UdpSocket;
use std::process::Command;

use parking_lot::{Mutex, MutexGuard};

use super::*;
use crate::devices::net::{HEADER_BYTES, Mac};
use crate::devices::virtio::testing::*;

const RX: usize = 0;
const TX: usize = 1;
const TX_BUFFER: u64 = BUFFERS + 0x10_0000;
const OURS: [u8; 4] = [198, 18, 77, 1];
const GUESTS: [u8; 4] = [198, 18, 77, 2];

/// All taps have the same address, so there is one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// A tap that exists for one test.
struct Made(String, #[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Made {
    /// Makes a tap with an address and sets it up. Returns `None` if it cannot, after printing the reason.
    fn new(suffix: &str) -> Option<Self> {
        let made = Self(format!("st{}{suffix}", std::process::id()), ONE.lock());
        let name = made.0.as_str();
        let steps: [&[&str]; 3] = [
            &["tuntap", "add", "dev", name, "mode", "tap"],
            &["addr", "add", "198.18.77.1/24", "dev", name],
            &["link", "set", name, "up"],
        ];
        for step in steps {
            let done = Command::new("ip").args(step).output();
            if !done.as_ref().is_ok_and(|output| output.status.success()) {
                stile_tests::skip(&format!("no tap can be made here: {done:?}"));
                return None;
            }
        }
        Some(made)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &self.0]).output();
    }
}

/// A device on a tap. The host sends to it from now on.
fn rig(made: &Made) -> Rig<TapDevice> {
    let tap = Tap::open(&made.0).unwrap();
    // The host takes its time to find out that the tap is in use.
    let state = format!("/sys/class/net/{}/operstate", made.0);
    stile_tests::wait_for("the tap to be up", || fs::read_to_string(&state).is_ok_and(|state| state.trim() == "up"));
    Rig::new(0, |memory, line| TapDevice::new(tap, Mac::behind_tap("test"), memory, line).unwrap())
}

impl Rig<TapDevice> {
    /// The next frame of this kind from the host. Its buffer is posted again.
    fn frame(&mut self, kind: [u8; 2]) -> Vec<u8> {
        loop {
            self.host();
            let (head, length) = self.used(RX).expect("no such frame comes");
            let at = BUFFERS + 0x1000 * u64::from(head);
            let frame = self.get(at, length as usize).split_off(HEADER_BYTES);
            self.offer(RX, head as u16, &[(at, 2048, WRITE)]);
            self.ring(RX);
            if frame[12..14] == kind {
                return frame;
            }
        }
    }

    fn send(&mut self, frame: &[u8]) {
        self.put(TX_BUFFER, &[&[0; HEADER_BYTES], frame].concat());
        self.offer(TX, 0, &[(TX_BUFFER, (HEADER_BYTES + frame.len()) as u32, 0)]);
        self.ring(TX);
        assert_eq!(self.used(TX), Some((0, 0)));
    }
}

#[test]
fn guest_and_host_reach_each_other_through_a_tap() {
    let Some(made) = Made::new("a") else { return };
    let mut rig = rig(&made);
    for head in 0..8 {
        rig.offer(RX, head, &[(BUFFERS + 0x1000 * u64::from(head), 2048, WRITE)]);
    }
    rig.ring(RX);
    let socket = UdpSocket::bind("198.18.77.1:0").unwrap();
    socket.send_to(b"hello guest", "198.18.77.2:4000").unwrap();
    // The host asks for the guest's hardware address and gets the answer.
    let question = rig.frame([8, 6]);
    assert_eq!((&question[28..32], &question[38..42]), (&OURS[..], &GUESTS[..]));
    let guest = Mac::behind_tap("test").0;
    let host: [u8; 6] = question[6..12].try_into().unwrap();
    let answer = [&host[..], &guest, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &guest, &GUESTS, &host, &OURS].concat();
    rig.send(&answer);
    let datagram = rig.frame([8, 0]);
    assert!(datagram.ends_with(b"hello guest"));
    assert_eq!(datagram[..6], guest);
    let stats = rig.device.device().stats();
    assert_eq!((stats.sent_frames, stats.drops.total()), (1, 0));
    assert!(stats.received_frames >= 2);
}

#[test]
fn frames_wait_in_the_tap_while_the_guest_has_no_buffers() {
    let Some(made) = Made::new("b") else { return };
    let mut rig = rig(&made);
    let socket = UdpSocket::bind("198.18.77.1:0").unwrap();
    socket.set_broadcast(true).unwrap();
    for n in 0..20u8 {
        socket.send_to(&[n], "198.18.77.255:4000").unwrap();
    }
    rig.host();
    assert!(rig.device.device().stats().received_frames <= 1);
    let mut heard: Vec<u8> = Vec::new();
    while heard.len() < 20 {
        rig.offer(RX, 0, &[(BUFFERS, 2048, WRITE)]);
        rig.ring(RX);
        let (_, length) = rig.used(RX).expect("a frame waits");
        let frame = rig.get(BUFFERS, length as usize).split_off(HEADER_BYTES);
        // Other frames on a new interface are the host's own questions.
        if frame[12..14] == [8, 0] && frame[23] == 17 && frame.len() == 43 {
            heard.extend(frame.last());
        }
    }
    assert_eq!(heard, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_tap_that_is_in_use_is_told() {
    let Some(made) = Made::new("c") else { return };
    let _first = Tap::open(&made.0).unwrap();
    let error = Tap::open(&made.0).unwrap_err();
    assert!(error.remedy().contains("in use"), "{error:?}");
}

#[test]
fn a_tap_that_does_not_exist_says_how_to_make_it() {
    let error = Tap::open("stile-none").unwrap_err();
    assert_eq!(error.to_string(), "the tap `stile-none` does not exist");
    assert!(error.remedy().contains("ip tuntap add dev stile-none mode tap"), "{}", error.remedy());
}

#[test]
fn an_interface_that_is_no_tap_is_refused() {
    assert!(matches!(Tap::check("lo"), Err(TapError::Kind { .. })));
}

#[test]
fn what_can_be_no_name_is_not_looked_for() {
    for name in ["", ".", "..", "a/b", "a b", "a:b", "sixteen-letters-"] {
        assert!(!Tap::is_name(name), "{name}");
        assert!(matches!(Tap::check(name), Err(TapError::Missing { .. })), "{name}");
    }
    assert!(Tap::is_name("tap0"));
    assert!(Tap::is_name("fifteen-letters"));
}
