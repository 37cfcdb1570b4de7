//! Who may come in: rules, passwords that the database keeps, and other sockets than those of IPv4.

use std::process::Command;

use bpfdb_proxy::settings::{ANY_DATABASE, AuthType, Hba};

use crate::postgres::{self, LOOKED_UP, PASSWORD, USER, psql};
use crate::proxy::{TestProxy, Way};
use crate::wire::{Wire, kinds, message, start_packet_for};

/// The value of `select 1`, or what psql is told.
fn select(command: &mut Command) -> Result<String, String> {
    let output = command
        .args(["-c", "select 1"])
        .output()
        .expect("psql runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

fn by_rules(rules: &str) -> TestProxy {
    TestProxy::with(Way::Plain, |settings| {
        settings.hba = Some(Hba::parse(rules, "rules").expect("rules"));
        settings.users.insert(USER.into(), "right".into());
    })
}

#[test]
fn the_first_rule_says_who_comes_in() {
    let proxy = by_rules(
        "host postgres tests 127.0.0.1/32 scram-sha-256\n\
         host all secretive 127.0.0.0/8 reject\n\
         hostssl all all all trust\n",
    );
    let told = |user, password| select(&mut psql(proxy.port, user, &[("PGPASSWORD", password)]));
    assert_eq!(told(USER, "right").as_deref(), Ok("1"));
    let wrong = told(USER, "wrong").expect_err("a wrong password");
    assert!(
        wrong.contains("password authentication failed for user \"tests\""),
        "{wrong}"
    );
    let rejected = told("secretive", PASSWORD).expect_err("rejected");
    let wanted = "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"secretive\", database \
                  \"postgres\", no encryption";
    assert!(rejected.contains(wanted), "{rejected}");
    let unknown = told("another", "").expect_err("no rule");
    assert!(
        unknown.contains("no pg_hba.conf entry for host"),
        "{unknown}"
    );
}

#[test]
fn passwords_are_those_that_the_database_keeps() {
    for auth in [AuthType::Scram, AuthType::Md5] {
        let proxy = TestProxy::with(Way::Plain, |settings| {
            settings.auth_type = auth;
            settings.auth_user = Some(USER.into());
            settings.auth_dbname = Some("postgres".into());
            settings.default_pool_size = 2;
        });
        let logs_in =
            |user, password| select(&mut psql(proxy.port, user, &[("PGPASSWORD", password)]));
        // The proxy has no password of this user, and PostgreSQL asks for one.
        assert_eq!(logs_in(LOOKED_UP, PASSWORD).as_deref(), Ok("1"), "{auth:?}");
        assert!(logs_in(LOOKED_UP, "wrong").is_err());
        assert!(logs_in("nobody_such", PASSWORD).is_err());
        let change = |password| {
            postgres::shared().direct(&format!("alter role {LOOKED_UP} password '{password}'"))
        };
        change("new");
        // What was known is asked for anew after it was wrong.
        assert!(logs_in(LOOKED_UP, "other").is_err());
        let told = logs_in(LOOKED_UP, "new");
        change(PASSWORD);
        assert_eq!(told.as_deref(), Ok("1"), "{auth:?}");
    }
}

#[test]
fn a_database_has_its_own_user_who_asks_about_passwords() {
    let proxy = TestProxy::with(Way::Plain, |settings| {
        let place = format!(
            "host=127.0.0.1 port={} dbname=postgres",
            postgres::shared().port
        );
        for (name, own) in [
            ("postgres", "auth_user=tests auth_dbname=asked"),
            ("asked", ""),
        ] {
            let database = format!("{place} {own}").parse().expect("a database");
            settings.databases.insert(name.into(), database);
        }
        settings.auth_type = AuthType::Scram;
    });
    let enters = |database: &str| {
        let mut command = psql(proxy.port, LOOKED_UP, &[("PGPASSWORD", PASSWORD)]);
        select(command.args(["-d", database]))
    };
    assert_eq!(enters("postgres").as_deref(), Ok("1"));
    // Nobody asks for clients of this one.
    let told = enters("asked").expect_err("refused");
    assert!(told.contains("password authentication failed"), "{told}");
}

/// They ask the same database, and in it different tables.
#[test]
fn a_database_has_its_own_question_about_passwords() {
    let proxy = TestProxy::with(Way::Plain, |settings| {
        let place = format!(
            "host=127.0.0.1 port={} dbname=postgres user={USER}",
            postgres::shared().port
        );
        for (name, own) in [
            ("asked", ""),
            ("usual", "auth_dbname=asked"),
            (
                "another",
                "auth_dbname=asked auth_query='select $1::text, ''another'''",
            ),
        ] {
            let database = format!("{place} {own}").parse().expect("a database");
            settings.databases.insert(name.into(), database);
        }
        settings.auth_type = AuthType::Plain;
        settings.auth_user = Some(USER.into());
        settings.auth_query = "select $1::text, 'usual'".into();
    });
    let enters = |database: &str, password: &str| {
        let mut command = psql(proxy.port, "anybody", &[("PGPASSWORD", password)]);
        select(command.args(["-d", database])).is_ok()
    };
    // What one has answered does not count for the other.
    for _ in 0..2 {
        assert!(enters("usual", "usual") && !enters("usual", "another"));
        assert!(enters("another", "another") && !enters("another", "usual"));
    }
}

/// The owner of a database says who its users are, and not who those of others are.
#[test]
fn what_one_database_says_of_passwords_counts_there_only() {
    const ROLE: &str = "root";
    postgres::with_other();
    let proxy = TestProxy::with(Way::Plain, |settings| {
        let database = settings.databases[ANY_DATABASE].clone();
        for name in ["postgres", postgres::OTHER] {
            settings.databases.insert(name.into(), database.clone());
        }
        settings.auth_type = AuthType::Plain;
        settings.auth_user = Some(USER.into());
        settings.auth_query = "select $1::text, 'of ' || current_database()".into();
        settings.administration.admin_users = vec![ROLE.into()];
    });
    let enters = |database: &str, password: &str| {
        let mut wire = Wire::open(proxy.port);
        wire.send(&start_packet_for(ROLE, database, &[]));
        wire.send(&message(b'p', format!("{password}\0").as_bytes()));
        kinds(&wire.until(b'Z')).ends_with('Z')
    };
    let of_other = format!("of {}", postgres::OTHER);
    for _ in 0..2 {
        assert!(enters(postgres::OTHER, &of_other));
        assert!(!enters("postgres", &of_other));
        assert!(!enters("pgbouncer", &of_other));
        assert!(enters("postgres", "of postgres"));
        assert!(!enters("pgbouncer", "of postgres"));
        assert!(!enters(postgres::OTHER, "of postgres"));
    }
}

/// Those who are not admitted cost a few connections, however many they are.
#[test]
fn questions_about_passwords_take_no_more_servers_than_a_pool_has() {
    let proxy = TestProxy::with(Way::Plain, |settings| {
        settings.auth_type = AuthType::Plain;
        settings.auth_user = Some(USER.into());
        settings.auth_dbname = Some("postgres".into());
        settings.auth_query += " -- counted";
        settings.default_pool_size = 2;
    });
    let wires: Vec<_> = (0..50)
        .map(|number| {
            let mut wire = crate::wire::Wire::open(proxy.port);
            let user = format!("unknown_{number}");
            wire.send(&crate::wire::start_packet(
                &user,
                &[("database", "nothing_such")],
            ));
            wire
        })
        .collect();
    for mut wire in wires {
        wire.send(&crate::wire::message(b'p', b"guessed\0"));
        assert_eq!(crate::wire::error(&wire.until(b'Z'), b'C'), "28P01");
    }
    // Two that have asked, and this one.
    let count = "select count(*) <= 3 from pg_stat_activity where query like '%-- counted%'";
    assert_eq!(postgres::shared().direct(count), "t");
}

#[test]
fn unix_sockets_and_ipv6_serve_both_sides() {
    let folder = tempfile::tempdir().expect("a folder");
    let postgres = postgres::shared();
    for host in ["::1".to_owned(), postgres.sockets()] {
        let proxy = TestProxy::with(Way::Kernel, |settings| {
            settings.listen = vec!["[::1]:0".parse().expect("an address")];
            settings.unix_socket_dirs = vec![folder.path().to_owned()];
            let database = format!("host={host} port={}", postgres.port).parse();
            let database = database.expect("a database");
            settings.databases.insert(ANY_DATABASE.to_owned(), database);
            let rules = "local all root peer\nhost all all ::1/128 trust\nlocal all other reject\n";
            settings.hba = Some(Hba::parse(rules, "rules").expect("rules"));
        });
        let at = |host: &str, user| select(psql(proxy.port, user, &[]).args(["-h", host]));
        let folder = folder.path().to_str().expect("a text");
        for _ in 0..3 {
            assert_eq!(at("::1", USER).as_deref(), Ok("1"), "{host}");
        }
        assert_eq!(at(folder, "root").as_deref(), Ok("1"), "{host}");
        let told = at(folder, USER).expect_err("another user");
        assert!(
            told.contains("no pg_hba.conf entry for host \"[local]\""),
            "{told}"
        );
    }
}
