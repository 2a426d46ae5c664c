//! SHA-256 as lower-case hexadecimal, the form of package indices and of manifests.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;

/// Digest of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Digest of a file, which may be larger than memory.
pub fn of_file(path: &Path) -> io::Result<String> {
    of_open_file(&std::fs::File::open(path)?)
}

/// Digest of a file from where it is to be read next.
pub fn of_open_file(mut file: &std::fs::File) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_bytes_have_the_digest_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(of_file(file.path()).unwrap(), abc);
    }
}
