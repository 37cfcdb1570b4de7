//! Long pipelines, as redis-py, go-redis and node-redis send them, on all ways to a server.

use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::install::run;
use bpfdb_tests::server::{TestServer, cgroup};

use super::{go_redis, node, redis_py};

/// Runs `session` with the address of each way: a path of a Unix-domain socket, or
/// HOST:PORT.
fn on_all_ways(session: impl Fn(&str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let start = |local_clients, unix_socket| {
        let settings = Settings {
            local_clients,
            unix_socket,
            ..Settings::default()
        };
        TestServer::lent_as_told(&bpfdb::Options::default(), settings)
    };
    let remote = start(LocalClients::Off, Some(path.clone()));
    let local = start(LocalClients::In(cgroup::own()), None);
    session(&remote.address.to_string());
    session(&local.address.to_string());
    session(path.to_str().expect("text"));
}

/// Commands of a pipeline, in words of a command line. Its requests and its replies are more than
/// the buffers of two sockets take: keys and values are long for that.
const SHORT: &str = "14000";
const LONG: &str = "100000";

fn of_redis_py(count: &str) {
    let (folder, interpreter) = redis_py::installed();
    let script = redis_py::source().file("pipelines.py");
    let script = script.to_str().expect("a path");
    on_all_ways(|address| {
        run(&interpreter, &[script, address, count], &folder);
    });
}

fn of_go_redis(count: &str) {
    let (folder, session) = go_redis::installed();
    on_all_ways(|address| {
        run(&session, &["pipelines", address, count], &folder);
    });
}

fn of_node_redis(count: &str) {
    let folder = node::installed("node_redis", "pipelines.mjs");
    on_all_ways(|address| {
        run("node", &["pipelines.mjs", address, count], &folder);
    });
}

#[test]
fn redis_py_is_answered() {
    of_redis_py(SHORT);
}

#[test]
fn go_redis_is_answered() {
    of_go_redis(SHORT);
}

#[test]
fn node_redis_is_answered() {
    of_node_redis(SHORT);
}

#[test]
#[ignore = "takes minutes"]
fn soak_long_pipelines() {
    of_redis_py(LONG);
    of_go_redis(LONG);
    of_node_redis(LONG);
}
