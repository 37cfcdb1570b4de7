//! Cold values beside what eviction has: access words, victims.

use bpfdb::{Access, Hand, Sample, Session, Tracking, Victim};

use crate::it::engine::{ByHand, value_of};

/// The only record.
fn sampled(session: &mut Session) -> Vec<Victim> {
    let sample = Sample {
        count: 100,
        expiring_only: false,
        pages: 16,
    };
    let (mut hand, mut victims) = (Hand::default(), Vec::new());
    loop {
        let found = session.sample_victims(&mut hand, &sample).expect("sampled");
        victims.extend(found.victims);
        if found.round_ended {
            return victims;
        }
    }
}

#[test]
fn what_was_noted_of_its_use_stays_with_a_value_that_goes_and_comes_back() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let tracking = Tracking::Lfu {
        log_factor: 0,
        decay_minutes: 0,
    };
    by_hand.engine.set_access_tracking(tracking).expect("set");
    let value = value_of(4, 1);
    session.set(b"a", &value).expect("set");
    for _ in 0..20 {
        assert_eq!(session.get(b"a"), Ok(Some(value.clone())));
    }
    let noted = session.access_of(b"a").expect("an answer");
    let first = Access::FREQUENCY_FIRST;
    assert!(
        matches!(noted, Some(Access::Frequency(times)) if times >= first + 20),
        "{noted:?}"
    );
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &value, epoch));
    assert_eq!(by_hand.cold(), 1);
    assert_eq!(session.access_of(b"a"), Ok(noted));
    // It comes back, by an access that counts.
    assert_eq!(session.get(b"a"), Ok(Some(value.clone())));
    by_hand.assert_all_comes_back();
    let after = session.access_of(b"a").expect("an answer");
    let (Some(Access::Frequency(before)), Some(Access::Frequency(after))) = (noted, after) else {
        panic!("{noted:?} {after:?}");
    };
    assert!(after > before, "{before} {after}");
}

#[test]
fn a_link_to_older_versions_stays_while_accesses_are_noted() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    let mut reader = by_hand.engine.session().expect("a session");
    by_hand
        .engine
        .set_access_tracking(Tracking::Lru)
        .expect("set");
    let (old, new) = (value_of(5, 1), value_of(5, 2));
    session.set(b"a", &old).expect("set");
    reader.begin_read_only().expect("begun");
    assert_eq!(reader.get(b"a"), Ok(Some(old.clone())));
    let epoch = by_hand.demoter.settle().expect("an epoch");
    session.set(b"a", &new).expect("set");
    assert!(!by_hand.demote(b"a", &new, epoch));
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &new, epoch));
    session.begin().expect("begun");
    assert_eq!(session.get(b"a"), Ok(Some(new.clone())));
    session.commit().expect("committed");
    assert_eq!(reader.get(b"a"), Ok(Some(old)));
    // And comes back, while the older one is there.
    assert_eq!(session.get(b"a"), Ok(Some(new.clone())));
    reader.commit().expect("committed");
    by_hand.engine.sweep().expect("swept");
    by_hand.assert_all_comes_back();
    assert_eq!(session.get(b"a"), Ok(Some(new)));
}

#[test]
fn a_cold_value_is_evicted_if_it_is_what_was_sampled() {
    let mut by_hand = ByHand::new();
    let mut session = by_hand.engine.session().expect("a session");
    by_hand
        .engine
        .set_access_tracking(Tracking::Lru)
        .expect("set");
    let value = value_of(6, 1);
    session.set(b"a", &value).expect("set");
    let warm = sampled(&mut session);
    let epoch = by_hand.demoter.settle().expect("an epoch");
    assert!(by_hand.demote(b"a", &value, epoch));
    let evicted = session.evict(&warm).expect("an answer");
    assert_eq!((warm.len(), evicted.records), (1, 0));
    let cold = sampled(&mut session);
    let evicted = session.evict(&cold).expect("an answer");
    assert_eq!((cold.len(), evicted.records), (1, 1));
    assert_eq!(session.get(b"a"), Ok(None));
    by_hand.assert_all_comes_back();
}
