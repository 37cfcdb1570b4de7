//! What an operator and a client's first minute need: AUTH, CLIENT, CONFIG,
//! INFO, SLOWLOG, the Unix-domain socket, metrics, time-outs and bounds.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod authentication;
mod bounds;
mod clients;
use bpfdb_tests::server as common;
mod config;
mod figures;
pub(crate) mod metrics;
mod persistence;
mod procedures;
mod unix;
mod workers;

use bpfdb_server::settings::Settings;
use common::{Client, Lent, TestServer};

/// Of the test's own, also its engine.
fn start(settings: Settings) -> TestServer {
    TestServer::start_with(&bpfdb::Options::default(), settings)
}

/// A server that has just started.
fn server(settings: Settings) -> Lent {
    TestServer::lent_new(&bpfdb::Options::default(), settings)
}

fn ask(client: &mut Client, command: &str) -> String {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    text(&client.ask(&words))
}

/// The text of a bulk reply.
fn text(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let (_, body) = text.split_once("\r\n").unwrap_or_default();
    body.trim_end_matches("\r\n").to_owned()
}

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let page = ask(client, &format!("INFO {section}"));
    let prefix = format!("{field}:");
    page.lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("no {field} in {page}"))
        .to_owned()
}

pub(crate) fn number(client: &mut Client, section: &str, field: &str) -> u64 {
    let value = info(client, section, field);
    value.parse().unwrap_or_else(|_| panic!("{field}:{value}"))
}
