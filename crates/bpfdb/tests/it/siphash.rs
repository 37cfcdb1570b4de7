//! The hash by which elements of large collections are in buckets: that of the kernel is that of the crate by which
//! user space has written them.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::common;

#[test]
fn the_kernel_computes_the_hash_of_the_crate() {
    let engine = common::engine();
    let object = common::load(&engine, "siphash");
    let program = bpfdb::find_program(&object, "known_siphash").expect("a program");
    for number in [0, 1, 0x0123_4567_89ab_cdef_u64, u64::MAX - 2] {
        for len in 0..=255_u64 {
            let half = |shift: u64| -> u64 {
                let run = program.run(&[number, len, shift]);
                run.expect("run").into()
            };
            let mut hasher =
                SipHasher13::new_with_keys(number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let text: Vec<u8> = (1..=len).map(|n| number.wrapping_mul(n) as u8).collect();
            hasher.write(&text);
            assert_eq!(
                half(32) << 32 | half(0),
                hasher.finish(),
                "{number}, {len} bytes"
            );
        }
    }
}
