//! TLS with clients, which are psql, and with the database.

use std::path::Path;
use std::process::Command;

use bpfdb_proxy::settings::{ANY_DATABASE, Hba, SslMode, TlsSettings};

use crate::certificates::{Authority, Certificate};
use crate::postgres::{self, psql};
use crate::proxy::{TestProxy, Way};
use crate::wire::{Wire, error};

/// What psql prints, or its errors.
fn run(command: &mut Command, statement: &str) -> Result<String, String> {
    let output = command.args(["-c", statement]).output().expect("psql runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a text")
}

/// A proxy whose clients may come by TLS.
fn before_clients(way: Way, mode: SslMode, authority: &Authority, own: &Certificate) -> TestProxy {
    TestProxy::with(way, |settings| {
        settings.client_tls = TlsSettings {
            mode,
            ca_file: Some(authority.file()),
            cert_file: Some(own.cert.clone()),
            key_file: Some(own.key.clone()),
        };
    })
}

#[test]
fn clients_come_by_tls_as_the_mode_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.sign("proxy", &["127.0.0.1"]);
    let root = authority.file();
    for (mode, plain, by_tls) in [
        (SslMode::Disable, true, false),
        (SslMode::Allow, true, true),
        (SslMode::Prefer, true, true),
        (SslMode::Require, false, true),
    ] {
        let proxy = before_clients(Way::Kernel, mode, &authority, &own);
        let select = |mode: &str| {
            let environment = [("PGSSLMODE", mode), ("PGSSLROOTCERT", shown(&root))];
            run(
                &mut psql(proxy.port, postgres::USER, &environment),
                "select 1",
            )
        };
        assert_eq!(select("disable").is_ok(), plain, "{mode:?}");
        assert_eq!(select("require").is_ok(), by_tls, "{mode:?}");
        assert_eq!(select("verify-full").is_ok(), by_tls, "{mode:?}");
        if !plain {
            let told = select("disable").expect_err("plain");
            assert!(told.contains("SSL required"), "{told}");
        }
        let environment = [("PGSSLMODE", "prefer")];
        let long = run(
            &mut psql(proxy.port, postgres::USER, &environment),
            "select repeat('x', 3000000)",
        );
        assert_eq!(long.expect("a long text").len(), 3_000_000);
    }
}

#[test]
fn clients_show_certificates_where_they_must() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [authority, other] = folders
        .each_ref()
        .map(|folder| Authority::new(folder.path()));
    let own = authority.sign("proxy", &["127.0.0.1"]);
    let (theirs, strange) = (authority.sign("theirs", &[]), other.sign("strange", &[]));
    let proxy = before_clients(Way::Plain, SslMode::VerifyCa, &authority, &own);
    let select = |shows: Option<&Certificate>| {
        let mut environment = vec![("PGSSLMODE", "require")];
        if let Some(shows) = shows {
            environment.push(("PGSSLCERT", shown(&shows.cert)));
            environment.push(("PGSSLKEY", shown(&shows.key)));
        }
        run(
            &mut psql(proxy.port, postgres::USER, &environment),
            "select 1",
        )
    };
    assert_eq!(select(Some(&theirs)).as_deref(), Ok("1"));
    assert!(select(Some(&strange)).is_err());
    assert!(select(None).is_err());
}

/// By rules, one of which is for those with a certificate.
#[test]
fn a_certificate_says_who_a_client_is() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [authority, other] = folders
        .each_ref()
        .map(|folder| Authority::new(folder.path()));
    let own = authority.sign("proxy", &["127.0.0.1"]);
    let user = postgres::USER;
    let (of_user, of_other) = (authority.sign(user, &[]), authority.sign("other", &[]));
    let strange = other.sign(user, &[]);
    for mode in [SslMode::Prefer, SslMode::VerifyFull] {
        let proxy = TestProxy::with(Way::Plain, |settings| {
            settings.client_tls = TlsSettings {
                mode,
                ca_file: Some(authority.file()),
                cert_file: Some(own.cert.clone()),
                key_file: Some(own.key.clone()),
            };
            let rules = "hostssl all root all trust\nhostssl all all all cert\n";
            settings.hba = Some(Hba::parse(rules, "rules").expect("rules"));
        });
        let select = |user: &str, shows: Option<&Certificate>| {
            let mut environment = vec![("PGSSLMODE", "require")];
            if let Some(shows) = shows {
                environment.push(("PGSSLCERT", shown(&shows.cert)));
                environment.push(("PGSSLKEY", shown(&shows.key)));
            }
            run(&mut psql(proxy.port, user, &environment), "select 1")
        };
        assert_eq!(select(user, Some(&of_user)).as_deref(), Ok("1"), "{mode:?}");
        let told = select(user, Some(&of_other)).expect_err("another name");
        let wanted = format!("certificate authentication failed for user \"{user}\"");
        assert!(told.contains(&wanted), "{told}");
        assert!(select(user, Some(&strange)).is_err(), "{mode:?}");
        let told = select(user, None).expect_err("no certificate");
        let is_asked = told.contains("connection requires a valid client certificate");
        assert_eq!(is_asked, mode == SslMode::Prefer, "{told}");
        // Others need none, unless all have to show one.
        let is_let_in = select("root", None).is_ok();
        assert_eq!(is_let_in, mode == SslMode::Prefer, "{mode:?}");
        let plain = run(
            &mut psql(proxy.port, user, &[("PGSSLMODE", "disable")]),
            "select 1",
        );
        assert!(plain.is_err(), "{mode:?}");
    }
}

/// What is sent in the clear behind the question for TLS could be somebody else's.
#[test]
fn nothing_is_taken_from_before_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let own = authority.sign("proxy", &["127.0.0.1"]);
    let proxy = before_clients(Way::Plain, SslMode::Prefer, &authority, &own);
    let ask = [&8u32.to_be_bytes()[..], &80_877_103u32.to_be_bytes()].concat();
    let mut wire = Wire::open(proxy.port);
    wire.send(&[&ask[..], b"early"].concat());
    wire.skip(1);
    assert_eq!(error(&wire.until(0), b'C'), "08P01");
    // One that fails in the midst takes only itself along.
    let mut wire = Wire::open(proxy.port);
    wire.send(&[&[0x16, 3, 1][..], &[0xff; 64]].concat());
    assert_eq!(proxy.client().value("select 1"), "1");
}

#[test]
fn servers_are_reached_by_tls_as_the_mode_says() {
    const BY_TLS: &str = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let folder = tempfile::tempdir().expect("a folder");
    let known = postgres::shared().authority.file();
    let other = Authority::new(folder.path()).file();
    let has_tls = |mode, ca_file: Option<&Path>, host: &str, user: &str| {
        let proxy = TestProxy::with(Way::Kernel, |settings| {
            let port = postgres::shared().port;
            let database = format!("host={host} port={port}").parse();
            let database = database.expect("a database");
            settings.databases.insert(ANY_DATABASE.to_owned(), database);
            settings.server_tls = TlsSettings {
                mode,
                ca_file: ca_file.map(Path::to_owned),
                ..TlsSettings::default()
            };
        });
        let environment = [("PGSSLMODE", "disable")];
        run(&mut psql(proxy.port, user, &environment), BY_TLS)
    };
    let user = postgres::USER;
    for (mode, answer) in [
        (SslMode::Disable, "f"),
        (SslMode::Allow, "f"),
        (SslMode::Prefer, "t"),
        (SslMode::Require, "t"),
    ] {
        let shown = has_tls(mode, None, "127.0.0.1", user);
        assert_eq!(shown.as_deref(), Ok(answer), "{mode:?}");
    }
    // PostgreSQL refuses this one without TLS.
    let tls_only = postgres::TLS_ONLY;
    assert!(has_tls(SslMode::Disable, None, "127.0.0.1", tls_only).is_err());
    assert_eq!(
        has_tls(SslMode::Allow, None, "127.0.0.1", tls_only).as_deref(),
        Ok("t")
    );
    // Its certificate is that of `localhost`.
    let verified = |mode, file: &Path, host| has_tls(mode, Some(file), host, user).is_ok();
    assert!(verified(SslMode::VerifyCa, &known, "127.0.0.1"));
    assert!(!verified(SslMode::VerifyFull, &known, "127.0.0.1"));
    assert!(verified(SslMode::VerifyFull, &known, "localhost"));
    assert!(!verified(SslMode::VerifyCa, &other, "127.0.0.1"));
    assert!(!verified(SslMode::VerifyFull, &other, "localhost"));
}
