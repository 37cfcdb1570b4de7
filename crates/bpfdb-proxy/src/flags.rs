//! The flags of the command.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bpfdb_proxy::config::{self, File};
use bpfdb_proxy::settings::{ANY_DATABASE, AuthType, Database, PoolMode, Settings, SslMode};
use clap::Parser;

/// A pooling proxy before PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "bpfdb-proxy", version)]
pub(crate) struct Arguments {
    /// A file of PgBouncer, such as pgbouncer.ini; what the flags say counts more
    config: Option<PathBuf>,
    /// Where clients connect; may be given several times [default: 127.0.0.1:6432]
    #[arg(long)]
    listen: Vec<SocketAddr>,
    /// Folder of a Unix socket for clients; may be given several times
    #[arg(long, value_name = "FOLDER")]
    unix_socket_dir: Vec<PathBuf>,
    /// `NAME=host=…[,…] port=…[,…] target_session_attrs=… dbname=… user=… password=… pool_size=… pool_mode=… mirror=…`; the name * is for all
    /// databases that are not named. Without any: PostgreSQL at 127.0.0.1:5432
    #[arg(long, value_name = "DATABASE")]
    database: Vec<String>,
    /// trust, plain, md5 or scram-sha-256 [default: trust]
    #[arg(long)]
    auth_type: Option<AuthType>,
    /// File with lines `"user" "password"`
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Rules in the form of pg_hba.conf, instead of --auth-type
    #[arg(long, value_name = "FILE")]
    auth_hba_file: Option<PathBuf>,
    /// User as whom the proxy asks the database for passwords of users that are not in --auth-file
    #[arg(long, value_name = "USER")]
    auth_user: Option<String>,
    /// The question, with the user as $1
    #[arg(long)]
    auth_query: Option<String>,
    /// The database that is asked; without it the client's, if it has a --database of its own
    #[arg(long, value_name = "DATABASE")]
    auth_dbname: Option<String>,
    /// Seconds that an answer is good for [default: 30]
    #[arg(long)]
    auth_query_cache: Option<f64>,
    /// TLS with clients: disable, allow, prefer, require, verify-ca or verify-full [default: disable]
    #[arg(long, value_name = "MODE")]
    client_tls_sslmode: Option<SslMode>,
    /// Authorities of certificates of clients
    #[arg(long, value_name = "FILE")]
    client_tls_ca_file: Option<PathBuf>,
    /// Certificate for clients
    #[arg(long, value_name = "FILE")]
    client_tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    client_tls_key_file: Option<PathBuf>,
    /// TLS with servers, as with clients [default: disable]
    #[arg(long, value_name = "MODE")]
    server_tls_sslmode: Option<SslMode>,
    /// Authorities of certificates of servers
    #[arg(long, value_name = "FILE")]
    server_tls_ca_file: Option<PathBuf>,
    /// Certificate for servers
    #[arg(long, value_name = "FILE")]
    server_tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    server_tls_key_file: Option<PathBuf>,
    /// Asks ends of TCP that say nothing whether they are there [default: true]
    #[arg(long)]
    tcp_keepalive: Option<bool>,
    /// Seconds of silence before the first question; 0, here and below: as the system has it [default: 0]
    #[arg(long)]
    tcp_keepidle: Option<u32>,
    /// Seconds between questions [default: 0]
    #[arg(long)]
    tcp_keepintvl: Option<u32>,
    /// Questions without an answer after which an end is gone [default: 0]
    #[arg(long)]
    tcp_keepcnt: Option<u32>,
    /// Milliseconds that what was sent may be on its way without being acknowledged [default: 0]
    #[arg(long)]
    tcp_user_timeout: Option<u32>,
    /// session, transaction or statement [default: transaction]
    #[arg(long)]
    pool_mode: Option<PoolMode>,
    /// Connections to a database for one user [default: 20]
    #[arg(long)]
    default_pool_size: Option<usize>,
    /// Connections to a database that a pool with clients has at least [default: 0]
    #[arg(long)]
    min_pool_size: Option<usize>,
    /// Seconds in which none is opened for that when one could not log in [default: 15]
    #[arg(long)]
    server_login_retry: Option<f64>,
    /// Connections of clients [default: 1000]
    #[arg(long)]
    max_client_conn: Option<usize>,
    /// Seconds that a client waits for a server [default: 120]
    #[arg(long)]
    query_wait_timeout: Option<f64>,
    /// Seconds after which a client that waits for a server is told so; 0: never [default: 5]
    #[arg(long)]
    query_wait_notify: Option<f64>,
    /// Seconds that a query may take; 0, here and for all times: any [default: 0]
    #[arg(long)]
    query_timeout: Option<f64>,
    /// Seconds that a transaction may stand still [default: 0]
    #[arg(long)]
    idle_transaction_timeout: Option<f64>,
    /// Seconds that a transaction may last, or a query outside of one [default: 0]
    #[arg(long)]
    transaction_timeout: Option<f64>,
    /// Seconds that a client may do nothing [default: 0]
    #[arg(long)]
    client_idle_timeout: Option<f64>,
    /// Seconds after which a server is closed when it is free [default: 3600]
    #[arg(long)]
    server_lifetime: Option<f64>,
    /// More connections for a pool whose clients wait for long [default: 0]
    #[arg(long)]
    reserve_pool_size: Option<usize>,
    /// Seconds of waiting after which there are those [default: 5]
    #[arg(long)]
    reserve_pool_timeout: Option<f64>,
    /// Connections to a database for all users; 0: any number [default: 0]
    #[arg(long)]
    max_db_connections: Option<usize>,
    /// Clients of a database; 0: any number [default: 0]
    #[arg(long)]
    max_db_client_connections: Option<usize>,
    /// Clients of a user; 0: any number [default: 0]
    #[arg(long)]
    max_user_client_connections: Option<usize>,
    /// Connections of a user to all databases; 0: any number [default: 0]
    #[arg(long)]
    max_user_connections: Option<usize>,
    /// Seconds that a client may take to log in [default: 60]
    #[arg(long)]
    client_login_timeout: Option<f64>,
    /// Seconds after which names of hosts are looked up again [default: 15]
    #[arg(long)]
    dns_max_ttl: Option<f64>,
    /// The same while there is one without an address [default: 15]
    #[arg(long)]
    dns_nxdomain_ttl: Option<f64>,
    /// Seconds that a server may take to let the proxy in [default: 15]
    #[arg(long)]
    server_connect_timeout: Option<f64>,
    /// Seconds that the database may take to answer a request to cancel [default: 10]
    #[arg(long)]
    cancel_wait_timeout: Option<f64>,
    /// Seconds after which a server that no client uses is closed [default: 600]
    #[arg(long)]
    server_idle_timeout: Option<f64>,
    /// What puts a session right whose client has left state in it [default: DISCARD ALL]
    #[arg(long)]
    server_reset_query: Option<String>,
    /// Prepared statements that a server keeps [default: 200]
    #[arg(long)]
    max_prepared_statements: Option<usize>,
    /// Bytes that wait for the mirror of a database, at most [default: 16777216]
    #[arg(long)]
    mirror_queue: Option<usize>,
    /// The name of an application says where its client is, too
    #[arg(long)]
    application_name_add_host: bool,
    /// Parameters of clients' starts that are passed over, such as extra_float_digits
    #[arg(long, value_delimiter = ',')]
    ignore_startup_parameters: Vec<String>,
    /// Users that may do everything in the console
    #[arg(long, value_delimiter = ',')]
    admin_users: Vec<String>,
    /// Users that may look at everything in the console
    #[arg(long, value_delimiter = ',')]
    stats_users: Vec<String>,
    /// Where metrics for Prometheus are served
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// A Unix socket: a proxy that is started with the same one takes over, and drops no client
    #[arg(long, value_name = "FILE")]
    takeover_socket: Option<PathBuf>,
    /// Cgroup whose clients and databases are served in the kernel
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Serve everything in user space: for tests
    #[arg(long)]
    always_slow: bool,
}

impl Arguments {
    /// What the file says, and the flags; and what of the file has no effect.
    pub(crate) fn settings(&self) -> anyhow::Result<File> {
        let mut file = match &self.config {
            Some(path) => config::read(path)?,
            None => File::default(),
        };
        let settings = &mut file.settings;
        self.put_lists(settings)?;
        self.put_values(settings)?;
        if settings.databases.is_empty() && self.config.is_none() {
            let database = "".parse::<Database>()?;
            settings.databases.insert(ANY_DATABASE.into(), database);
        }
        anyhow::ensure!(
            !settings.listen.is_empty() || !settings.unix_socket_dirs.is_empty(),
            "neither listen_addr nor unix_socket_dir is set"
        );
        Ok(file)
    }

    fn put_lists(&self, settings: &mut Settings) -> anyhow::Result<()> {
        put_list(&mut settings.listen, &self.listen);
        put_list(&mut settings.unix_socket_dirs, &self.unix_socket_dir);
        let ignored = &mut settings.ignore_startup_parameters;
        put_list(ignored, &self.ignore_startup_parameters);
        let administration = &mut settings.administration;
        put_list(&mut administration.admin_users, &self.admin_users);
        put_list(&mut administration.stats_users, &self.stats_users);
        let mut databases = HashMap::new();
        for text in &self.database {
            let (name, rest) = text
                .split_once('=')
                .context("--database: NAME=host=… is expected")?;
            databases.insert(name.to_owned(), rest.parse::<Database>()?);
        }
        settings.databases.extend(databases);
        Ok(())
    }

    fn put_values(&self, settings: &mut Settings) -> anyhow::Result<()> {
        if let Some(file) = &self.auth_file {
            settings.users = config::read_users(file)?;
            settings.administration.auth_file = Some(file.clone());
        }
        self.put_admission(settings)?;
        put(&mut settings.pool_mode, self.pool_mode);
        let reset = self.server_reset_query.clone();
        put(&mut settings.server_reset_query, reset);
        self.put_keep_alive(settings);
        self.put_numbers(settings);
        self.put_times(settings)?;
        if self.cgroup.is_some() {
            settings.cgroup.clone_from(&self.cgroup);
        }
        let metrics = &mut settings.administration.metrics;
        *metrics = self.metrics_listen.or(*metrics);
        let takeover = &mut settings.administration.takeover_socket;
        put_some(takeover, self.takeover_socket.as_ref());
        settings.application_name_add_host |= self.application_name_add_host;
        settings.always_slow |= self.always_slow;
        Ok(())
    }

    fn put_admission(&self, settings: &mut Settings) -> anyhow::Result<()> {
        if let Some(way) = self.auth_type {
            settings.auth_type = way;
            settings.hba = None;
            settings.administration.uses_rules = false;
            settings.administration.uses_certificates = false;
            settings.administration.anyone_may_look = false;
        }
        // A setting that changes while the proxy runs has the rules read again, by these.
        if let Some(rules) = &self.auth_hba_file {
            settings.hba = Some(config::read_rules(rules)?);
            settings.administration.uses_rules = true;
            settings.administration.uses_certificates = false;
            settings.administration.auth_hba_file = Some(rules.clone());
        }
        put_some(&mut settings.auth_user, self.auth_user.as_ref());
        put_some(&mut settings.auth_dbname, self.auth_dbname.as_ref());
        put(&mut settings.auth_query, self.auth_query.clone());
        let tls = &mut settings.client_tls;
        put(&mut tls.mode, self.client_tls_sslmode);
        put_some(&mut tls.ca_file, self.client_tls_ca_file.as_ref());
        put_some(&mut tls.cert_file, self.client_tls_cert_file.as_ref());
        put_some(&mut tls.key_file, self.client_tls_key_file.as_ref());
        let tls = &mut settings.server_tls;
        put(&mut tls.mode, self.server_tls_sslmode);
        put_some(&mut tls.ca_file, self.server_tls_ca_file.as_ref());
        put_some(&mut tls.cert_file, self.server_tls_cert_file.as_ref());
        put_some(&mut tls.key_file, self.server_tls_key_file.as_ref());
        Ok(())
    }

    fn put_keep_alive(&self, settings: &mut Settings) {
        let keep_alive = &mut settings.keep_alive;
        put(&mut keep_alive.is_on, self.tcp_keepalive);
        put(&mut keep_alive.idle, self.tcp_keepidle);
        put(&mut keep_alive.interval, self.tcp_keepintvl);
        put(&mut keep_alive.count, self.tcp_keepcnt);
        put(&mut keep_alive.user_timeout, self.tcp_user_timeout);
    }

    #[rustfmt::skip]
    fn put_numbers(&self, settings: &mut Settings) {
        for (number, given) in [
            (&mut settings.default_pool_size, self.default_pool_size),
            (&mut settings.min_pool_size, self.min_pool_size),
            (&mut settings.max_client_conn, self.max_client_conn),
            (&mut settings.max_prepared_statements, self.max_prepared_statements),
            (&mut settings.mirror_queue, self.mirror_queue),
            (&mut settings.reserve_pool_size, self.reserve_pool_size),
            (&mut settings.max_db_connections, self.max_db_connections),
            (&mut settings.max_db_client_connections, self.max_db_client_connections),
            (&mut settings.max_user_client_connections, self.max_user_client_connections),
            (&mut settings.max_user_connections, self.max_user_connections),
        ] {
            put(number, given);
        }
    }

    #[rustfmt::skip]
    fn put_times(&self, settings: &mut Settings) -> anyhow::Result<()> {
        for (time, given) in [
            (&mut settings.query_wait_timeout, self.query_wait_timeout),
            (&mut settings.query_wait_notify, self.query_wait_notify),
            (&mut settings.query_timeout, self.query_timeout),
            (&mut settings.idle_transaction_timeout, self.idle_transaction_timeout),
            (&mut settings.transaction_timeout, self.transaction_timeout),
            (&mut settings.client_idle_timeout, self.client_idle_timeout),
            (&mut settings.client_login_timeout, self.client_login_timeout),
            (&mut settings.server_login_retry, self.server_login_retry),
            (&mut settings.server_connect_timeout, self.server_connect_timeout),
            (&mut settings.dns_max_ttl, self.dns_max_ttl),
            (&mut settings.dns_nxdomain_ttl, self.dns_nxdomain_ttl),
            (&mut settings.cancel_wait_timeout, self.cancel_wait_timeout),
            (&mut settings.server_idle_timeout, self.server_idle_timeout),
            (&mut settings.server_lifetime, self.server_lifetime),
            (&mut settings.reserve_pool_timeout, self.reserve_pool_timeout),
            (&mut settings.auth_query_cache, self.auth_query_cache),
        ] {
            put(time, given.map(seconds).transpose()?);
        }
        Ok(())
    }
}

fn put<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn put_some<T: Clone>(field: &mut Option<T>, given: Option<&T>) {
    if given.is_some() {
        *field = given.cloned();
    }
}

fn put_list<T: Clone>(field: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *field = given.to_vec();
    }
}

fn seconds(number: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(number).context("a time is no number of seconds")
}
