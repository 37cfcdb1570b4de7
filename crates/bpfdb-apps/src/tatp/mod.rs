//! TATP: `examples/procedures/tatp.lua`.

mod check;
pub mod rows;

use anyhow::{Result, bail, ensure};

use self::check::Tally;
use self::rows::{LENGTH_MAX, STARTS, Subscriber, TYPES};
use crate::application::Application;
use crate::client::{Client, Reply};
use crate::pattern::Pattern;
use crate::random::Random;

/// Of the specification's NURand, for up to a million subscribers.
const NON_UNIFORM: u64 = 65_535;

/// Subscribers whose rows are sent before the replies are read.
const CHUNK: i64 = 50;

#[derive(Debug)]
pub struct Tatp {
    subscribers: i64,
    patterns: Patterns,
}

#[derive(Debug)]
struct Patterns {
    get_subscriber_data: Pattern,
    get_new_destination: Pattern,
    get_access_data: Pattern,
    update_subscriber_data: Pattern,
    update_location: Pattern,
    insert_call_forwarding: Pattern,
    delete_call_forwarding: Pattern,
}

/// A row of call forwarding: subscriber, type and start.
pub type Forwarding = (i64, i64, i64);

#[derive(Clone, Copy, Debug)]
pub enum Transaction {
    GetSubscriberData(i64),
    /// From a start to an end.
    GetNewDestination(i64, i64, i64, i64),
    GetAccessData(i64, i64),
    UpdateSubscriberData(i64, i64, i64, i64),
    UpdateLocation(i64, i64),
    /// With an end and a number.
    InsertCallForwarding(Forwarding, i64, i64),
    DeleteCallForwarding(Forwarding),
}

impl Tatp {
    pub fn new(subscribers: u32) -> Self {
        let call = |rest: &str| Pattern::new(&format!("FCALL tatp_{rest}"));
        Self {
            subscribers: subscribers.into(),
            patterns: Patterns {
                get_subscriber_data: call("get_subscriber_data 1 tatp:subscriber:########"),
                get_new_destination: call("get_new_destination 1 tatp:facility:########:# @ @"),
                get_access_data: call("get_access_data 1 tatp:access:########:#"),
                update_subscriber_data: call(
                    "update_subscriber_data 2 tatp:subscriber:######## tatp:facility:########:# # ###",
                ),
                update_location: call("update_location 1 tatp:number:############### ##########"),
                insert_call_forwarding: call(
                    "insert_call_forwarding 1 tatp:number:############### # @ ## ###############",
                ),
                delete_call_forwarding: call(
                    "delete_call_forwarding 1 tatp:number:############### # @",
                ),
            },
        }
    }

    /// NURand of the specification.
    fn subscriber(&self, random: &mut Random) -> i64 {
        let subscribers = self.subscribers as u64;
        let mixed = random.below(NON_UNIFORM + 1) | (1 + random.below(subscribers));
        1 + (mixed % subscribers) as i64
    }

    fn forwarding(&self, random: &mut Random) -> Forwarding {
        (self.subscriber(random), a_type(random), a_start(random))
    }
}

fn a_type(random: &mut Random) -> i64 {
    1 + random.below(TYPES) as i64
}

fn a_start(random: &mut Random) -> i64 {
    STARTS[random.below(STARTS.len() as u64) as usize]
}

fn a_length(random: &mut Random) -> i64 {
    1 + random.below(LENGTH_MAX) as i64
}

impl Application for Tatp {
    type Call = Transaction;
    type Tally = Tally;

    fn library(&self) -> &'static str {
        include_str!("../../../../examples/procedures/tatp.lua")
    }

    fn fill(&self, client: &mut Client) -> Result<()> {
        for first in (1..=self.subscribers).step_by(CHUNK as usize) {
            let (mut requests, mut count) = (Vec::new(), 0);
            for id in first..(first + CHUNK).min(self.subscribers + 1) {
                count += Subscriber::new(id).write(&mut requests);
            }
            client.all_ok(&requests, count)?;
        }
        Ok(())
    }

    /// The mix of the specification.
    fn next(&self, random: &mut Random) -> Transaction {
        use Transaction::*;
        match random.below(100) {
            0..35 => GetSubscriberData(self.subscriber(random)),
            35..45 => {
                let (id, kind, start) = self.forwarding(random);
                GetNewDestination(id, kind, start, 1 + random.below(24) as i64)
            }
            45..80 => GetAccessData(self.subscriber(random), a_type(random)),
            80..82 => UpdateSubscriberData(
                self.subscriber(random),
                a_type(random),
                random.below(2) as i64,
                random.below(256) as i64,
            ),
            82..96 => {
                let location = random.below(1 << 32) as i64;
                UpdateLocation(self.subscriber(random), location)
            }
            96..98 => {
                let row = self.forwarding(random);
                let end = row.2 + a_length(random);
                InsertCallForwarding(row, end, self.subscriber(random))
            }
            _ => DeleteCallForwarding(self.forwarding(random)),
        }
    }

    fn function(&self, call: &Transaction) -> &'static str {
        match call {
            Transaction::GetSubscriberData(..) => "tatp_get_subscriber_data",
            Transaction::GetNewDestination(..) => "tatp_get_new_destination",
            Transaction::GetAccessData(..) => "tatp_get_access_data",
            Transaction::UpdateSubscriberData(..) => "tatp_update_subscriber_data",
            Transaction::UpdateLocation(..) => "tatp_update_location",
            Transaction::InsertCallForwarding(..) => "tatp_insert_call_forwarding",
            Transaction::DeleteCallForwarding(..) => "tatp_delete_call_forwarding",
        }
    }

    fn write(&self, call: &Transaction, to: &mut Vec<u8>) {
        use Transaction::*;
        let patterns = &self.patterns;
        match *call {
            GetSubscriberData(id) => patterns.get_subscriber_data.write(to, &[id]),
            GetNewDestination(id, kind, start, end) => {
                let numbers = [id, kind, start, end];
                patterns.get_new_destination.write(to, &numbers);
            }
            GetAccessData(id, kind) => patterns.get_access_data.write(to, &[id, kind]),
            UpdateSubscriberData(id, kind, bit, data) => {
                let numbers = [id, id, kind, bit, data];
                patterns.update_subscriber_data.write(to, &numbers);
            }
            UpdateLocation(id, location) => patterns.update_location.write(to, &[id, location]),
            InsertCallForwarding((id, kind, start), end, number) => {
                let numbers = [id, kind, start, end, number];
                patterns.insert_call_forwarding.write(to, &numbers);
            }
            DeleteCallForwarding((id, kind, start)) => {
                patterns
                    .delete_call_forwarding
                    .write(to, &[id, kind, start]);
            }
        }
    }

    fn count(&self, call: &Transaction, reply: &Reply, tally: &mut Tally) -> Result<&'static str> {
        use Transaction::*;
        if reply.is_nil() {
            return match call {
                GetSubscriberData(_) | UpdateLocation(..) => bail!("{call:?}: no such row"),
                _ => Ok("no such row"),
            };
        }
        match *call {
            GetSubscriberData(id) => {
                let row = reply.text()?;
                let number = rows::number(id);
                let is_whole = row.starts_with(&number) && row.len() == rows::SUBSCRIBER_LENGTH;
                ensure!(is_whole, "{call:?}: {row}");
            }
            GetNewDestination(..) => {
                let numbers = reply.text()?;
                let length = rows::NUMBER_LENGTH;
                ensure!(numbers.len().is_multiple_of(length), "{call:?}: {numbers}");
            }
            GetAccessData(..) => {
                let row = reply.text()?;
                ensure!(row.len() == rows::ACCESS_LENGTH, "{call:?}: {row}");
            }
            InsertCallForwarding(row, end, number) => {
                *tally.rows.entry(row).or_default() += 1;
                let value = format!("{end:02}{}", rows::number(number));
                tally.forwardings.insert(row, value);
            }
            DeleteCallForwarding(row) => *tally.rows.entry(row).or_default() -= 1,
            UpdateSubscriberData(id, kind, bit, data) => {
                tally.bit_1.insert(id, bit.to_string());
                tally.data_a.insert((id, kind), format!("{data:03}"));
            }
            UpdateLocation(id, location) => {
                tally.vlr_location.insert(id, format!("{location:010}"));
            }
        }
        Ok("done")
    }

    fn check(&self, client: &mut Client, tallies: Vec<Tally>) -> Result<()> {
        check::check(self, client, &tallies)
    }
}
