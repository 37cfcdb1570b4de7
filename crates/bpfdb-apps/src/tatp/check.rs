//! The check of the data at the end. A column that clients have written holds what one of them wrote
//! last; every other one is as it was.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::rows::{
    self, BIT_1, DATA_A, Facility, LENGTH_MAX, SUBSCRIBER_LENGTH, Subscriber, VLR_LOCATION,
};
use super::{Forwarding, Tatp};
use crate::client::Client;

/// What the calls of one client have done. Its calls end in their order, so that of all that it
/// wrote to a column only the last can be there.
#[derive(Debug, Default)]
pub struct Tally {
    /// How often each row was inserted, less how often it was deleted.
    pub rows: BTreeMap<Forwarding, i64>,
    /// Their last ends and numbers.
    pub forwardings: BTreeMap<Forwarding, String>,
    /// By subscriber; `data_a` also by type.
    pub bit_1: BTreeMap<i64, String>,
    pub data_a: BTreeMap<(i64, i64), String>,
    pub vlr_location: BTreeMap<i64, String>,
}

type Column<K> = fn(&Tally) -> &BTreeMap<K, String>;
type Table = BTreeMap<String, String>;

/// May this be there, where `before` was in the beginning?
fn may_be<K: Ord>(
    there: &str,
    before: &str,
    tallies: &[Tally],
    column: Column<K>,
    key: &K,
) -> bool {
    let mut written = tallies
        .iter()
        .filter_map(|tally| column(tally).get(key))
        .peekable();
    match written.peek() {
        None => there == before,
        Some(_) => written.any(|value| value == there),
    }
}

pub(super) fn check(app: &Tatp, client: &mut Client, tallies: &[Tally]) -> Result<()> {
    let all = || (1..=app.subscribers).map(Subscriber::new);
    check_subscribers(client, tallies, all())?;
    let facilities = check_facilities(client, tallies, all())?;
    check_forwardings(client, tallies, &facilities, all())
}

/// Their numbers lead to them, and their rows have their columns.
fn check_subscribers(
    client: &mut Client,
    tallies: &[Tally],
    all: impl Iterator<Item = Subscriber>,
) -> Result<()> {
    let there = client.all("tatp:subscriber:")?;
    let numbers = client.all("tatp:number:")?;
    let mut count = 0;
    for subscriber in all {
        let (id, key) = (subscriber.id, format!("{:08}", subscriber.id));
        let leads_to = numbers.get(&rows::number(id));
        ensure!(leads_to == Some(&key), "number {id} leads to {leads_to:?}");
        let row = there.get(&key).map_or("", String::as_str);
        ensure!(row.len() == SUBSCRIBER_LENGTH, "subscriber {id}: {row:?}");
        let before = &subscriber.row;
        let is_right = row[..BIT_1] == before[..BIT_1]
            && may_be(
                &row[BIT_1..=BIT_1],
                &before[BIT_1..=BIT_1],
                tallies,
                |tally| &tally.bit_1,
                &id,
            )
            && row[BIT_1 + 1..VLR_LOCATION] == before[BIT_1 + 1..VLR_LOCATION]
            && may_be(
                &row[VLR_LOCATION..],
                &before[VLR_LOCATION..],
                tallies,
                |tally| &tally.vlr_location,
                &id,
            );
        ensure!(is_right, "subscriber {id}: {row}, which was {before}");
        count += 1;
    }
    ensure!(
        there.len() == count && numbers.len() == count,
        "subscribers: {}",
        there.len()
    );
    Ok(())
}

/// Of access data nothing changes; of facilities `data_a` does. The facilities that are there.
fn check_facilities(
    client: &mut Client,
    tallies: &[Tally],
    all: impl Iterator<Item = Subscriber>,
) -> Result<Table> {
    let access = client.all("tatp:access:")?;
    let facilities = client.all("tatp:facility:")?;
    let (mut accesses, mut count) = (0, 0);
    for subscriber in all {
        for (kind, row) in &subscriber.access {
            let there = access.get(&format!("{:08}:{kind}", subscriber.id));
            ensure!(
                there == Some(row),
                "access {}:{kind}: {there:?}",
                subscriber.id
            );
            accesses += 1;
        }
        for facility in &subscriber.facilities {
            check_facility(&facilities, tallies, subscriber.id, facility)?;
            count += 1;
        }
    }
    ensure!(access.len() == accesses, "access data: {}", access.len());
    ensure!(
        facilities.len() == count,
        "facilities: {}",
        facilities.len()
    );
    Ok(facilities)
}

fn check_facility(there: &Table, tallies: &[Tally], id: i64, facility: &Facility) -> Result<()> {
    let key = format!("{id:08}:{}", facility.kind);
    let row = there.get(&key).map_or("", String::as_str);
    let before = &facility.row;
    let is_right = row.len() == before.len()
        && row[..DATA_A.start] == before[..DATA_A.start]
        && may_be(
            &row[DATA_A],
            &before[DATA_A],
            tallies,
            |tally| &tally.data_a,
            &(id, facility.kind as i64),
        )
        && row[DATA_A.end..] == before[DATA_A.end..];
    ensure!(is_right, "facility {key}: {row}, which was {before}");
    Ok(())
}

/// Those are there that are expected, each of a facility that is there.
fn check_forwardings(
    client: &mut Client,
    tallies: &[Tally],
    facilities: &Table,
    all: impl Iterator<Item = Subscriber>,
) -> Result<()> {
    let there = client.all("tatp:forwarding:")?;
    let before: BTreeMap<Forwarding, String> = all
        .flat_map(|subscriber| subscriber.forwardings())
        .collect();
    let mut expected: BTreeMap<Forwarding, i64> = before.keys().map(|row| (*row, 1)).collect();
    for (row, count) in tallies.iter().flat_map(|tally| &tally.rows) {
        *expected.entry(*row).or_default() += count;
    }
    let wrong = expected.iter().find(|(_, count)| !(0..=1).contains(*count));
    ensure!(wrong.is_none(), "inserted, less deleted: {wrong:?}");
    expected.retain(|_, count| *count == 1);

    ensure!(there.len() == expected.len(), "rows: {}", there.len());
    for (row, _) in expected {
        let (id, kind, start) = row;
        let facility = format!("{id:08}:{kind}");
        ensure!(facilities.contains_key(&facility), "no {facility}");
        let value = there.get(&format!("{facility}:{start}"));
        let before = before.get(&row).map_or("", String::as_str);
        let is_right = value.is_some_and(|value| {
            may_be(value, before, tallies, |tally| &tally.forwardings, &row)
                && ends_in_time(value, start)
        });
        ensure!(is_right, "{facility}:{start}: {value:?}");
    }
    Ok(())
}

fn ends_in_time(value: &str, start: i64) -> bool {
    let end = value.get(..2).and_then(|end| end.parse::<i64>().ok());
    end.is_some_and(|end| (1..=LENGTH_MAX as i64).contains(&(end - start)))
}
