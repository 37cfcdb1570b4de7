//! SmallBank: `examples/procedures/smallbank.lua`.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use crate::application::Application;
use crate::client::{Client, Reply};
use crate::pattern::Pattern;
use crate::random::Random;

/// Some customers are asked for more often than others: as in H-Store's version.
const HOT_PERCENT: u64 = 25;
const HOT_CUSTOMERS: u64 = 100;

/// Cents, as in H-Store's version.
pub const DEPOSIT: i64 = 130;
pub const SAVINGS: i64 = 2020;
pub const CHECK: i64 = 500;
pub const PAYMENT: i64 = 500;

/// Requests that are sent before the replies are read.
const CHUNK: i64 = 500;

#[derive(Debug)]
pub struct SmallBank {
    customers: u64,
    /// Of each account in the beginning.
    balance: i64,
    patterns: Patterns,
}

#[derive(Debug)]
struct Patterns {
    fill: [Pattern; 3],
    balance: Pattern,
    deposit_checking: Pattern,
    transact_savings: Pattern,
    amalgamate: Pattern,
    write_check: Pattern,
    send_payment: Pattern,
}

/// The customers are numbers; amounts in cents.
#[derive(Clone, Copy, Debug)]
pub enum Transaction {
    Balance(i64),
    DepositChecking(i64, i64),
    TransactSavings(i64, i64),
    Amalgamate(i64, i64),
    WriteCheck(i64, i64),
    SendPayment(i64, i64, i64),
}

/// What each customer got, savings and checking together, less what went out. How AMALGAMATE's
/// sum was divided between the two is not shown.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<i64, i64>);

impl Tally {
    fn add(&mut self, customer: i64, cents: i64) {
        *self.0.entry(customer).or_default() += cents;
    }
}

impl SmallBank {
    pub fn new(customers: u32, balance: i64) -> Self {
        let one = "bank:account:############";
        let call = |rest: &str| Pattern::new(&format!("FCALL bank_{rest}").replace('%', one));
        Self {
            customers: customers.into(),
            balance,
            patterns: Patterns {
                fill: [
                    Pattern::new(&format!("SET {one} @")),
                    Pattern::new("SET bank:savings:@ @"),
                    Pattern::new("SET bank:checking:@ @"),
                ],
                balance: call("balance 1 %"),
                deposit_checking: call("deposit_checking 1 % @"),
                transact_savings: call("transact_savings 1 % @"),
                amalgamate: call("amalgamate 2 % %"),
                write_check: call("write_check 1 % @"),
                send_payment: call("send_payment 2 % % @"),
            },
        }
    }

    fn customer(&self, random: &mut Random) -> i64 {
        let is_hot = random.below(100) < HOT_PERCENT;
        let bound = if is_hot {
            self.customers.min(HOT_CUSTOMERS)
        } else {
            self.customers
        };
        random.below(bound) as i64
    }

    fn two_customers(&self, random: &mut Random) -> (i64, i64) {
        let first = self.customer(random);
        loop {
            let second = self.customer(random);
            if second != first {
                return (first, second);
            }
        }
    }
}

impl Application for SmallBank {
    type Call = Transaction;
    type Tally = Tally;

    fn library(&self) -> &'static str {
        include_str!("../../../examples/procedures/smallbank.lua")
    }

    fn fill(&self, client: &mut Client) -> Result<()> {
        let [account, savings, checking] = &self.patterns.fill;
        let mut requests = Vec::new();
        for first in (0..self.customers as i64).step_by(CHUNK as usize) {
            requests.clear();
            let all = first..(first + CHUNK).min(self.customers as i64);
            for customer in all.clone() {
                account.write(&mut requests, &[customer, customer]);
                savings.write(&mut requests, &[customer, self.balance]);
                checking.write(&mut requests, &[customer, self.balance]);
            }
            client.all_ok(&requests, 3 * all.count())?;
        }
        Ok(())
    }

    /// The mix of H-Store's version.
    fn next(&self, random: &mut Random) -> Transaction {
        use Transaction::*;
        match random.below(100) {
            0..15 => Balance(self.customer(random)),
            15..30 => DepositChecking(self.customer(random), DEPOSIT),
            30..45 => {
                // The amount may be negative, which the version of H-Store does not try.
                let amount = [SAVINGS, -SAVINGS][random.below(2) as usize];
                TransactSavings(self.customer(random), amount)
            }
            45..60 => {
                let (from, to) = self.two_customers(random);
                Amalgamate(from, to)
            }
            60..75 => WriteCheck(self.customer(random), CHECK),
            _ => {
                let (from, to) = self.two_customers(random);
                SendPayment(from, to, PAYMENT)
            }
        }
    }

    fn function(&self, call: &Transaction) -> &'static str {
        match call {
            Transaction::Balance(..) => "bank_balance",
            Transaction::DepositChecking(..) => "bank_deposit_checking",
            Transaction::TransactSavings(..) => "bank_transact_savings",
            Transaction::Amalgamate(..) => "bank_amalgamate",
            Transaction::WriteCheck(..) => "bank_write_check",
            Transaction::SendPayment(..) => "bank_send_payment",
        }
    }

    fn write(&self, call: &Transaction, to: &mut Vec<u8>) {
        let patterns = &self.patterns;
        match *call {
            Transaction::Balance(who) => patterns.balance.write(to, &[who]),
            Transaction::DepositChecking(who, amount) => {
                patterns.deposit_checking.write(to, &[who, amount]);
            }
            Transaction::TransactSavings(who, amount) => {
                patterns.transact_savings.write(to, &[who, amount]);
            }
            Transaction::Amalgamate(from, into) => patterns.amalgamate.write(to, &[from, into]),
            Transaction::WriteCheck(who, amount) => patterns.write_check.write(to, &[who, amount]),
            Transaction::SendPayment(from, into, amount) => {
                patterns.send_payment.write(to, &[from, into, amount]);
            }
        }
    }

    fn count(&self, call: &Transaction, reply: &Reply, tally: &mut Tally) -> Result<&'static str> {
        use Transaction::*;
        if reply.is_nil() {
            return match call {
                TransactSavings(..) | SendPayment(..) => Ok("refused"),
                _ => bail!("{call:?} was refused"),
            };
        }
        let number = reply.integer()?;
        match *call {
            Balance(_) => {}
            DepositChecking(who, amount) => tally.add(who, amount),
            TransactSavings(who, amount) => {
                ensure!(number >= 0, "{call:?}: savings are {number}");
                tally.add(who, amount);
            }
            WriteCheck(who, _) => {
                tally.add(who, -number);
                if number != CHECK {
                    ensure!(number == CHECK + 100, "{call:?} has taken {number}");
                    return Ok("overdrawn");
                }
            }
            // What is moved may be negative: checking is, after an overdraft.
            Amalgamate(from, to) => {
                tally.add(from, -number);
                tally.add(to, number);
            }
            SendPayment(from, to, amount) => {
                ensure!(number >= 0, "{call:?} leaves {number}");
                tally.add(from, -amount);
                tally.add(to, amount);
            }
        }
        Ok("done")
    }

    fn check(&self, client: &mut Client, tallies: Vec<Tally>) -> Result<()> {
        let accounts = client.all_numbers("bank:account:")?;
        let savings = client.all_numbers("bank:savings:")?;
        let checking = client.all_numbers("bank:checking:")?;
        for all in [&accounts, &savings, &checking] {
            ensure!(
                all.len() as u64 == self.customers,
                "accounts: {}",
                all.len()
            );
        }
        let debts = savings.iter().find(|&(_, &balance)| balance < 0);
        ensure!(debts.is_none(), "savings below 0: {debts:?}");
        let renamed = accounts
            .iter()
            .find(|(name, number)| name.parse() != Ok(**number));
        ensure!(renamed.is_none(), "another customer's name: {renamed:?}");

        let mut expected: BTreeMap<i64, i64> = (0..self.customers as i64)
            .map(|who| (who, 2 * self.balance))
            .collect();
        for (who, cents) in tallies.into_iter().flat_map(|Tally(all)| all) {
            *expected.entry(who).or_default() += cents;
        }
        for (who, cents) in expected {
            let key = who.to_string();
            let there = savings
                .get(&key)
                .zip(checking.get(&key))
                .map(|(a, b)| a + b);
            ensure!(
                there == Some(cents),
                "customer {who} has {there:?}, not {cents}"
            );
        }
        Ok(())
    }
}
