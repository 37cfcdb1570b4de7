//! The settings of the sections `[pgbouncer]` and `[bpfdb]`: the only place where they are listed. Files,
//! SET and SHOW CONFIG follow from it.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

use super::values::{Result, file_mode, flag, list, number, seconds, shown_seconds};
use crate::settings::{AUTH_QUERY, AuthType, PoolMode, Settings, SslMode};

/// What a setting does here.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    Used {
        set: fn(&mut Settings, &str) -> Result<()>,
        shown: fn(&Settings) -> String,
    },
    /// It changes nothing; why.
    None(&'static str),
    /// Another value than the default is refused, since what it asks for is not there, and to go
    /// on without would be less safe; what is not there.
    Refused(&'static str),
}

pub(super) struct Setting {
    pub(super) name: &'static str,
    /// PgBouncer's.
    pub(super) default: &'static str,
    /// By SET and RELOAD.
    pub(super) changeable: bool,
    pub(super) effect: Effect,
}

/// A setting that can be changed at any time.
const fn live(
    name: &'static str,
    default: &'static str,
    set: fn(&mut Settings, &str) -> Result<()>,
    shown: fn(&Settings) -> String,
) -> Setting {
    Setting {
        name,
        default,
        changeable: true,
        effect: Effect::Used { set, shown },
    }
}

/// One that counts at the start only.
const fn fixed(
    name: &'static str,
    default: &'static str,
    set: fn(&mut Settings, &str) -> Result<()>,
    shown: fn(&Settings) -> String,
) -> Setting {
    Setting {
        changeable: false,
        ..live(name, default, set, shown)
    }
}

const fn none(name: &'static str, default: &'static str, why: &'static str) -> Setting {
    Setting {
        name,
        default,
        changeable: true,
        effect: Effect::None(why),
    }
}

const fn refused(name: &'static str, default: &'static str, what: &'static str) -> Setting {
    Setting {
        name,
        default,
        changeable: true,
        effect: Effect::Refused(what),
    }
}

/// How a field is read and shown, by its kind.
macro_rules! by {
    (seconds, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = seconds(text)?; Ok(()) },
            |all: &Settings| shown_seconds(all.$($field).+),
        )
    };
    (number, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = number(text)?; Ok(()) },
            |all: &Settings| all.$($field).+.to_string(),
        )
    };
    (flag, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = flag(text)?; Ok(()) },
            |all: &Settings| u8::from(all.$($field).+).to_string(),
        )
    };
    (list, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = list(text); Ok(()) },
            |all: &Settings| all.$($field).+.join(", "),
        )
    };
    (text, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = text.to_owned(); Ok(()) },
            |all: &Settings| all.$($field).+.clone(),
        )
    };
    (name, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = name(text); Ok(()) },
            |all: &Settings| all.$($field).+.clone().unwrap_or_default(),
        )
    };
    (ssl_mode, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = ssl_mode(text)?; Ok(()) },
            |all: &Settings| shown_ssl_mode(all.$($field).+).to_owned(),
        )
    };
    (path, $($field:ident).+) => {
        (
            |all: &mut Settings, text: &str| { all.$($field).+ = path(text); Ok(()) },
            |all: &Settings| shown_path(all.$($field).+.as_ref()),
        )
    };
}

macro_rules! setting {
    ($make:ident, $name:literal, $default:expr, $kind:ident, $($field:ident).+) => {{
        const BY: (fn(&mut Settings, &str) -> Result<()>, fn(&Settings) -> String) =
            by!($kind, $($field).+);
        $make($name, $default, BY.0, BY.1)
    }};
}

/// By name.
#[rustfmt::skip]
pub(super) const PGBOUNCER: &[Setting] = &[
    setting!(live, "admin_users", "", list, administration.admin_users),
    setting!(live, "application_name_add_host", "0", flag, application_name_add_host),
    setting!(live, "auth_dbname", "", name, auth_dbname),
    setting!(live, "auth_file", "", path, administration.auth_file),
    setting!(live, "auth_hba_file", "", path, administration.auth_hba_file),
    none("auth_ident_file", "", "rules with map= are refused"),
    refused("auth_ldap_options", "", "LDAP"),
    setting!(live, "auth_query", AUTH_QUERY, text, auth_query),
    live("auth_type", "md5", set_auth_type, shown_auth_type),
    setting!(live, "auth_user", "", name, auth_user),
    none("autodb_idle_timeout", "3600", "pools of databases of * stay"),
    setting!(live, "cancel_wait_timeout", "10", seconds, cancel_wait_timeout),
    setting!(live, "client_idle_timeout", "0", seconds, client_idle_timeout),
    setting!(live, "client_login_timeout", "60", seconds, client_login_timeout),
    none("client_tls13_ciphers", "", "those of rustls, TLS 1.2 and 1.3, are used"),
    setting!(live, "client_tls_ca_file", "", path, client_tls.ca_file),
    setting!(live, "client_tls_cert_file", "", path, client_tls.cert_file),
    none("client_tls_ciphers", "fast", "those of rustls, TLS 1.2 and 1.3, are used"),
    none("client_tls_dheparams", "auto", "those of rustls, TLS 1.2 and 1.3, are used"),
    none("client_tls_ecdhcurve", "auto", "those of rustls, TLS 1.2 and 1.3, are used"),
    setting!(live, "client_tls_key_file", "", path, client_tls.key_file),
    none("client_tls_protocols", "secure", "those of rustls, TLS 1.2 and 1.3, are used"),
    setting!(live, "client_tls_sslmode", "disable", ssl_mode, client_tls.mode),
    setting!(live, "default_pool_size", "20", number, default_pool_size),
    refused("disable_pqexec", "0", "a ban on simple queries"),
    setting!(live, "dns_max_ttl", "15", seconds, dns_max_ttl),
    setting!(live, "dns_nxdomain_ttl", "15", seconds, dns_nxdomain_ttl),
    none("dns_zone_check_period", "0", "all names of hosts are looked up each `dns_max_ttl`"),
    setting!(live, "idle_transaction_timeout", "0", seconds, idle_transaction_timeout),
    setting!(live, "ignore_startup_parameters", "", list, ignore_startup_parameters),
    none("job_name", "pgbouncer", "the log has the program's own name"),
    fixed("listen_addr", "", set_listen_addr, shown_listen_addr),
    none("listen_backlog", "128", "it is 1024"),
    fixed("listen_port", "6432", set_listen_port, |all| all.administration.listen_port.to_string()),
    setting!(live, "log_connections", "1", flag, administration.log_connections),
    setting!(live, "log_disconnections", "1", flag, administration.log_disconnections),
    setting!(live, "log_pooler_errors", "1", flag, administration.log_pooler_errors),
    setting!(live, "log_stats", "1", flag, administration.log_stats),
    setting!(fixed, "logfile", "", path, administration.log_file),
    none("login_notify_message", "", "clients are sent no notice"),
    setting!(live, "max_client_conn", "100", number, max_client_conn),
    setting!(live, "max_db_client_connections", "0", number, max_db_client_connections),
    setting!(live, "max_db_connections", "0", number, max_db_connections),
    none("max_packet_size", "2147483647", "messages are brought on in pieces, of any length"),
    setting!(live, "max_prepared_statements", "200", number, max_prepared_statements),
    setting!(live, "max_user_client_connections", "0", number, max_user_client_connections),
    setting!(live, "max_user_connections", "0", number, max_user_connections),
    setting!(live, "min_pool_size", "0", number, min_pool_size),
    none("peer_id", "0", "one process has all clients"),
    setting!(fixed, "pidfile", "", path, administration.pid_file),
    none("pkt_buf", "4096", "buffers are as long as they need to be"),
    none("pool_idle_timeout", "0", "pools stay"),
    live("pool_mode", "session", set_pool_mode, |all| all.pool_mode.to_string()),
    setting!(live, "query_timeout", "0", seconds, query_timeout),
    setting!(live, "query_wait_notify", "5", seconds, query_wait_notify),
    setting!(live, "query_wait_timeout", "120", seconds, query_wait_timeout),
    setting!(live, "reserve_pool_size", "0", number, reserve_pool_size),
    setting!(live, "reserve_pool_timeout", "5", seconds, reserve_pool_timeout),
    none("resolv_conf", "", "names of hosts are looked up as the system does it"),
    none("sbuf_loopcnt", "5", "each turn serves what has arrived"),
    none("scram_iterations", "4096", "passwords are compared with what is kept of them"),
    none("server_check_delay", "30", "servers that the database has closed are seen at once"),
    none("server_check_query", "select 1", "servers that the database has closed are seen at once"),
    setting!(live, "server_connect_timeout", "15", seconds, server_connect_timeout),
    none("server_fast_close", "0", "servers are closed when their client gives them back"),
    setting!(live, "server_idle_timeout", "600", seconds, server_idle_timeout),
    setting!(live, "server_lifetime", "3600", seconds, server_lifetime),
    setting!(live, "server_login_retry", "15", seconds, server_login_retry),
    setting!(live, "server_reset_query", "DISCARD ALL", text, server_reset_query),
    none("server_reset_query_always", "0", "it is sent whenever a client has left state in a session"),
    none("server_round_robin", "0", "the server that was used last is used next"),
    none("server_tls13_ciphers", "", "those of rustls, TLS 1.2 and 1.3, are used"),
    setting!(live, "server_tls_ca_file", "", path, server_tls.ca_file),
    setting!(live, "server_tls_cert_file", "", path, server_tls.cert_file),
    none("server_tls_ciphers", "fast", "those of rustls, TLS 1.2 and 1.3, are used"),
    setting!(live, "server_tls_key_file", "", path, server_tls.key_file),
    none("server_tls_protocols", "secure", "those of rustls, TLS 1.2 and 1.3, are used"),
    setting!(live, "server_tls_sslmode", "disable", ssl_mode, server_tls.mode),
    none("service_name", "pgbouncer", "the log has the program's own name"),
    none("so_reuseport", "0", "one process has all clients"),
    live("stats_period", "60", set_stats_period, |all| shown_seconds(all.administration.stats_period)),
    setting!(live, "stats_users", "", list, administration.stats_users),
    none("suspend_timeout", "10", "there is no SUSPEND"),
    none("syslog", "0", "the log goes to standard error or `logfile`"),
    none("syslog_facility", "daemon", "the log goes to standard error or `logfile`"),
    none("syslog_ident", "pgbouncer", "the log goes to standard error or `logfile`"),
    none("tcp_defer_accept", "1", "connections are accepted at once"),
    setting!(live, "tcp_keepalive", "1", flag, keep_alive.is_on),
    setting!(live, "tcp_keepcnt", "0", number, keep_alive.count),
    setting!(live, "tcp_keepidle", "0", number, keep_alive.idle),
    setting!(live, "tcp_keepintvl", "0", number, keep_alive.interval),
    none("tcp_socket_buffer", "0", "the system's default counts"),
    setting!(live, "tcp_user_timeout", "0", number, keep_alive.user_timeout),
    none("track_extra_parameters", "IntervalStyle", "which parameters follow their client is fixed"),
    setting!(live, "transaction_timeout", "0", seconds, transaction_timeout),
    fixed("unix_socket_dir", "/tmp", set_unix_socket_dir, shown_unix_socket_dir),
    none("unix_socket_group", "", "the socket is of the process's group"),
    fixed("unix_socket_mode", "0777", set_unix_socket_mode, |all| format!("{:04o}", all.administration.unix_socket_mode)),
    none("user", "", "start it as the user that it is to be"),
    setting!(live, "verbose", "0", number, administration.verbose),
];

/// What PgBouncer does not have.
#[rustfmt::skip]
pub(super) const OWN: &[Setting] = &[
    setting!(fixed, "always_slow", "0", flag, always_slow),
    setting!(live, "auth_query_cache", "30", seconds, auth_query_cache),
    setting!(fixed, "cgroup", "", path, cgroup),
    fixed("metrics_listen", "", set_metrics, |all| all.administration.metrics.map_or_else(String::new, |address| address.to_string())),
    setting!(live, "mirror_queue", "16777216", number, mirror_queue),
    setting!(fixed, "takeover_socket", "", path, administration.takeover_socket),
];

pub(super) fn find(table: &'static [Setting], name: &str) -> Option<&'static Setting> {
    table.iter().find(|setting| setting.name == name)
}

impl Setting {
    pub(super) fn set(&self, settings: &mut Settings, value: &str) -> Result<()> {
        match self.effect {
            Effect::Used { set, .. } => return set(settings, value),
            Effect::Refused(what) if value != self.default => {
                return Err(format!("the proxy does not have {what}"));
            }
            Effect::None(_) | Effect::Refused(_) => {}
        }
        let others = &mut settings.administration.others;
        others.insert(self.name, value.to_owned());
        Ok(())
    }

    pub(super) fn shown(&self, settings: &Settings) -> String {
        match self.effect {
            Effect::Used { shown, .. } => shown(settings),
            Effect::None(_) | Effect::Refused(_) => {
                let other = settings.administration.others.get(self.name);
                other.map_or(self.default, String::as_str).to_owned()
            }
        }
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

fn name(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn ssl_mode(text: &str) -> Result<SslMode> {
    text.parse()
        .map_err(|error: crate::error::Error| error.to_string())
}

fn shown_ssl_mode(mode: SslMode) -> &'static str {
    match mode {
        SslMode::Disable => "disable",
        SslMode::Allow => "allow",
        SslMode::Prefer => "prefer",
        SslMode::Require => "require",
        SslMode::VerifyCa => "verify-ca",
        SslMode::VerifyFull => "verify-full",
    }
}

fn shown_path(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |path| path.display().to_string())
}

/// `hba`: as the rules of `auth_hba_file` say. `cert` is a rule, too: none is read then.
fn set_auth_type(all: &mut Settings, text: &str) -> Result<()> {
    let way = match text {
        "any" | "hba" | "cert" => AuthType::Trust,
        text => text
            .parse()
            .map_err(|error: crate::error::Error| error.to_string())?,
    };
    all.auth_type = way;
    all.administration.anyone_may_look = text == "any";
    all.administration.uses_rules = text == "hba";
    all.administration.uses_certificates = text == "cert";
    Ok(())
}

fn shown_auth_type(all: &Settings) -> String {
    let shown = match all.auth_type {
        _ if all.administration.uses_rules => "hba",
        _ if all.administration.uses_certificates => "cert",
        _ if all.administration.anyone_may_look => "any",
        AuthType::Trust => "trust",
        AuthType::Plain => "plain",
        AuthType::Md5 => "md5",
        AuthType::Scram => "scram-sha-256",
    };
    shown.to_owned()
}

fn set_pool_mode(all: &mut Settings, text: &str) -> Result<()> {
    let mode: std::result::Result<PoolMode, _> = text.parse();
    all.pool_mode = mode.map_err(|error| error.to_string())?;
    Ok(())
}

/// Averages need a time.
fn set_stats_period(all: &mut Settings, text: &str) -> Result<()> {
    let time = seconds(text)?;
    if time < Duration::from_secs(1) {
        return Err("stats_period is a second or more".into());
    }
    all.administration.stats_period = time;
    Ok(())
}

/// The port is put in when it is known.
fn set_listen_addr(all: &mut Settings, text: &str) -> Result<()> {
    all.listen.clear();
    for host in list(text) {
        let found = match host.as_str() {
            "*" => any_address(),
            host => (host, 0)
                .to_socket_addrs()
                .map_err(|_| format!("there is no host {host}"))?
                .collect(),
        };
        for mut address in found {
            address.set_port(all.administration.listen_port);
            if !all.listen.contains(&address) {
                all.listen.push(address);
            }
        }
    }
    Ok(())
}

/// IPv6 too, if the machine has it.
fn any_address() -> Vec<std::net::SocketAddr> {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    let mut all = vec![(Ipv4Addr::UNSPECIFIED, 0).into()];
    if UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok() {
        all.push((Ipv6Addr::UNSPECIFIED, 0).into());
    }
    all
}

fn shown_listen_addr(all: &Settings) -> String {
    let addresses = all.listen.iter().map(|address| address.ip().to_string());
    addresses.collect::<Vec<_>>().join(",")
}

fn set_listen_port(all: &mut Settings, text: &str) -> Result<()> {
    let port = number(text)?;
    all.administration.listen_port = port;
    for address in &mut all.listen {
        address.set_port(port);
    }
    Ok(())
}

fn set_unix_socket_dir(all: &mut Settings, text: &str) -> Result<()> {
    all.unix_socket_dirs = path(text).into_iter().collect();
    Ok(())
}

fn shown_unix_socket_dir(all: &Settings) -> String {
    shown_path(all.unix_socket_dirs.first())
}

fn set_unix_socket_mode(all: &mut Settings, text: &str) -> Result<()> {
    all.administration.unix_socket_mode = file_mode(text)?;
    Ok(())
}

fn set_metrics(all: &mut Settings, text: &str) -> Result<()> {
    let address = (!text.is_empty()).then(|| text.parse()).transpose();
    all.administration.metrics = address.map_err(|_| format!("{text} is no address"))?;
    Ok(())
}
