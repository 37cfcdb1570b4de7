//! Money is conserved: `stress::transfer` of `bpfdb-tests`, where each payment and each audit is
//! one call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bpfdb::{Engine, Session};
use bpfdb_procedures::inside::Compiler;
use bpfdb_tests::random::Random;

use crate::isolation::actors::{Acted, Called, Calls, Inside, Stop, Tally};
use crate::isolation::paths::{Path, Served};
use crate::isolation::{SHORT, alone, seed, volume};

pub(crate) const LIBRARY: &str = include_str!("money.lua");
const DEPOSIT: u64 = 100;
/// Of each payer.
const TRANSFERS: usize = 125;
/// Where auditors write sums, one each.
const SUMS: [&str; 2] = ["sum 0", "sum 1"];

type Clients<'a> = Vec<Box<dyn Calls + 'a>>;

struct Bank {
    keys: Vec<String>,
    /// Longest filling of a value.
    longest: usize,
    transfers: usize,
    seed: u64,
    paying: AtomicUsize,
    failed: AtomicBool,
}

impl Bank {
    fn open(session: &mut Session, accounts: usize, longest: usize, scale: usize) -> Self {
        // Names of all lengths: some live in the cell, some do not.
        let name = |number: usize| format!("account {number}{}", ".".repeat(number * 7 % 60));
        let keys: Vec<String> = (0..accounts).map(name).collect();
        for key in &keys {
            let value = format!("{DEPOSIT:08}");
            let done = session.set(key.as_bytes(), value.as_bytes());
            done.expect("nobody holds it");
        }
        Self {
            keys,
            longest,
            transfers: volume(TRANSFERS * scale),
            seed: seed(scale),
            paying: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn total(&self) -> u64 {
        DEPOSIT * self.keys.len() as u64
    }

    fn run(&self, payers: Clients<'_>, auditors: Clients<'_>) -> Tally {
        let seed = self.seed;
        self.paying.store(payers.len(), Ordering::Relaxed);
        let total = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (mut payer, number) in payers.into_iter().zip(seed..) {
                threads.push(scope.spawn(move || {
                    let done = self.pay_all(payer.as_mut(), Random::new(number));
                    self.paying.fetch_sub(1, Ordering::Relaxed);
                    done
                }));
            }
            for (mut auditor, sum) in auditors.into_iter().zip(SUMS) {
                threads.push(scope.spawn(move || self.audit_while(auditor.as_mut(), sum)));
            }
            let mut total = Tally::default();
            for thread in threads {
                let done = thread.join().expect("no panic");
                total.add(done.unwrap_or_else(|error| panic!("BPFDB_SEED={seed}: {error}")));
            }
            total
        });
        println!(
            "{} accounts, to {}: {total:?}",
            self.keys.len(),
            self.longest
        );
        total
    }

    fn note(&self, acted: Result<Acted, String>, tally: &mut Tally) -> Result<Option<u64>, String> {
        let told = acted.and_then(|acted| {
            tally.note(&acted);
            match acted {
                Acted::Told(told) => told.parse().map(Some).map_err(|_| format!("told {told:?}")),
                Acted::Stopped(Stop::OutOfMemory) => Err("there is memory".into()),
                Acted::Stopped(_) => Ok(None),
            }
        });
        self.failed.fetch_or(told.is_err(), Ordering::Relaxed);
        told
    }

    fn pay_all(&self, client: &mut dyn Calls, mut random: Random) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for _ in 0..self.transfers {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            let from = random.below(self.keys.len());
            let to = (from + 1 + random.below(self.keys.len() - 1)) % self.keys.len();
            let wish = random.below(1000).to_string();
            let fillings = [(); 2].map(|()| {
                let letter = (b'a' + random.below(26) as u8) as char;
                letter.to_string().repeat(random.below(self.longest))
            });
            let end = match random.below(32) {
                0 => "fails",
                1 => "1.5",
                _ => "1",
            };
            let arguments = [wish.as_str(), &fillings[0], &fillings[1], end];
            let acted = client.call("pay", &[&self.keys[from], &self.keys[to]], &arguments);
            let told = self.note(acted, &mut tally)?;
            if told.is_some() && end == "fails" {
                return Err("it should have failed".into());
            }
        }
        Ok(tally)
    }

    /// By turns in a snapshot and with locks.
    fn audit_while(&self, client: &mut dyn Calls, sum: &str) -> Result<Tally, String> {
        let accounts: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let with_sum = [&[sum], &accounts[..]].concat();
        let mut tally = Tally::default();
        for round in 0.. {
            let over = self.paying.load(Ordering::Relaxed) == 0;
            if (round > 1 && over) || self.failed.load(Ordering::Relaxed) {
                break;
            }
            let acted = match round % 4 {
                0 => client.call("audit_and_write", &with_sum, &[]),
                _ => client.call("audit", &accounts, &[]),
            };
            if let Some(found) = self.note(acted, &mut tally)?
                && found != self.total()
            {
                self.failed.store(true, Ordering::Relaxed);
                return Err(format!("the accounts hold {found}"));
            }
        }
        Ok(tally)
    }

    /// All of it is there, and every value is whole; then nothing is.
    fn close(&self, session: &mut Session) {
        let mut sum = 0;
        for key in &self.keys {
            let value = session.get(key.as_bytes()).expect("it is read");
            let Some(value) = value else { continue };
            let (amount, filling) = value.split_at(8);
            let amount = std::str::from_utf8(amount).expect("digits");
            sum += amount.parse::<u64>().expect("digits");
            let is_whole = filling.iter().all(|byte| *byte == filling[0]);
            assert!(is_whole, "{key}: {}", value.escape_ascii());
        }
        assert_eq!(sum, self.total());
        for key in self.keys.iter().map(String::as_str).chain(SUMS) {
            session.delete(key.as_bytes()).expect("nobody holds it");
        }
    }
}

/// Few accounts with short values, and many with long ones. What all calls came to.
fn pay<'a>(
    engine: &Engine,
    scale: usize,
    payers: impl Fn() -> Clients<'a>,
    auditors: impl Fn() -> Clients<'a>,
) -> Tally {
    let mut session = engine.session().expect("a session");
    let mut total = Tally::default();
    for (accounts, longest) in [(4, 20), (30, 1000)] {
        let bank = Bank::open(&mut session, accounts, longest, scale);
        total.add(bank.run(payers(), auditors()));
        bank.close(&mut session);
    }
    assert!(total.committed > 0 && total.rolled_back > 0, "{total:?}");
    total
}

fn by_calls(path: Path, scale: usize) {
    let served = Served::shared(path);
    let _alone = alone();
    let before = served.figures();
    let clients = |count| {
        let client = || Box::new(Called(served.client())) as Box<dyn Calls>;
        (0..count).map(|_| client()).collect::<Vec<_>>()
    };
    let total = pay(served.engine(), scale, || clients(4), || clients(2));
    served.check_path(&before, total.calls());
    served.check_nothing_held();
    assert_eq!(total.conflicts, 0, "{total:?}");
}

/// From inside, and beside clients of a server.
fn from_inside(scale: usize) {
    let served = Served::shared(Path::Send);
    let _alone = alone();
    let engine = served.engine();
    let compiler = Compiler::new(engine).expect("a template");
    let library = compiler
        .library(LIBRARY.as_bytes())
        .expect("it is compiled");
    let inside = || {
        let session = engine.session().expect("a session");
        let library = library.clone();
        Box::new(Inside { library, session }) as Box<dyn Calls>
    };
    let called = || Box::new(Called(served.client())) as Box<dyn Calls>;
    pay(
        engine,
        scale,
        || vec![inside(), inside()],
        || vec![inside(), inside()],
    );
    let mixed = || vec![inside(), called(), inside(), called()];
    pay(engine, scale, mixed, || vec![inside(), called()]);
    served.check_nothing_held();
}

#[test]
fn money_is_conserved_over_tcp() {
    by_calls(Path::Tcp, SHORT);
}

#[test]
fn money_is_conserved_in_the_clients_send() {
    by_calls(Path::Send, SHORT);
}

#[test]
fn money_is_conserved_by_the_daemon() {
    by_calls(Path::Daemon, SHORT);
}

#[test]
fn money_is_conserved_from_inside() {
    from_inside(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn soak_money_of_procedures() {
    by_calls(Path::Tcp, 80);
    by_calls(Path::Send, 80);
    by_calls(Path::Daemon, 80);
    from_inside(80);
}
