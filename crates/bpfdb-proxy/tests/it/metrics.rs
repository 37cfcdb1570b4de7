//! The endpoint of metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::console::{ADMIN, columns, console, start};
use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::rows;

pub(crate) fn fetched(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

#[test]
fn pools_are_told_by_database_and_user() {
    for way in WAYS {
        let proxy = TestProxy::with(way, |settings| {
            settings.administration.metrics = Some(([127, 0, 0, 1], 0).into());
        });
        let mut client = proxy.client();
        for _ in 0..5 {
            assert_eq!(client.value("select 1"), "1");
        }
        let address = proxy.metrics.expect("an address");
        let page = fetched(address, "/metrics");
        let labels = format!("database=\"postgres\",user=\"{}\"", postgres::USER);
        for line in [
            format!("bpfdb_proxy_queries_total{{{labels}}} 5.0"),
            format!("bpfdb_proxy_clients{{{labels},state=\"active\"}} 1.0"),
            format!("bpfdb_proxy_servers{{{labels},state=\"idle\"}} 1.0"),
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{way:?}: {line}\n{page}"
            );
        }
        let has_kernel = page.contains("bpfdb_proxy_kernel_requests_total");
        assert_eq!(has_kernel, way != Way::Plain);
        assert!(fetched(address, "/health").starts_with("HTTP/1.1 200 "));
        assert!(fetched(address, "/other").starts_with("HTTP/1.1 404 "));
    }
}

/// What pgbouncer_exporter reads of the console: a table, columns that are labels, and columns that have to be
/// numbers.
type Exported = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const EXPORTED: [Exported; 3] = [
    (
        "databases",
        &[
            "name",
            "host",
            "port",
            "database",
            "force_user",
            "pool_mode",
        ],
        &[
            "pool_size",
            "reserve_pool",
            "max_connections",
            "current_connections",
            "paused",
            "disabled",
        ],
    ),
    (
        "stats_totals",
        &["database"],
        &[
            "query_count",
            "query_time",
            "bytes_received",
            "bytes_sent",
            "wait_time",
            "xact_count",
            "xact_time",
        ],
    ),
    (
        "pools",
        &["database", "user"],
        &[
            "cl_active",
            "cl_active_cancel_req",
            "cl_waiting",
            "cl_waiting_cancel_req",
            "sv_active",
            "sv_active_cancel",
            "sv_being_canceled",
            "sv_idle",
            "sv_used",
            "sv_tested",
            "sv_login",
            "maxwait",
        ],
    ),
];

/// Keys of tables of two columns and more: the key, and its number.
const EXPORTED_KEYS: [(&str, &[&str]); 2] = [
    (
        "LISTS",
        &[
            "databases",
            "users",
            "pools",
            "free_clients",
            "used_clients",
            "login_clients",
            "free_servers",
            "used_servers",
            "dns_names",
            "dns_zones",
            "dns_queries",
        ],
    ),
    ("CONFIG", &["max_client_conn", "max_user_connections"]),
];

fn number(text: &str) -> f64 {
    (text.parse()).unwrap_or_else(|_| panic!("{text} is no number"))
}

#[test]
fn pgbouncer_exporter_finds_what_it_reads() {
    let proxy = start(Way::Kernel, 2);
    assert_eq!(proxy.client().value("select 1"), "1");
    let mut operator = console(proxy.port, ADMIN);
    for (table, labels, numbers) in EXPORTED {
        let messages = operator.query(&format!("SHOW {table};"));
        let (names, rows) = (columns(&messages), rows(&messages));
        assert!(!rows.is_empty(), "{table}");
        let at = |name: &&str| {
            let found = names.iter().position(|found| found == name);
            found.unwrap_or_else(|| panic!("{table} has no {name}: {names:?}"))
        };
        for label in labels {
            at(label);
        }
        for name in numbers {
            let at = at(name);
            rows.iter().for_each(|row| assert!(number(&row[at]) >= 0.0));
        }
    }
    for (table, keys) in EXPORTED_KEYS {
        let rows = operator.rows(&format!("SHOW {table};"));
        for key in keys {
            let row = rows.iter().find(|row| row[0] == *key);
            let row = row.unwrap_or_else(|| panic!("{table} has no {key}"));
            assert!(number(&row[1]) >= 0.0, "{key}");
        }
    }
    // lib/pq's first statement, and the version.
    assert!(!operator.rows("SHOW STATS").is_empty());
    assert!(operator.rows("SHOW VERSION;")[0][0].starts_with("PgBouncer "));
}
