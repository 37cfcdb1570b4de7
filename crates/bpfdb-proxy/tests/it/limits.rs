//! Limits, and what clients hear of them.

use std::time::Duration;

use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Wire, error, query, start_packet};

/// The state of SQL with which a connection ends that sends this.
fn refused(proxy: &TestProxy, packet: &[u8]) -> String {
    let mut wire = Wire::open(proxy.port);
    wire.send(packet);
    let told = wire.until(b'Z');
    error(&told, b'C')
}

#[test]
fn there_are_no_more_clients_than_may_be() {
    let proxy = TestProxy::with(Way::Plain, |settings| settings.max_client_conn = 2);
    let _clients = [proxy.client(), proxy.client()];
    assert_eq!(refused(&proxy, &start_packet(postgres::USER, &[])), "53300");
}

#[test]
fn what_is_no_start_is_refused() {
    let proxy = TestProxy::start(Way::Plain, 2);
    assert_eq!(refused(&proxy, b"GET / HTTP/1.1\r\n\r\n"), "08P01");
    assert_eq!(refused(&proxy, &[0, 0, 0, 8, 0, 2, 0, 0]), "0A000");
    let replication = start_packet(postgres::USER, &[("replication", "true")]);
    assert_eq!(refused(&proxy, &replication), "0A000");
    // What PostgreSQL says of a user that there is not.
    assert_eq!(refused(&proxy, &start_packet("nobody_such", &[])), "28000");
}

#[test]
fn a_client_waits_so_long_for_a_server() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.default_pool_size = 1;
            settings.query_wait_timeout = Duration::from_millis(300);
        });
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.query("begin");
        let told = two.query("select 1");
        assert_eq!(error(&told, b'M'), "query_wait_timeout", "{way:?}");
        one.query("commit");
        assert_eq!(proxy.client().value("select 1"), "1");
    }
}

#[test]
fn modes_are_as_named() {
    use bpfdb_proxy::settings::PoolMode;

    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.pool_mode = PoolMode::Session;
            settings.default_pool_size = 2;
        });
        let (mut one, mut two) = (proxy.client(), proxy.client());
        let process = "select pg_backend_pid()";
        let first = one.value(process);
        assert_ne!(first, two.value(process), "{way:?}");
        assert_eq!(first, one.value(process));
        drop(proxy);
        let proxy = TestProxy::with(way, |settings| settings.pool_mode = PoolMode::Statement);
        let mut wire = proxy.client();
        assert_eq!(wire.value("select 1"), "1");
        wire.send(&query("begin"));
        // To the end of the connection.
        assert_eq!(error(&wire.until(0), b'C'), "08P01", "{way:?}");
    }
}
