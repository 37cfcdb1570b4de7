//! The rows of TATP that are there in the beginning.

use bpfdb_apps::tatp::rows::{ACCESS_LENGTH, NUMBER_LENGTH, SUBSCRIBER_LENGTH, Subscriber};

#[test]
fn rows_have_their_lengths() {
    for id in 1..100 {
        let subscriber = Subscriber::new(id);
        assert_eq!(subscriber.row.len(), SUBSCRIBER_LENGTH);
        assert!((1..=4).contains(&subscriber.access.len()));
        assert!((1..=4).contains(&subscriber.facilities.len()));
        for (_, row) in &subscriber.access {
            assert_eq!(row.len(), ACCESS_LENGTH);
        }
        for facility in &subscriber.facilities {
            assert_eq!(facility.row.len(), 1 + 3 + 3 + 5);
            for (_, row) in &facility.forwardings {
                assert_eq!(row.len(), 2 + NUMBER_LENGTH);
            }
        }
    }
}

#[test]
fn rows_are_the_same_each_time() {
    let row = || Subscriber::new(7).row;
    assert_eq!(row(), row());
}
