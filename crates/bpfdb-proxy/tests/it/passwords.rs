//! Passwords of clients at the proxy, and of the proxy at PostgreSQL.

use bpfdb_proxy::settings::AuthType;

use crate::postgres::{PASSWORD, SECRETIVE, psql};
use crate::proxy::{TestProxy, Way};

fn logs_in(proxy: &TestProxy, password: &str) -> bool {
    let mut psql = psql(proxy.port, SECRETIVE, &[("PGPASSWORD", password)]);
    let output = psql.args(["-c", "select 1"]).output().expect("psql runs");
    output.status.success()
}

#[test]
fn passwords_are_asked_for_and_given() {
    for auth in [AuthType::Plain, AuthType::Md5, AuthType::Scram] {
        let proxy = TestProxy::with(Way::Kernel, |settings| {
            settings.auth_type = auth;
            settings.users.insert(SECRETIVE.into(), PASSWORD.into());
        });
        assert!(logs_in(&proxy, PASSWORD), "{auth:?}");
        assert!(!logs_in(&proxy, "another"), "{auth:?}");
    }
}

/// Without the password the proxy cannot log in.
#[test]
fn a_server_that_asks_for_an_unknown_password_is_no_server() {
    let proxy = TestProxy::start(Way::Plain, 1);
    assert!(!logs_in(&proxy, PASSWORD));
}
