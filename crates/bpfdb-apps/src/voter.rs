//! Voter: `examples/procedures/voter.lua`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use crate::application::Application;
use crate::client::{Client, Reply, command};
use crate::pattern::Pattern;
use crate::random::{Distribution, Draw, Random};

/// As published: those of Voter.
pub const CONTESTANTS: u32 = 12;
/// Calls that name a contestant who is not there: one in so many, as published.
const INVALID_ONE_IN: u64 = 100;
const NOBODY: u32 = 99;

/// Area codes have three digits; other digits follow.
const AREAS: u32 = 300;
const FIRST_AREA: u32 = 201;
const PHONES_OF_AREA: i64 = 10_000_000;
const STATES: [&str; 50] = [
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS",
    "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY",
    "NC", "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV",
    "WI", "WY",
];

pub const FUNCTION: &str = "vote";

#[derive(Debug)]
pub struct Voter {
    contestants: u32,
    limit: u32,
    phones: Draw,
    pattern: Pattern,
}

/// A call: the voter, and the contestant.
#[derive(Clone, Copy, Debug)]
pub struct Vote {
    pub area: u32,
    pub phone: i64,
    pub contestant: u32,
}

/// What a client knows of votes that count.
#[derive(Debug, Default)]
pub struct Tally {
    of_phone: BTreeMap<i64, u32>,
    of_contestant: BTreeMap<u32, u64>,
}

impl Voter {
    /// So many contestants, and phones, each with at most `limit` votes.
    pub fn new(contestants: u32, phones: u32, limit: u32, distribution: Distribution) -> Self {
        let request = "FCALL vote 3 voter:area:### voter:contestant:## voter:phone:########## \
                       ########## ##";
        Self {
            contestants,
            limit,
            phones: Draw::new(distribution, phones),
            pattern: Pattern::new(&format!("{request} {limit}")),
        }
    }
}

fn state(area: u32) -> &'static str {
    STATES[area as usize % STATES.len()]
}

impl Application for Voter {
    type Call = Vote;
    type Tally = Tally;

    fn library(&self) -> &'static str {
        include_str!("../../../examples/procedures/voter.lua")
    }

    fn fill(&self, client: &mut Client) -> Result<()> {
        let mut requests = Vec::new();
        let data = self.data();
        for (key, value) in &data {
            command(&mut requests, &["SET", key, value]);
        }
        client.all_ok(&requests, data.len())
    }

    fn next(&self, random: &mut Random) -> Vote {
        let phone = self.phones.next(random);
        let area = FIRST_AREA + phone % AREAS;
        let contestant = match random.below(INVALID_ONE_IN) {
            0 => NOBODY,
            _ => 1 + random.below(self.contestants.into()) as u32,
        };
        Vote {
            area,
            phone: i64::from(area) * PHONES_OF_AREA + i64::from(phone),
            contestant,
        }
    }

    fn function(&self, _: &Vote) -> &'static str {
        FUNCTION
    }

    fn write(&self, vote: &Vote, to: &mut Vec<u8>) {
        let contestant = vote.contestant.into();
        let numbers = [
            vote.area.into(),
            contestant,
            vote.phone,
            vote.phone,
            contestant,
        ];
        self.pattern.write(to, &numbers);
    }

    fn count(&self, vote: &Vote, reply: &Reply, tally: &mut Tally) -> Result<&'static str> {
        let is_valid = vote.contestant != NOBODY;
        let end = reply.integer()?;
        ensure!(is_valid == (end != 1), "{vote:?}: the reply is {end}");
        match end {
            0 => {
                *tally.of_phone.entry(vote.phone).or_default() += 1;
                *tally.of_contestant.entry(vote.contestant).or_default() += 1;
                Ok("accepted")
            }
            1 => Ok("no such contestant"),
            2 => Ok("over the limit"),
            other => anyhow::bail!("the reply is {other}"),
        }
    }

    fn check(&self, client: &mut Client, tallies: Vec<Tally>) -> Result<()> {
        let mut expected = Tally::default();
        for tally in tallies {
            for (phone, votes) in tally.of_phone {
                *expected.of_phone.entry(phone).or_default() += votes;
            }
            for (contestant, votes) in tally.of_contestant {
                *expected.of_contestant.entry(contestant).or_default() += votes;
            }
        }
        self.check_phones(client, &expected)?;
        check_contestants(client, &expected)
    }
}

impl Voter {
    /// Keys and values that are there before the first vote.
    pub fn data(&self) -> Vec<(String, String)> {
        let areas = FIRST_AREA..FIRST_AREA + AREAS;
        let areas = areas.map(|area| (format!("voter:area:{area}"), state(area).to_owned()));
        let contestants = (1..=self.contestants).map(|contestant| {
            let key = format!("voter:contestant:{contestant:02}");
            (key, format!("Contestant {contestant}"))
        });
        areas.chain(contestants).collect()
    }

    /// Keys and arguments of a call, for callers without a protocol.
    pub fn words(&self, vote: &Vote) -> ([String; 3], [String; 3]) {
        let Vote {
            area,
            phone,
            contestant,
        } = vote;
        (
            [
                format!("voter:area:{area}"),
                format!("voter:contestant:{contestant:02}"),
                format!("voter:phone:{phone:010}"),
            ],
            [
                format!("{phone:010}"),
                format!("{contestant:02}"),
                self.limit.to_string(),
            ],
        )
    }

    /// Each has the votes that were accepted, and a record of each.
    fn check_phones(&self, client: &mut Client, expected: &Tally) -> Result<()> {
        let phones = client.all_numbers("voter:phone:")?;
        let mut records = client.all("voter:vote:")?;
        ensure!(
            phones.len() == expected.of_phone.len(),
            "phones are missing"
        );
        for (phone, &votes) in &expected.of_phone {
            let there = phones.get(&phone.to_string());
            ensure!(
                there == Some(&votes.into()),
                "{phone}: {there:?}, not {votes}"
            );
            ensure!(votes <= self.limit, "{phone} has {votes} votes");
            let area = (phone / PHONES_OF_AREA) as u32;
            for number in 1..=votes {
                let record = records.remove(&format!("{phone}:{number}"));
                let record = record.with_context(|| format!("no vote {number} of {phone}"))?;
                ensure!(record.starts_with(state(area)), "{phone}: {record}");
            }
        }
        ensure!(records.is_empty(), "votes that were not cast: {records:?}");
        Ok(())
    }
}

/// Each has the votes that were accepted; so have the records together.
fn check_contestants(client: &mut Client, expected: &Tally) -> Result<()> {
    let votes = client.all_numbers("voter:votes:")?;
    let mut of_records: BTreeMap<String, i64> = BTreeMap::new();
    for record in client.all("voter:vote:")?.into_values() {
        let (_, contestant) = record.split_once(' ').context("a contestant")?;
        *of_records.entry(contestant.to_owned()).or_default() += 1;
    }
    let expected = expected.of_contestant.iter();
    let expected: BTreeMap<String, i64> = expected
        .map(|(contestant, &votes)| (format!("{contestant:02}"), votes as i64))
        .collect();
    ensure!(votes == expected, "votes: {votes:?}, not {expected:?}");
    ensure!(of_records == expected, "votes, by record: {of_records:?}");
    Ok(())
}
