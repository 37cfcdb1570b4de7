//! The names and numbers of operators, generated from the lists in
//! `include/bpfdb/operators.h`.

use crate::abi::*;

include!(concat!(env!("OUT_DIR"), "/operators.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters are indexed by the number.
    #[test]
    fn numbers_are_places() {
        for (place, (name, number)) in COUNTED_OPERATORS.iter().enumerate() {
            assert_eq!(*number as usize, place, "{name}");
        }
        assert!(BPFDB_OP_WATCH > BPFDB_COUNTED_OPERATIONS);
    }
}
