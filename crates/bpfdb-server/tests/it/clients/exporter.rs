//! prometheus-redis-exporter: what monitoring of Redis reads from INFO and elsewhere.
//! The package of Debian, as scripts/setup.sh installs it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};

use bpfdb_server::settings::Settings;
use bpfdb_tests::process::dies_with_us;
use tempfile::TempDir;

use bpfdb_tests::server::{Client, TestServer, free_port, wait_until};

/// An exporter that looks at a server.
struct Exporter {
    address: SocketAddr,
    process: Child,
    folder: TempDir,
}

impl Exporter {
    fn start(server: &TestServer) -> Self {
        // Somebody else may take the port before it does.
        const TRIES: usize = 20;
        (0..TRIES)
            .find_map(|_| Self::try_at(free_port(), server))
            .expect("the exporter starts")
    }

    fn try_at(port: u16, server: &TestServer) -> Option<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("created");
        let mut command = Command::new("prometheus-redis-exporter");
        command
            .args(["-debug", "-include-system-metrics", "-export-client-list"])
            .args(["-count-keys", "exported:*"])
            .args(["-web.listen-address", &address.to_string()])
            .args(["-redis.addr", &format!("redis://{}", server.address)])
            .stderr(log);
        let mut exporter = Self {
            address,
            process: dies_with_us(&mut command)
                .spawn()
                .expect("the exporter is installed by scripts/setup.sh"),
            folder,
        };
        let mut ready = false;
        wait_until("the exporter listens, or has ended", || {
            ready = TcpStream::connect(address).is_ok();
            ready || exporter.process.try_wait().expect("a child").is_some()
        });
        ready.then_some(exporter)
    }

    fn scrape(&self) -> Metrics {
        let fetch = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page)?;
            Ok(page)
        };
        let page = fetch().expect("a page");
        assert!(page.starts_with("HTTP/1.0 200 OK\r\n"), "{page}");
        Metrics { page }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Metrics {
    page: String,
}

impl Metrics {
    /// The value of a metric, with its labels if it has any.
    fn value(&self, name: &str) -> f64 {
        let behind = |line: &str| {
            let (metric, value) = line.rsplit_once(' ')?;
            (metric == name).then(|| value.parse().expect("a number"))
        };
        let found = self.page.lines().find_map(behind);
        found.unwrap_or_else(|| panic!("no {name} in {}", self.page))
    }

    /// The line of a metric of which not all labels are known.
    fn line(&self, start: &str) -> &str {
        let mut lines = self.page.lines();
        let found = lines.find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start} in {}", self.page))
    }

    fn of_command(&self, metric: &str, command: &str) -> f64 {
        self.value(&format!("redis_{metric}{{cmd=\"{command}\"}}"))
    }
}

/// Of the kernel, and of user space; with mistakes of both kinds.
fn work(client: &mut Client) {
    for i in 0..5 {
        client.say(&format!("SET exported:{i} {i}"));
    }
    for _ in 0..10 {
        client.say("GET exported:1");
    }
    client.say("GET absent");
    client.say("SETEX exported:2 1000 x");
    client.say("CLIENT SETNAME worker");
    client.say("CONFIG SET port 1");
    client.say("EXPIRE exported:1");
    client.say("EXPIRE exported:1 1000");
}

#[test]
fn redis_exporter() {
    // Nothing is slow, on whatever machine.
    let settings = Settings {
        slowlog_threshold: -1,
        ..Settings::default()
    };
    let server = TestServer::start_with(&bpfdb::Options::default(), settings);
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    work(&mut clients[0]);
    clients[1].say("PING");
    clients[2].say("PING");
    let exporter = Exporter::start(&server);
    let metrics = exporter.scrape();

    assert!(metrics.value("redis_up") > 0.0);
    // Is it ours?
    let id = f64::from(std::process::id());
    assert_eq!(metrics.value("redis_process_id"), id);
    for (name, expected) in [
        ("redis_connected_clients", 4.0),
        ("redis_db_keys{db=\"db0\"}", 5.0),
        ("redis_db_keys_expiring{db=\"db0\"}", 2.0),
        ("redis_keys_count{db=\"db0\",key=\"exported:*\"}", 5.0),
        ("redis_keyspace_hits_total", 10.0),
        ("redis_keyspace_misses_total", 1.0),
        ("redis_total_error_replies", 2.0),
        ("redis_connections_received_total", 4.0),
        ("redis_rejected_connections_total", 0.0),
        (
            "redis_memory_max_bytes",
            server.engine.memory_limit() as f64,
        ),
        ("redis_evicted_keys_total", 0.0),
        ("redis_slowlog_length", 0.0),
    ] {
        assert_eq!(metrics.value(name), expected, "{name}");
    }
    commands(&metrics);
    memory(&metrics);
    assert!(metrics.value("redis_uptime_in_seconds") < 600.0);
    let info = metrics.line("redis_instance_info{");
    assert!(info.contains("maxmemory_policy=\"noeviction\"") && info.contains("role=\"master\""));
    let client = metrics.line("redis_connected_clients_details{cmd=\"expire\"");
    assert!(client.contains("name=\"worker\"") && client.ends_with(" 1"));

    // It logs what it cannot parse for debugging only, and so the words are looked for.
    let log = exporter.log();
    assert!(log.contains("scrapeRedisHost() done"), "{log}");
    let is_complaint = |line: &&str| {
        let line = line.to_ascii_lowercase();
        let told = !line.contains("msg=\"info: ") && !line.contains("result: ");
        told && ([
            "level=warn",
            "level=err",
            "couldn't",
            "failed",
            "err:",
            "invalid",
        ]
        .iter())
        .any(|word| line.contains(word))
    };
    let complaints: Vec<&str> = log.lines().filter(is_complaint).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let failed = metrics.line("redis_exporter_last_scrape_error{");
    assert!(failed.ends_with(" 0"), "{failed}");
}

fn commands(metrics: &Metrics) {
    for (command, calls, rejected, failed) in [
        ("set", 5.0, 0.0, 0.0),
        ("get", 11.0, 0.0, 0.0),
        ("setex", 1.0, 0.0, 0.0),
        ("expire", 1.0, 1.0, 0.0),
        ("config|set", 1.0, 0.0, 1.0),
        ("ping", 2.0, 0.0, 0.0),
    ] {
        let of = |metric| metrics.of_command(metric, command);
        assert_eq!(of("commands_total"), calls, "{command}");
        assert_eq!(of("commands_rejected_calls_total"), rejected, "{command}");
        assert_eq!(of("commands_failed_calls_total"), failed, "{command}");
    }
    // All of those above, and a few of the exporter's own.
    let all = metrics.value("redis_commands_processed_total");
    assert!((22.0..40.0).contains(&all), "{all}");
    // The exporter asks for all settings first: more than a microsecond.
    assert!(metrics.of_command("commands_duration_seconds_total", "config|get") > 0.0);
    assert!(metrics.value("redis_net_input_bytes_total") > 500.0);
    assert!(metrics.value("redis_net_output_bytes_total") > 100.0);
}

fn memory(metrics: &Metrics) {
    let used = metrics.value("redis_memory_used_bytes");
    assert!(used >= f64::from(bpfdb::abi::BPFDB_PAGE_SIZE), "{used}");
    assert!(metrics.value("redis_memory_used_peak_bytes") >= used);
    let resident = metrics.value("redis_memory_used_rss_bytes");
    assert!(resident > bpfdb::SEGMENT_SIZE as f64, "{resident}");
    assert!(metrics.value("redis_total_system_memory_bytes") > resident);
    let ratio = metrics.value("redis_mem_fragmentation_ratio");
    assert!((1.0..1.5).contains(&ratio), "{ratio}");
}
