//! The bytes of runs and of the manifest: docs/formats/runs.md.

pub mod entry;
pub mod manifest;
pub mod run;

/// The newest version of both formats.
pub const VERSION: u32 = 1;
/// Headers, footers and manifests are whole blocks of this many bytes.
pub const BLOCK: usize = bpfdb_log::BLOCK;

/// What is wrong with bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("it ends too early")]
    Short,
    #[error("its first bytes are not those of the format")]
    Magic,
    #[error("its version is {0}, and this program knows {VERSION}")]
    Version(u32),
    #[error("its checksum is wrong")]
    Checksum,
    #[error("its {0} is not the one that is expected")]
    Field(&'static str),
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Invalid> {
    let end = at.checked_add(N).ok_or(Invalid::Short)?;
    let found = bytes.get(at..end).ok_or(Invalid::Short)?;
    found.try_into().map_err(|_| Invalid::Short)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Invalid> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Invalid> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Bytes before the checksummed ones: magic, version, checksum.
const SEAL: usize = 16;

/// Puts magic, version and checksum before what is there from byte 16 on.
fn seal(bytes: &mut [u8], magic: &[u8; 8]) {
    put(bytes, 0, magic);
    put(bytes, 8, &VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[SEAL..]);
    put(bytes, 12, &checksum.to_le_bytes());
}

fn unseal(bytes: &[u8], magic: &[u8; 8]) -> Result<(), Invalid> {
    if bytes.len() < SEAL {
        return Err(Invalid::Short);
    }
    if bytes_at::<8>(bytes, 0)? != *magic {
        return Err(Invalid::Magic);
    }
    match u32_at(bytes, 8)? {
        VERSION => {}
        version => return Err(Invalid::Version(version)),
    }
    match u32_at(bytes, 12)? == crc32c::crc32c(&bytes[SEAL..]) {
        true => Ok(()),
        false => Err(Invalid::Checksum),
    }
}
