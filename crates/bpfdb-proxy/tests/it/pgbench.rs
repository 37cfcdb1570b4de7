//! pgbench, with more clients than servers: no transaction is lost, done twice, or done on another's server.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::postgres::{self, USER, printed, programs, psql};
use crate::proxy::{TestProxy, WAYS, Way};

const SERVERS: usize = 3;
const CLIENTS: usize = 8;
/// Of each client.
const TRANSACTIONS: usize = 40;
const PROTOCOLS: [&str; 3] = ["simple", "extended", "prepared"];

/// What tpcb-like does, in one round trip.
const PIPELINE: &str = "
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
\\startpipeline
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from pgbench_accounts where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update pgbench_branches set bbalance = bbalance + :delta where bid = :bid;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (:tid, :bid, :aid, :delta, current_timestamp);
end;
\\endpipeline
";

fn pgbench(port: u16, database: &str, arguments: &[&str]) {
    let mut command = Command::new(programs().join("pgbench"));
    bpfdb_tests::server::cgroup::keep(&mut command);
    command
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER])
        .args(arguments)
        .arg(database);
    let output = command.output().expect("pgbench runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
}

/// Runs a script with all clients. Each has a thread: pgbench waits for the reply to a Prepare, and so would the other
/// clients of its thread, with transactions that keep their servers.
fn run(port: u16, database: &str, protocol: &str, more: &[&str]) {
    let (clients, transactions) = (CLIENTS.to_string(), TRANSACTIONS.to_string());
    let size = [
        "-n",
        "-M",
        protocol,
        "-c",
        &clients,
        "-j",
        &clients,
        "-t",
        &transactions,
    ];
    pgbench(port, database, &[&size, more].concat());
}

/// Balances are the sums of what was done, of so many transactions.
fn is_right(database: &str, transactions: usize) {
    const SUMS: &str = "select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts)
        and sum(delta) = (select sum(tbalance) from pgbench_tellers)
        and sum(delta) = (select sum(bbalance) from pgbench_branches) from pgbench_history";
    let mut direct = psql(postgres::shared().port, USER, &[]);
    direct.args(["-d", database]);
    assert_eq!(printed(&mut direct, SUMS), format!("{transactions}|t"));
}

fn through(way: Way, script: &Path) {
    let proxy = TestProxy::start(way, SERVERS);
    let database = format!("pgbench_{way:?}").to_ascii_lowercase();
    let server = postgres::shared();
    server.direct(&format!("create database {database}"));
    pgbench(proxy.port, &database, &["-i", "-q"]);
    let mut done = 0;
    for protocol in PROTOCOLS {
        run(proxy.port, &database, protocol, &["-b", "tpcb-like"]);
        run(proxy.port, &database, protocol, &["-b", "select-only"]);
        done += CLIENTS * TRANSACTIONS;
    }
    for protocol in ["extended", "prepared"] {
        let script = script.to_str().expect("a path");
        run(proxy.port, &database, protocol, &["-f", script]);
        done += CLIENTS * TRANSACTIONS;
    }
    // A connection for each transaction.
    run(
        proxy.port,
        &database,
        "prepared",
        &["-C", "-b", "tpcb-like"],
    );
    done += CLIENTS * TRANSACTIONS;
    is_right(&database, done);
    proxy.brought(1);
    server.direct(&format!("drop database {database} with (force)"));
}

#[test]
fn all_protocols_do_each_transaction_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("pipeline.sql");
    fs::write(&script, PIPELINE).expect("written");
    for way in WAYS {
        through(way, &script);
    }
}
