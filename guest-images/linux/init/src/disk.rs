//! A pattern on a disk, to tell whether what was written is there: every word of it depends on its place and on a seed.

use crate::orders::Extent;
use std::fs::File;
use std::io::{self, Read, Write};

/// Large against a request, small against a guest's memory (units: bytes).
const CHUNK: usize = 1 << 20;

/// Why a disk does not hold its pattern.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("{path}: {source}")]
    Access { path: String, source: io::Error },
    #[error("{path} holds something else at byte {at}")]
    Differs { path: String, at: u64 },
}

/// The word at a place: odd factors keep all of one seed apart.
fn word(seed: u64, place: u64) -> u64 {
    (place ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fills a chunk of the pattern that begins at this byte, which is a multiple of the words' size.
fn fill(chunk: &mut [u8], seed: u64, start: u64) {
    for (place, bytes) in (start / 8..).zip(chunk.chunks_mut(8)) {
        bytes.copy_from_slice(&word(seed, place).to_le_bytes()[..bytes.len()]);
    }
}

/// Goes through the extent, a chunk of the pattern after the other.
fn each_chunk(extent: &Extent, mut with: impl FnMut(u64, &[u8]) -> Result<(), DiskError>) -> Result<(), DiskError> {
    let mut chunk = vec![0; CHUNK];
    let mut start = 0;
    while start < extent.size {
        let len = usize::try_from(extent.size - start).map_or(CHUNK, |left| left.min(CHUNK));
        fill(&mut chunk[..len], extent.seed, start);
        with(start, &chunk[..len])?;
        start += len as u64;
    }
    Ok(())
}

/// Writes the pattern, and returns once the device says that it is stored.
pub(crate) fn write(extent: &Extent) -> Result<(), DiskError> {
    let access = |source| DiskError::Access { path: extent.path.clone(), source };
    let mut file = File::options().write(true).create(true).truncate(false).open(&extent.path).map_err(access)?;
    each_chunk(extent, |_, chunk| file.write_all(chunk).map_err(access))?;
    file.sync_all().map_err(access)
}

/// Looks for the first byte that is not the pattern's.
pub(crate) fn check(extent: &Extent) -> Result<(), DiskError> {
    let access = |source| DiskError::Access { path: extent.path.clone(), source };
    let mut file = File::open(&extent.path).map_err(access)?;
    let mut found = vec![0; CHUNK];
    each_chunk(extent, |start, chunk| {
        let found = &mut found[..chunk.len()];
        file.read_exact(found).map_err(access)?;
        match chunk.iter().zip(&*found).position(|(expected, found)| expected != found) {
            Some(at) => Err(DiskError::Differs { path: extent.path.clone(), at: start + at as u64 }),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(file: &tempfile::NamedTempFile, size: u64, seed: u64) -> Extent {
        Extent { path: file.path().to_str().unwrap().to_owned(), size, seed }
    }

    proptest! {
        #[test]
        fn what_was_written_is_found_and_a_changed_byte_is_named(size in 1u64..3 * CHUNK as u64, seed: u64, at: u64) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let extent = extent(&file, size, seed);
            write(&extent).unwrap();
            prop_assert_eq!(file.as_file().metadata().unwrap().len(), size);
            check(&extent).unwrap();
            let mut bytes = std::fs::read(file.path()).unwrap();
            let place = usize::try_from(at % size).unwrap();
            bytes[place] ^= 1;
            std::fs::write(file.path(), bytes).unwrap();
            let error = check(&extent).unwrap_err();
            prop_assert!(matches!(error, DiskError::Differs { at: found, .. } if found == place as u64), "{error}");
        }
    }

    #[test]
    fn a_disk_that_is_too_small_or_has_another_pattern_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(&extent(&file, 4096, 1)).unwrap();
        assert!(matches!(check(&extent(&file, 8192, 1)), Err(DiskError::Access { .. })));
        assert!(matches!(check(&extent(&file, 4096, 2)), Err(DiskError::Differs { .. })));
    }
}
