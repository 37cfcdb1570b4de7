//! Money is conserved.
//!
//! Accounts pay each other in transactions of several styles, some of which are
//! given up. Auditors add everything up, in snapshots and with read locks: the
//! sum is the same at every moment.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bpfdb_model::{Answer, Error, Op, Outcome};

use super::{Guests, Tally, in_parallel};
use crate::random::Random;
use crate::target::{Client, Target, scrub};

#[derive(Clone, Copy, Debug)]
pub struct Money {
    pub seed: u64,
    pub accounts: usize,
    pub payers: usize,
    pub auditors: usize,
    /// Tries of each payer.
    pub transfers: usize,
    /// Longest value, without the amount.
    pub longest: usize,
    /// If more than one, auditors hand in so many audits at once.
    pub audits_in_a_row: usize,
}

/// Of each account at the start.
pub const DEPOSIT: u64 = 100;

pub fn transfer<T: Target>(target: &T, plan: Money) -> Result<Tally, String> {
    transfer_with(target, plan, |_| ())
}

/// `guests` are invited when the accounts are open. They pay, too.
pub fn transfer_with<T: Target, G: Guests>(
    target: &T,
    plan: Money,
    guests: impl FnOnce(&[Vec<u8>]) -> G,
) -> Result<Tally, String> {
    let keys: Vec<Vec<u8>> = (0..plan.accounts).map(account).collect();
    let bank = Bank { plan, keys: &keys };
    bank.open_accounts(&mut target.client())?;
    let paying = AtomicUsize::new(plan.payers);
    let workers = plan.payers + plan.auditors;
    let tally = in_parallel(target, workers, guests(&keys), |number, client, stop| {
        let mut random = Random::new(plan.seed + number as u64);
        if number >= plan.payers {
            return bank.audit_while(client, &mut random, &paying, stop);
        }
        let result = bank.pay(client, &mut random, stop);
        paying.fetch_sub(1, Ordering::Relaxed);
        result
    })?;
    let mut client = target.client();
    bank.add_up(&mut client, &mut Random::new(0))?
        .map_err(|error| format!("GET at the end: {error}"))?;
    drop(client);
    scrub(target, &keys)?;
    Ok(tally)
}

/// Names of all lengths: some live in the cell, some do not.
fn account(number: usize) -> Vec<u8> {
    let mut name = format!("account {number}").into_bytes();
    name.resize(name.len() + number * 7 % 60, b'.');
    name
}

struct Bank<'a> {
    plan: Money,
    keys: &'a [Vec<u8>],
}

/// A finding outside, an Error of the engine inside.
type Checked<V> = Result<Result<V, Error>, String>;

impl Bank<'_> {
    fn open_accounts<C: Client>(&self, client: &mut C) -> Result<(), String> {
        for key in self.keys {
            let deposit = encode(DEPOSIT, 0);
            client
                .set(key, &deposit)
                .map_err(|error| format!("first deposit: {error}"))?;
        }
        Ok(())
    }

    fn pay<C: Client>(
        &self,
        client: &mut C,
        random: &mut Random,
        stop: &AtomicBool,
    ) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for _ in 0..self.plan.transfers {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match self.transaction(client, random)? {
                Ok(true) => tally.committed += 1,
                Ok(false) => tally.given_up += 1,
                Err(error) => {
                    tally.expect(error)?;
                    end_failed(client, random)?;
                }
            }
        }
        Ok(tally)
    }

    /// One transfer; false if given up.
    fn transaction<C: Client>(&self, client: &mut C, random: &mut Random) -> Checked<bool> {
        let from = random.below(self.keys.len());
        let to = (from + 1 + random.below(self.keys.len() - 1)) % self.keys.len();
        let (from, to) = (&self.keys[from], &self.keys[to]);
        if let Err(error) = client.begin() {
            return Err(format!("BEGIN: {error}"));
        }
        let mut steps = || -> Checked<()> {
            let for_update = random.one_in(2);
            let (paid, had) = match (
                read(client, from, for_update)?,
                read(client, to, for_update)?,
            ) {
                (Ok(paid), Ok(had)) => (paid, had),
                (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
            };
            let amount = random.below(paid as usize + 1) as u64;
            Ok(self
                .write(client, from, paid - amount, random)
                .and_then(|()| self.write(client, to, had + amount, random)))
        };
        if let Err(error) = steps()? {
            return Ok(Err(error));
        }
        match random.below(20) {
            0 => {
                client
                    .rollback()
                    .map_err(|error| format!("ROLLBACK: {error}"))?;
                Ok(Ok(false))
            }
            1 => {
                client.reconnect();
                Ok(Ok(false))
            }
            _ => Ok(client.commit().map(|()| true)),
        }
    }

    /// No money is no account.
    fn write<C: Client>(
        &self,
        client: &mut C,
        key: &[u8],
        amount: u64,
        random: &mut Random,
    ) -> Result<(), Error> {
        match amount {
            0 => client.delete(key).map(drop),
            _ => client.set(key, &encode(amount, random.below(self.plan.longest))),
        }
    }

    fn audit_while<C: Client>(
        &self,
        client: &mut C,
        random: &mut Random,
        paying: &AtomicUsize,
        stop: &AtomicBool,
    ) -> Result<Tally, String> {
        let mut tally = Tally::default();
        let go_on = || paying.load(Ordering::Relaxed) > 0 && !stop.load(Ordering::Relaxed);
        while tally.snapshots == 0 || go_on() {
            if self.plan.audits_in_a_row > 1 {
                self.audit_in_batches(client, random, &mut tally)?;
            } else if random.one_in(4) {
                self.audit_with_locks(client, random, &mut tally)?;
            } else {
                self.audit_snapshot(client, random)?;
                tally.snapshots += 1;
            }
            // Leaves the payers some time without a snapshot.
            std::thread::yield_now();
        }
        Ok(tally)
    }

    fn audit_snapshot<C: Client>(&self, client: &mut C, random: &mut Random) -> Result<(), String> {
        let fail = |error: Error| format!("Error in a read-only transaction: {error}");
        client.begin_read_only().map_err(fail)?;
        self.add_up(client, random)?.map_err(fail)?;
        client.commit().map_err(fail)
    }

    fn audit_with_locks<C: Client>(
        &self,
        client: &mut C,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<(), String> {
        client.begin().map_err(|error| format!("BEGIN: {error}"))?;
        match self.add_up(client, random)? {
            Ok(()) => client
                .commit()
                .map_err(|error| format!("COMMIT of a reader: {error}")),
            Err(error) => {
                tally.expect(error)?;
                client
                    .rollback()
                    .map_err(|error| format!("ROLLBACK: {error}"))
            }
        }
    }

    /// Many audits in one call, so that the processor is in the middle of an
    /// operator most of the time.
    fn audit_in_batches<C: Client>(
        &self,
        client: &mut C,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let locked: Vec<bool> = (0..self.plan.audits_in_a_row)
            .map(|_| random.one_in(4))
            .collect();
        let mut ops = Vec::new();
        for locked in &locked {
            ops.push(if *locked {
                Op::Begin
            } else {
                Op::BeginReadOnly
            });
            ops.extend(self.keys.iter().map(|key| Op::Get(key.clone())));
            ops.push(Op::Commit);
        }
        let outcomes = client.apply_all(&ops, 8 + self.plan.longest);
        let audits = outcomes.chunks(self.keys.len() + 2);
        for (locked, outcomes) in locked.iter().zip(audits) {
            let refused = outcomes.iter().find_map(|outcome| outcome.as_ref().err());
            match refused {
                None => self.check_audit(&outcomes[1..=self.keys.len()])?,
                Some(error) if *locked => tally.expect(*error)?,
                Some(error) => return Err(format!("Error in a read-only transaction: {error}")),
            }
            tally.snapshots += u64::from(!locked);
        }
        Ok(())
    }

    fn check_audit(&self, gets: &[Outcome]) -> Result<(), String> {
        let mut sum = 0;
        for get in gets {
            sum += match get {
                Ok(Answer::Value(value)) => decode(value).ok_or(format!("torn: {value:?}"))?,
                _ => 0,
            };
        }
        self.check_sum(sum)
    }

    fn check_sum(&self, sum: u64) -> Result<(), String> {
        match sum == DEPOSIT * self.keys.len() as u64 {
            true => Ok(()),
            false => Err(format!("the accounts hold {sum}")),
        }
    }

    fn add_up<C: Client>(&self, client: &mut C, random: &mut Random) -> Checked<()> {
        let mut sum = 0;
        for (number, key) in self.keys.iter().enumerate() {
            // Some audits last longer, so that transfers happen meanwhile.
            if number == self.keys.len() / 2 && random.one_in(4) {
                std::thread::yield_now();
            }
            match read(client, key, false)? {
                Ok(amount) => sum += amount,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.check_sum(sum).map(Ok)
    }
}

/// A failed transaction can end in three ways.
fn end_failed<C: Client>(client: &mut C, random: &mut Random) -> Result<(), String> {
    let end = match random.below(3) {
        0 => client.rollback(),
        1 => match client.commit() {
            Err(Error::RolledBack) => Ok(()),
            other => return Err(format!("COMMIT of a failed transaction: {other:?}")),
        },
        _ => {
            client.reconnect();
            Ok(())
        }
    };
    // COMMIT may have failed, and then there is nothing left to end.
    match end {
        Ok(()) | Err(Error::WrongState) => Ok(()),
        Err(error) => Err(format!("ROLLBACK: {error}")),
    }
}

fn read<C: Client>(client: &mut C, key: &[u8], for_update: bool) -> Checked<u64> {
    let value = match for_update {
        true => client.get_for_update(key),
        false => client.get(key),
    };
    match value {
        Ok(None) => Ok(Ok(0)),
        Ok(Some(value)) => match decode(&value) {
            Some(amount) => Ok(Ok(amount)),
            None => Err(format!("a torn value: {value:?}")),
        },
        Err(error) => Ok(Err(error)),
    }
}

/// The amount, then a filling that depends on it and on the length.
fn encode(amount: u64, filling: usize) -> Vec<u8> {
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(8 + filling, filling_byte(amount, filling));
    value
}

fn filling_byte(amount: u64, filling: usize) -> u8 {
    (amount.wrapping_mul(31) ^ filling as u64) as u8
}

fn decode(value: &[u8]) -> Option<u64> {
    let (amount, filling) = value.split_first_chunk()?;
    let amount = u64::from_le_bytes(*amount);
    let byte = filling_byte(amount, filling.len());
    filling
        .iter()
        .all(|actual| *actual == byte)
        .then_some(amount)
}
