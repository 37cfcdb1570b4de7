//! The event `evicted`.

use std::collections::BTreeSet;

use bpfdb_server::settings::EvictionPolicy;
use bpfdb_tests::server::wait_until;

use super::Listener;
use crate::eviction::{evicted, fill, start, there};

/// Some more than fit.
const KEYS: usize = 40_000;

/// Each key that goes has one, and no `expired` later.
#[test]
fn of_each_key_that_goes() {
    let server = start(EvictionPolicy::VolatileRandom);
    let mut client = server.client();
    let mut listener = Listener::start(server.address, "Kxe", false);
    let mut heard = BTreeSet::new();
    let mut listen = |listener: &mut Listener| {
        for event in listener.heard_by_key() {
            let key = event.strip_suffix(" evicted");
            let key = key.unwrap_or_else(|| panic!("{event}"));
            assert!(heard.insert(key.to_owned()), "{key} has gone twice");
        }
        heard.len()
    };
    fill(&mut client, "k", KEYS, 1000, &[b"EX", b"1000"]);
    assert!(evicted(&mut client) > 1000);
    client.say("CONFIG SET maxmemory-policy noeviction");
    let stay = there(&mut client, "k", KEYS);
    let gone = stay.iter().filter(|&&stays| !stays).count();
    wait_until("all were heard of", || listen(&mut listener) >= gone);
    for (number, stays) in stay.iter().enumerate() {
        let is_heard = heard.contains(&format!("k:{number}"));
        assert_eq!(is_heard, !stays, "k:{number}");
    }
}
