//! INFO persistence and the metrics of the log say the same, and the truth.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_server::settings::Settings;

use super::metrics::{http, metrics_address};
use crate::operation::{ask, info, number};
use bpfdb_tests::server::{Client, TestServer, wait_until};

/// The log tries ten times a second to write on a full disk.
const MANY_ATTEMPTS: Duration = Duration::from_secs(1);

fn start(disk: &SimulatedDisk) -> TestServer {
    let settings = Settings {
        metrics_address: Some(([127, 0, 0, 1], 0).into()),
        ..Settings::default()
    };
    TestServer::start_logged(disk, settings)
}

fn page(address: SocketAddr) -> String {
    http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn metric(page: &str, name: &str) -> u64 {
    let prefix = format!("bpfdb_{name} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&prefix));
    let value = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.parse().unwrap_or_else(|_| panic!("{name} {value}"))
}

fn field(client: &mut Client, name: &str) -> u64 {
    number(client, "persistence", name)
}

/// Figures that hardly change without writes: those of INFO, and those of /metrics.
const SAME: &[(&str, &str)] = &[
    ("log_durable_timestamp", "log_durable_timestamp"),
    ("log_records", "log_records_total"),
    ("log_bytes", "log_bytes_total"),
    ("log_flushes", "log_flushes_total"),
    ("log_exposure_usec", "log_exposure_microseconds"),
    ("log_exposure_p99_usec", "log_exposure_p99_microseconds"),
    ("log_exposure_most_usec", "log_exposure_most_microseconds"),
    ("checkpoint_attempts", "checkpoint_attempts_total"),
    ("checkpoint_failures", "checkpoint_failures_total"),
    ("checkpoint_last_usec", "checkpoint_last_microseconds"),
    ("checkpoint_entries", "checkpoint_entries"),
    ("checkpoint_bytes", "checkpoint_bytes"),
    ("checkpoint_log_bytes", "log_since_checkpoint_bytes"),
    (
        "rdb_changes_since_last_save",
        "log_since_checkpoint_records",
    ),
    ("rdb_bgsave_in_progress", "checkpoint_running"),
    ("aof_rewrite_in_progress", "checkpoint_running"),
    ("aof_base_size", "checkpoint_bytes"),
    ("log_retained_bytes", "log_retained_bytes"),
    ("log_earliest_timestamp", "log_earliest_timestamp"),
    ("log_earliest_time", "log_earliest_seconds"),
];

/// All of them at one moment.
fn figures(client: &mut Client) -> Vec<u64> {
    let page = ask(client, "INFO persistence");
    let value = |name: &str| {
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {page}"))
    };
    SAME.iter().map(|(name, _)| value(name)).collect()
}

fn compare(client: &mut Client, address: SocketAddr) {
    assert_eq!(client.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    // Some change by themselves, and on a slow machine between any two looks.
    wait_until("both tell the same", || {
        let before = figures(client);
        let page = page(address);
        let after = figures(client);
        let wrong = SAME
            .iter()
            .zip(before.iter().zip(&after))
            .find(|&(names, (a, b))| {
                let value = metric(&page, names.1);
                value < *a.min(b) || value > *a.max(b)
            });
        wrong.inspect(|wrong| println!("{wrong:?}")).is_none()
    });
}

#[test]
fn figures_of_log_and_checkpoints_are_true() {
    let disk = SimulatedDisk::new(1);
    let server = start(&disk);
    let mut client = server.client();
    let address = metrics_address(&mut client);
    for key in 0..10 {
        assert_eq!(
            client.say(&format!("SET key:{key} {}", "v".repeat(1000))),
            "+OK\r\n"
        );
    }
    compare(&mut client, address);
    assert_eq!(field(&mut client, "log_records"), 10);
    assert_eq!(field(&mut client, "aof_base_size"), 0, "no checkpoint yet");
    let log = field(&mut client, "aof_current_size");
    assert!((10_000..20_000).contains(&log), "{log}");
    assert_eq!(log, field(&mut client, "log_bytes"));
    assert_eq!(metric(&page(address), "checkpoint_finished_seconds"), 0);

    assert_eq!(client.say("SAVE"), "+OK\r\n");
    assert_eq!(client.say("SET key:0 short"), "+OK\r\n");
    compare(&mut client, address);
    let base = field(&mut client, "aof_base_size");
    let files = disk
        .names()
        .into_iter()
        .filter(|name| name.starts_with("checkpoint"));
    let sizes: Vec<u64> = files
        .map(|name| disk.contents(&name).expect("listed").len() as u64)
        .collect();
    assert!(sizes.contains(&base), "{base} is none of {sizes:?}");
    let since = field(&mut client, "checkpoint_log_bytes");
    assert!(0 < since && since < 1000, "{since}");
    assert_eq!(field(&mut client, "aof_current_size"), base + since);
    assert_eq!(field(&mut client, "checkpoint_entries"), 10);
    assert!(field(&mut client, "checkpoint_last_usec") > 0);
    let finished = metric(&page(address), "checkpoint_finished_seconds");
    let now = UNIX_EPOCH.elapsed().expect("later").as_secs();
    assert!(now - finished < 60, "{finished}");
    assert_eq!(field(&mut client, "rdb_last_save_time"), finished);
    assert_eq!(field(&mut client, "rdb_last_load_keys_loaded"), 0);

    drop(client);
    server.stop();
    let server = start(&disk);
    let mut client = server.client();
    assert_eq!(field(&mut client, "rdb_last_load_keys_loaded"), 10);
    assert_eq!(field(&mut client, "rdb_last_load_keys_expired"), 0);
    assert_eq!(field(&mut client, "aof_base_size"), base);
}

/// The lines of the metrics that say how the log is, and why.
fn says_state(client: &mut Client, address: SocketAddr, state: &str) {
    let (mut reason, mut page) = (String::new(), String::new());
    // The log tries again and again on a full disk, and may fail at another step.
    wait_until("both tell the same", || {
        reason = info(client, "persistence", "log_refusal");
        page = self::page(address);
        reason == info(client, "persistence", "log_refusal")
    });
    let has = |line: &str| page.lines().any(|other| other == line);
    for one in ["writing", "stalled", "full", "failed"] {
        let is_it = u8::from(one == state);
        let line = format!("bpfdb_log_state{{state=\"{one}\"}} {is_it}");
        assert!(has(&line), "{line} in {page}");
    }
    assert_eq!(info(client, "persistence", "log_state"), state);
    assert_eq!(metric(&page, "log_writable"), u64::from(reason.is_empty()));
    if reason.is_empty() {
        assert!(!page.contains("bpfdb_log_refusal{"), "{page}");
    } else {
        let reason = reason.replace('"', "'");
        let line = format!("bpfdb_log_refusal{{reason=\"{reason}\"}} 1");
        assert!(has(&line), "{line} in {page}");
    }
}

#[test]
fn a_full_disk_is_told_as_long_as_it_is_full() {
    let disk = SimulatedDisk::new(3);
    let server = start(&disk);
    let mut client = server.client();
    let address = metrics_address(&mut client);
    says_state(&mut client, address, "writing");
    disk.set_capacity(0);
    let value = "v".repeat(10_000);
    wait_until("the disk is full", || {
        let told = client.say(&format!("SET k {value}"));
        told.starts_with("-MISCONF no space")
    });
    says_state(&mut client, address, "full");
    let reason = info(&mut client, "persistence", "log_refusal");
    assert!(reason.starts_with("no space for the log"), "{reason}");
    // Each other reason would be another series of the metrics.
    thread::sleep(MANY_ATTEMPTS);
    assert_eq!(info(&mut client, "persistence", "log_refusal"), reason);
    disk.set_capacity(usize::MAX);
    wait_until("there is space", || client.say("SET a 1") == "+OK\r\n");
    says_state(&mut client, address, "writing");
}

#[test]
fn why_the_engine_is_read_only_is_told() {
    let disk = SimulatedDisk::new(2);
    let server = start(&disk);
    let mut client = server.client();
    let address = metrics_address(&mut client);
    says_state(&mut client, address, "writing");
    assert_eq!(info(&mut client, "persistence", "log_refusal"), "");
    for operation in [Operation::Write, Operation::Flush] {
        for nth in 0..4 {
            disk.fail(operation, nth, Fault::Error);
        }
    }
    wait_until("the log has failed", || {
        client.say("SET a 1").starts_with("-MISCONF ")
    });
    says_state(&mut client, address, "failed");
    let reason = info(&mut client, "persistence", "log_refusal");
    assert!(reason.starts_with("the log has failed"), "{reason}");
}

/// Rows of docs/metrics.md: name, section and field of INFO.
fn documented() -> Vec<(String, Option<(String, String)>)> {
    let page = include_str!("../../../../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells[0].trim_start_matches("| ").trim_matches('`');
        let info = cells[2].split_once(": ");
        let field = info.map(|(section, field)| (section.into(), field.trim_matches('`').into()));
        (name.to_owned(), field)
    })
    .collect()
}

/// That every row is there, and once, is shown for all of them here; what they count has tests of
/// its own.
#[test]
fn every_documented_metric_is_served() {
    let server = start(&SimulatedDisk::new(5));
    let mut client = server.client();
    // In a slot, so that there is a size class.
    client.say(&format!("SET a {}", "x".repeat(100)));
    let metrics = page(metrics_address(&mut client));
    let rows = documented();
    assert!(rows.len() > 90, "{}", rows.len());
    for (name, info) in rows {
        // Why the log refuses writes is there only while it does.
        if name == "log_refusal{reason}" {
            continue;
        }
        // This server has no tier.
        if name.starts_with("tier_") {
            assert!(!metrics.contains(&format!("bpfdb_{name} ")), "{name}");
            continue;
        }
        let (family, label) = name.split_once('{').unwrap_or((&name, ""));
        let described = family.trim_end_matches("_total");
        let help = format!("# HELP bpfdb_{described} ");
        let times = metrics.lines().filter(|line| line.starts_with(&help));
        assert_eq!(times.count(), 1, "{name}");
        let sample = format!("bpfdb_{family} ");
        let samples = metrics.lines().filter(|line| line.starts_with(&sample));
        assert_eq!(samples.count(), usize::from(label.is_empty()), "{name}");
        let Some((section, field)) = info else {
            continue;
        };
        let start = match field.strip_suffix('…') {
            Some(start) => start.to_owned(),
            None => format!("{field}:"),
        };
        let section = ask(&mut client, &format!("INFO {section}"));
        let lines = section
            .lines()
            .filter(|line| line.starts_with(&start))
            .count();
        let least = usize::from(!field.contains("size_classes"));
        assert!(lines >= least, "{field}");
        assert!(lines <= 1 || field.ends_with('…'), "{field}");
    }
    server.stop();
}
