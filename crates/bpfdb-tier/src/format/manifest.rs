//! The manifest: which runs an engine has. It is replaced as a whole.
//!
//! ```text
//!       0  magic, "BPFDBMAN"
//!       8  version, 32 bits
//!      12  CRC-32C of all that follows, 32 bits
//!      16  identity of the engine, 64 bits
//!      24  number of the next run, 64 bits
//!      32  how many runs there are, 64 bits
//!      40  their numbers, 64 bits each, ascending; zeros to the end of a block
//! ```

use super::{BLOCK, Invalid, SEAL, put, seal, u64_at, unseal};

const MAGIC: &[u8; 8] = b"BPFDBMAN";
const RUNS: usize = SEAL + 24;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Identity of the engine.
    pub engine: u64,
    /// Every run that there is or was has a smaller number.
    pub next: u64,
    pub runs: Vec<u64>,
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        let size = RUNS + self.runs.len() * 8;
        let mut bytes = vec![0; size.next_multiple_of(BLOCK)];
        put(&mut bytes, 16, &self.engine.to_le_bytes());
        put(&mut bytes, 24, &self.next.to_le_bytes());
        put(&mut bytes, 32, &(self.runs.len() as u64).to_le_bytes());
        for (n, run) in self.runs.iter().enumerate() {
            put(&mut bytes, RUNS + n * 8, &run.to_le_bytes());
        }
        seal(&mut bytes, MAGIC);
        bytes
    }

    /// # Errors
    /// It is no manifest, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        unseal(bytes, MAGIC)?;
        let count = usize::try_from(u64_at(bytes, 32)?).map_err(|_| Invalid::Field("count"))?;
        if count > (bytes.len() - RUNS) / 8 {
            return Err(Invalid::Field("count"));
        }
        let runs = (0..count).map(|n| u64_at(bytes, RUNS + n * 8));
        Ok(Self {
            engine: u64_at(bytes, 16)?,
            next: u64_at(bytes, 24)?,
            runs: runs.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_a_damaged_one_does_not() {
        for count in [0, 1, 600] {
            let manifest = Manifest {
                engine: 5,
                next: 1000,
                runs: (1..=count).collect(),
            };
            let bytes = manifest.encode();
            assert_eq!(bytes.len() % BLOCK, 0);
            assert_eq!(Manifest::decode(&bytes), Ok(manifest));
            for at in (0..bytes.len()).step_by(97) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert!(Manifest::decode(&damaged).is_err(), "byte {at}");
            }
        }
    }
}
