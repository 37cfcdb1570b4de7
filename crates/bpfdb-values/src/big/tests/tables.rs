//! Buckets of hashes and sets: scanned, picked from, and damaged.

use std::collections::HashMap;

use super::super::{Kind, PageKey, Pages, Place, siphash, table};
use super::Memory;
use crate::run::History;

/// Elements come and go during a scan; those that stay are listed once.
#[test]
fn a_scan_meets_each_element_that_stays_once() {
    let memory = Memory::default();
    let name = |n: usize| format!("element {n}").into_bytes();
    let stay: Vec<Vec<u8>> = (0..200).map(name).collect();
    let entries = stay.iter().map(|key| (&key[..], &b""[..]));
    let head = memory.build(Kind::Set, &crate::run::write(entries, History::default()));
    let mut big = memory.open(Kind::Set, &head);
    let (mut position, mut met, mut round) = (0, HashMap::new(), 0);
    loop {
        let (elements, next) = big.scan(position).expect("sound");
        for (element, _) in elements {
            *met.entry(element).or_insert(0) += 1;
        }
        let Some(next) = next else { break };
        position = next;
        let others = (0..100).map(|n| name(1000 + round / 5 * 100 + n));
        for other in others {
            if round % 10 < 5 {
                big.insert(&other, b"").expect("sound");
            } else {
                big.remove(&name(1000)).expect("sound");
                let old = other;
                big.remove(&old).expect("sound");
            }
        }
        round += 1;
    }
    assert!(round > 20);
    assert!(stay.iter().all(|name| met.get(name) == Some(&1)));
}

#[test]
fn each_element_is_picked_about_as_often() {
    let memory = Memory::default();
    let names: Vec<Vec<u8>> = (0..100)
        .map(|n| format!("element {n}").into_bytes())
        .collect();
    let entries = names.iter().map(|key| (&key[..], &b""[..]));
    let head = memory.build(Kind::Set, &crate::run::write(entries, History::default()));
    let mut big = memory.open(Kind::Set, &head);
    let mut state = 1_u64;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % end
    };
    let mut times: HashMap<Vec<u8>, u32> = HashMap::new();
    for _ in 0..20_000 {
        *times
            .entry(big.pick(&mut below).expect("sound").0)
            .or_insert(0) += 1;
    }
    assert_eq!(times.len(), names.len());
    // 200 each, and a standard deviation of 14.
    assert!(
        times.values().all(|times| (120..300).contains(times)),
        "{times:?}"
    );
}

#[test]
fn one_long_element_makes_no_empty_buckets() {
    let memory = Memory::default();
    let entries = [(&b"a"[..], &b"1"[..]), (b"b", b"2")];
    let head = memory.build(
        Kind::Hash,
        &crate::run::write(entries.into_iter(), History::default()),
    );
    let mut big = memory.open(Kind::Hash, &head);
    big.insert(b"c", &[b'x'; 100_000]).expect("sound");
    (0..50_u8).for_each(|n| assert!(big.insert(&[n], b"").expect("sound")));
    assert!(big.head().buckets <= 53);
    (0..50_u8).for_each(|n| assert!(big.remove(&[n]).expect("sound")));
    let head = big.finish().expect("written");
    memory.check(Kind::Hash, &head);
}

#[test]
fn a_table_without_elements_is_refused() {
    let memory = Memory::default();
    let one = crate::run::write([(&b"a"[..], &b""[..])].into_iter(), History::default());
    let head = memory.build(Kind::Set, &one);
    let mut below = |most: u64| most - 1;
    let mut without = head.clone();
    without.buckets = 0;
    assert!(memory.open(Kind::Set, &without).pick(&mut below).is_err());
    let key = PageKey {
        identity: head.identity,
        place: Place::bucket(0),
    };
    memory.clone().write(key, &table::EMPTY).expect("in memory");
    let mut big = memory.open(Kind::Set, &head);
    assert!(big.pick(&mut below).is_err());
    assert!(big.whole().is_err());
}

/// Members that would all be in one of 256 buckets, if the secret were the one that their sender knows, are spread
/// as any others. (With that secret they are in one page, so they are chosen well.)
#[test]
fn chosen_members_fill_no_bucket() {
    const KNOWN: [u64; 2] = [0, 0];
    const CHOSEN: usize = 500;
    let longest = |secret: [u64; 2]| {
        let names = (0u64..).map(|n| n.to_be_bytes());
        let chosen = names.filter(|name| siphash::hash(KNOWN, name) & 0xff == 0);
        let memory = Memory::default();
        let one = crate::run::write([(&b"a"[..], &b""[..])].into_iter(), History::default());
        let mut head = memory.build(Kind::Set, &one);
        head.secret = secret;
        let mut big = memory.open(Kind::Set, &head);
        for name in chosen.take(CHOSEN) {
            assert!(big.insert(&name, b"").expect("sound"));
        }
        big.finish().expect("written");
        let pages = memory.0.borrow();
        pages.values().map(Vec::len).max().expect("pages")
    };
    let (attacked, spread) = (longest(KNOWN), longest([1, 2]));
    assert!(attacked > CHOSEN * 8, "{attacked}");
    assert!(spread < attacked / 8, "{spread} of {attacked}");
}
