//! What the drivers check can fail: each application with a fault in its library, on Redis.

use bpfdb_tests::server as common;

use bpfdb_apps::application::{self, Application, Outcome, Usage};
use bpfdb_apps::client::{Address, Client};
use bpfdb_apps::random::Distribution;
use bpfdb_apps::rate_limiter::{Bucket, Window};
use bpfdb_apps::smallbank::SmallBank;
use bpfdb_apps::tatp::Tatp;
use bpfdb_apps::voter::{self, Voter};
use bpfdb_apps::{idempotency, lock};

use common::Redis;

const USAGE: Usage = Usage {
    clients: 8,
    calls: 2000,
    pipeline: 8,
    seed: 1,
};

struct Faulty {
    redis: Redis,
}

impl Faulty {
    fn new() -> Self {
        Self {
            redis: Redis::start(),
        }
    }

    /// Runs with `right` in the library replaced by `wrong`: the check says `expected`.
    fn fails(
        &self,
        library: &str,
        [right, wrong]: [&str; 2],
        expected: &str,
        run: impl FnOnce(&Address) -> anyhow::Result<Outcome>,
    ) {
        assert!(library.contains(right), "{right}");
        let address = Address::Tcp(self.redis.address);
        let mut client = Client::connect(&address).expect("a connection");
        client.ask(&["FLUSHALL"]).expect("no data");
        let library = library.replace(right, wrong);
        client.load_library(&library).expect("a library");
        let error = run(&address).expect_err(wrong);
        let error = format!("{error:#}");
        assert!(error.contains(expected), "{wrong}: {error}");
    }

    /// Each of these faults, and what the check says of it.
    fn each_fails<A: Application>(&self, app: &A, faults: &[(&str, &str, &str)]) {
        for &(right, wrong, expected) in faults {
            self.app_fails(app, [right, wrong], expected);
        }
    }

    fn app_fails<A: Application>(&self, app: &A, fault: [&str; 2], expected: &str) {
        self.fails(app.library(), fault, expected, |address| {
            application::run(app, address, &USAGE)
        });
    }
}

#[test]
fn voter_notices() {
    let app = Voter::new(voter::CONTESTANTS, 100, 4, Distribution::Zipf);
    let redis = Faulty::new();
    let faults = [
        ("votes >= limit", "votes > limit", "votes"),
        ("SET', phone, votes)", "SET', phone, 1)", "not"),
        ("return NO_CONTESTANT", "return ACCEPTED", "the reply is 0"),
        ("'INCR'", "'GET'", "votes: {}"),
        ("state .. ' '", "'?? '", "?? "),
    ];
    redis.each_fails(&app, &faults);
}

#[test]
fn smallbank_notices() {
    let app = SmallBank::new(100, 2000);
    let redis = Faulty::new();
    let faults = [
        (
            "'INCRBY', checking_of(to), moved",
            "'GET', checking_of(to)",
            "customer",
        ),
        (
            "checking_of(to), moved",
            "checking_of(from), moved",
            "customer",
        ),
        (
            "checking_of(to), amount",
            "checking_of(1), amount",
            "customer",
        ),
        ("checking - amount)", "checking)", "customer"),
        ("if savings < 0", "if savings < -5000", "savings are"),
        ("if left < 0", "if left < -5000", "leaves"),
        ("amount + PENALTY", "amount + 1", "has taken"),
    ];
    redis.each_fails(&app, &faults);
}

#[test]
fn tatp_notices() {
    let app = Tatp::new(20);
    let redis = Faulty::new();
    let faults = [
        ("'SETNX', key", "'GETSET', key", "inserted, less deleted"),
        (
            "'DEL', forwarding",
            "'EXISTS', forwarding",
            "inserted, less deleted",
        ),
        (
            "not redis.call('GET', 'tatp:facility:'",
            "not redis.call('STRLEN', 'tatp:facility:'",
            "no ",
        ),
        ("VLR_LOCATION - 1", "VLR_LOCATION", "GetSubscriberData"),
        // What is written, but not there, or not that.
        (
            "'tatp:subscriber:' .. id",
            "'tatp:subscriber:00000001'",
            "subscriber ",
        ),
        (
            "args[1] .. subscriber:sub(BIT_1 + 1)",
            "'2' .. subscriber:sub(BIT_1 + 1)",
            "subscriber ",
        ),
        ("args[2] .. facility", "'000' .. facility", "facility "),
        ("'SET', keys[2]", "'SET', keys[1]", "GetSubscriberData"),
        (
            "args[3] .. args[4]",
            "args[3] .. '000000000000007'",
            "000000000000007",
        ),
    ];
    redis.each_fails(&app, &faults);
}

#[test]
fn limiters_notice() {
    let redis = Faulty::new();
    let window = Window::new(2, 20, 100_000);
    redis.app_fails(
        &window,
        [">= limit * window", "> limit * window + window"],
        "has let",
    );
    let bucket = Bucket::new(2, 20, 100_000);
    redis.app_fails(&bucket, ["if over > 0", "if over > interval"], "reply");
    redis.app_fails(
        &bucket,
        ["'PX', full_at - now + 1000", "'PX', 1"],
        "more than",
    );
}

#[test]
fn locks_notice() {
    let redis = Faulty::new();
    // Who waits for a lock that is never released waits for ever: one client, one call.
    for (right, wrong, clients, calls, expected) in [
        ("not token or token ~= args[1]", "not token", 8, 400, "lock"),
        ("return 1", "return 0", 1, 1, "not its owner's"),
        ("'DEL'", "'EXISTS'", 1, 1, "was not released"),
    ] {
        let usage = Usage {
            clients,
            calls,
            ..USAGE
        };
        redis.fails(lock::LIBRARY, [right, wrong], expected, |address| {
            lock::run(address, &usage, 1)
        });
    }
}

#[test]
fn idempotency_notices() {
    let redis = Faulty::new();
    for (right, wrong, expected) in [
        // Two work on one request: one of them, whatever it does at its end, comes too late.
        ("{'pending'}", "{'new'}", "once_"),
        ("state:sub(2)", "args[1]", ", and"),
        ("'R' .. args[2]", "'P' .. args[2]", ": P"),
    ] {
        redis.fails(idempotency::LIBRARY, [right, wrong], expected, |address| {
            idempotency::run(address, &USAGE, 50)
        });
    }
}
