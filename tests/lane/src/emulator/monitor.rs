//! Asks QEMU's monitor where the emulated CPUs are.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// For each part of an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looks at the registers. A CPU that goes round in a circle is seen at several of its places.
const LOOKS: usize = 3;

/// What tells a CPU's place, of several looks; or why it is not known.
pub(super) fn registers(socket: &Path) -> String {
    match (0..LOOKS).map(|_| look(socket)).collect::<io::Result<Vec<_>>>() {
        Ok(looks) => looks.concat(),
        Err(error) => format!("the emulator's monitor does not answer: {error}"),
    }
}

fn look(socket: &Path) -> io::Result<String> {
    let mut monitor = UnixStream::connect(socket)?;
    monitor.set_read_timeout(Some(PATIENCE))?;
    monitor.write_all(b"info registers -a\n")?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    // The answer has no end of its own but the silence after it.
    loop {
        match monitor.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(places(&String::from_utf8_lossy(&answer)))
}

/// Of all registers those that tell where a CPU is and what it waits for.
fn places(answer: &str) -> String {
    let tells = |line: &&str| ["CPU#", "RIP=", "RSI=", "RSP="].iter().any(|part| line.contains(part));
    answer.lines().filter(tells).fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_registers_those_are_shown_that_tell_a_place() {
        let answer = "CPU#0\r\nRAX=1 RBX=2\r\nRIP=ffffffff81c00ab0 RFL=00000046 CPL=0 HLT=0\r\nES =0000\r\nCPU#1\r\n";
        assert_eq!(places(answer), "CPU#0\nRIP=ffffffff81c00ab0 RFL=00000046 CPL=0 HLT=0\nCPU#1\n");
    }
}
