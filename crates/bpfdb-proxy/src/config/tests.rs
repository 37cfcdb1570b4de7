use std::time::Duration;

use super::*;
use crate::io::socket::Address;
use crate::settings::PoolMode;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pgbouncer.ini");
    fs::write(&path, text).expect("written");
    (folder, path)
}

fn failure(text: &str) -> String {
    let (folder, path) = file(text);
    let told = read(&path).expect_err("it is wrong").to_string();
    told.replace(&format!("{}/", folder.path().display()), "")
}

/// As many installations have it.
const TYPICAL: &str = "
;; a comment
[databases]
app = host=127.0.0.1 port=5433 dbname=app_production user=app password='a b' pool_size=5
reports = host=127.0.0.1 pool_mode=session timezone=UTC connect_query='select 1'
local =
* = host=127.0.0.1
bounded = host=127.0.0.1 min_pool_size=1 reserve_pool=2 max_db_connections=3 auth_user=asks auth_dbname=asked auth_query='select $1, ''a'''

[users]
batch = pool_mode=statement max_user_connections=4 max_user_client_connections=5
slow = pool_size=3 reserve_pool_size=1 query_timeout=60 transaction_timeout=1.5 query_wait_timeout=-1

[pgbouncer]
logfile = /var/log/postgresql/pgbouncer.log
pidfile = /var/run/postgresql/pgbouncer.pid
listen_addr = 127.0.0.1
listen_port = 6543
unix_socket_dir = /run/app
unix_socket_mode = 0770
auth_type = scram-sha-256
pool_mode = transaction
max_client_conn = 5000
default_pool_size = 40
server_idle_timeout = 0
server_reset_query_always = 0
admin_users = postgres, root
stats_users = stats
ignore_startup_parameters = extra_float_digits,search_path
query_wait_timeout = 2.5
tcp_keepidle = 60
pkt_buf = 8192

[bpfdb]
metrics_listen = 127.0.0.1:9127
";

#[test]
fn a_typical_file_is_read() {
    let (folder, path) = file(TYPICAL);
    let File { settings, warnings } = read(&path).expect("a file");
    let of_folder = format!("{}/", folder.path().display());
    let warnings: Vec<_> = warnings.iter().map(|w| w.replace(&of_folder, "")).collect();
    assert_eq!(
        warnings,
        ["pgbouncer.ini:32: pkt_buf has no effect: buffers are as long as they need to be"]
    );
    assert_eq!(settings.listen, ["127.0.0.1:6543".parse().expect("one")]);
    assert_eq!(settings.unix_socket_dirs, [PathBuf::from("/run/app")]);
    assert_eq!(settings.pool_mode, PoolMode::Transaction);
    assert_eq!(settings.max_client_conn, 5000);
    assert_eq!(settings.server_idle_timeout, Duration::ZERO);
    assert_eq!(settings.query_wait_timeout, Duration::from_millis(2500));
    assert_eq!(settings.ignore_startup_parameters.len(), 2);
    assert!(settings.keep_alive.is_on && settings.keep_alive.idle == 60);
    let administration = &settings.administration;
    assert_eq!(administration.admin_users, ["postgres", "root"]);
    assert_eq!(administration.unix_socket_mode, 0o770);
    let batch = &administration.users["batch"];
    assert_eq!(batch.pool_mode, Some(PoolMode::Statement));
    assert_eq!(batch.max_user_connections, Some(4));
    assert_eq!(batch.max_user_client_connections, Some(5));
    let slow = &administration.users["slow"];
    assert_eq!((slow.pool_size, slow.reserve_pool_size), (Some(3), Some(1)));
    assert_eq!(slow.query_timeout, Some(Duration::from_secs(60)));
    assert_eq!(slow.transaction_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(slow.query_wait_timeout, None);
    let bounded = &settings.databases["bounded"];
    assert_eq!(bounded.min_pool_size, Some(1));
    assert_eq!(bounded.reserve_pool, Some(2));
    assert_eq!(bounded.max_db_connections, Some(3));
    assert_eq!(bounded.auth_user.as_deref(), Some("asks"));
    assert_eq!(bounded.auth_dbname.as_deref(), Some("asked"));
    assert_eq!(bounded.auth_query.as_deref(), Some("select $1, 'a'"));
    let app = &settings.databases["app"];
    assert_eq!(app.password.as_deref(), Some("a b"));
    assert_eq!(app.pool_size, Some(5));
    let reports = &settings.databases["reports"];
    assert_eq!(reports.connect_query.as_deref(), Some("select 1"));
    assert_eq!(reports.parameters, [("timezone".into(), "UTC".into())]);
    let local = &settings.databases["local"].hosts[0].address;
    assert_eq!(*local, Some(Address::Unix("/run/app/.s.PGSQL.5432".into())));
}

#[test]
fn what_a_file_does_not_say_is_as_with_pgbouncer() {
    let (_folder, path) = file("[pgbouncer]\n");
    let settings = read(&path).expect("a file").settings;
    assert_eq!(settings.pool_mode, PoolMode::Session);
    assert_eq!(settings.max_client_conn, 100);
    assert_eq!((settings.listen.len(), settings.databases.len()), (0, 0));
}

#[test]
fn what_is_not_known_is_told_with_its_place() {
    for (text, told) in [
        (
            "[pgbouncer]\n\nmax_cleint_conn = 1",
            "3: max_cleint_conn is not known",
        ),
        ("[pgbuncer]\na = b", "2: there is no section [pgbuncer]"),
        (
            "[pgbouncer]\npool_mode = tx",
            "2: pool_mode: tx is none of session, transaction, statement",
        ),
        (
            "[pgbouncer]\nclient_tls_sslmode = require_",
            "2: client_tls_sslmode: require_ is none of disable, allow, prefer, require, verify-ca, verify-full",
        ),
        ("[databases]\na = hots=b", "2: database: hots is not known"),
        (
            "[databases]\npgbouncer =",
            "2: the name pgbouncer is the console's",
        ),
        (
            "[pgbouncer]\ndisable_pqexec = 1",
            "2: disable_pqexec: the proxy does not have a ban on simple queries",
        ),
        ("[users]\na = mode=b", "2: mode is not known"),
        (
            "[users]\na = max_user_connections=b",
            "2: max_user_connections: b is no number",
        ),
        (
            "[users]\na = query_timeout=b",
            "2: query_timeout: b is no number of seconds",
        ),
        (
            "[databases]\na = server_lifetime=b",
            "2: database: server_lifetime: b is no number of seconds",
        ),
        (
            "[databases]\na = host=127.0.0.1 reserve_pool=b",
            "2: database: reserve_pool is no number",
        ),
    ] {
        assert_eq!(failure(text), format!("pgbouncer.ini:{told}"));
    }
}

#[test]
fn what_is_set_is_shown() {
    let before = defaults().expect("defaults");
    for setting in PGBOUNCER.iter().chain(OWN) {
        assert_eq!(setting.shown(&before), setting.default, "{}", setting.name);
    }
    let set = |name, value| set(&before, name, value);
    let after = set("query_wait_timeout", "7")
        .expect("set")
        .expect("changed");
    let row = |row: &Shown| (row.0, row.1.clone());
    let shown: Vec<_> = all(&after).iter().map(row).collect();
    assert!(shown.contains(&("query_wait_timeout", "7".into())));
    assert!(set("listen_port", "1").expect("known").is_none());
    assert!(set("nothing", "1").is_err() && set("default_pool_size", "a").is_err());
}

#[test]
fn the_table_is_in_order() {
    assert!(PGBOUNCER.is_sorted_by_key(|setting| setting.name));
}

#[test]
fn rules_count_if_auth_type_says_so() {
    let (folder, path) = file("");
    let rules = folder.path().join("hba.conf");
    fs::write(&rules, "host all all 127.0.0.1/32 trust\n").expect("written");
    let rules = rules.display();
    for (way, counts) in [("hba", true), ("md5", false)] {
        let text = format!("[pgbouncer]\nauth_type = {way}\nauth_hba_file = {rules}\n");
        fs::write(&path, text).expect("written");
        let settings = read(&path).expect("a file").settings;
        assert_eq!(settings.hba.is_some(), counts, "{way}");
        let shown = all(&settings).into_iter().find(|row| row.0 == "auth_type");
        assert_eq!(shown.expect("a row").1, way);
    }
    fs::write(&path, "[pgbouncer]\nauth_type = cert\n").expect("written");
    let settings = read(&path).expect("a file").settings;
    assert!(settings.asks_for_certificates());
    let shown = all(&settings).into_iter().find(|row| row.0 == "auth_type");
    assert_eq!(shown.expect("a row").1, "cert");
    let told = settings.check().expect_err("no client can show one");
    assert!(told.to_string().contains("client_tls_sslmode"), "{told}");
    let told = failure("[pgbouncer]\nauth_type = hba\n");
    assert_eq!(told, "auth_type = hba needs auth_hba_file");
}

#[test]
fn what_has_no_effect_for_a_database_is_said() {
    let (folder, path) = file(
        "[databases]\na = host=127.0.0.1 load_balance_hosts=disable\n\
         b = host=127.0.0.1,127.0.0.2 load_balance_hosts=round-robin pool_size=2\n",
    );
    let read = read(&path).expect("a file");
    assert_eq!(read.settings.databases["b"].pool_size, Some(2));
    let of_folder = format!("{}/", folder.path().display());
    let told = "pgbouncer.ini:3: load_balance_hosts has no effect: one host of a database is used at a time";
    assert_eq!(read.warnings.len(), 1);
    assert_eq!(read.warnings[0].replace(&of_folder, ""), told);
}

/// What later versions of PgBouncer have keeps nothing from starting, unless it asks for a protection.
#[test]
fn a_file_of_a_newer_pgbouncer_is_read() {
    let (folder, path) = file(
        "[databases]\na = host=127.0.0.1 max_db_client_connections=6 query_wait_timeout=2 server_lifetime=3 \
         reserve_pool_size=4\n[peers]\n2 = host=/tmp\n\
         [pgbouncer]\npeer_id = 1\ntrack_extra_parameters = IntervalStyle, search_path\n\
         max_user_client_connections = 7\nquery_wait_notify = 5\ntransaction_timeout = 9\n",
    );
    let File { settings, warnings } = read(&path).expect("a file");
    let of_folder = format!("{}/", folder.path().display());
    let warnings: Vec<_> = warnings.iter().map(|w| w.replace(&of_folder, "")).collect();
    assert_eq!(
        warnings,
        [
            "pgbouncer.ini:4: [peers] has no effect: one process has all clients",
            "pgbouncer.ini:6: peer_id has no effect: one process has all clients",
            "pgbouncer.ini:7: track_extra_parameters has no effect: which parameters follow their client is fixed",
        ]
    );
    assert_eq!(settings.databases["a"].max_db_client_connections, Some(6));
    assert_eq!(settings.max_user_client_connections, 7);
    assert_eq!(settings.transaction_timeout, Duration::from_secs(9));
    let a = &settings.databases["a"];
    assert_eq!(a.query_wait_timeout, Some(Duration::from_secs(2)));
    assert_eq!(a.server_lifetime, Some(Duration::from_secs(3)));
    assert_eq!(a.reserve_pool, Some(4));
    assert_eq!(
        failure("[pgbouncer]\nauth_ldap_options = ldapurl=x"),
        "pgbouncer.ini:2: auth_ldap_options: the proxy does not have LDAP"
    );
}
