//! The flags of the command.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bpfdb_proxy::settings::{
    ANY_DATABASE, AUTH_QUERY, AuthType, Database, Hba, PoolMode, Settings, SslMode, TlsSettings,
    users,
};
use clap::Parser;

/// A pooling proxy before PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "bpfdb-proxy", version)]
pub(crate) struct Arguments {
    /// Where clients connect; may be given several times
    #[arg(long, default_value = "127.0.0.1:6432")]
    listen: Vec<SocketAddr>,
    /// Folder of a Unix socket for clients; may be given several times
    #[arg(long, value_name = "FOLDER")]
    unix_socket_dir: Vec<PathBuf>,
    /// `NAME=host=… port=… dbname=… user=… password=… pool_size=… pool_mode=…`; the name * is for all
    /// databases that are not named. Without any: PostgreSQL at 127.0.0.1:5432
    #[arg(long, value_name = "DATABASE")]
    database: Vec<String>,
    /// trust, plain, md5 or scram-sha-256
    #[arg(long, default_value = "trust")]
    auth_type: AuthType,
    /// File with lines `"user" "password"`
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Rules in the form of pg_hba.conf, instead of --auth-type
    #[arg(long, value_name = "FILE")]
    auth_hba_file: Option<PathBuf>,
    /// Who asks the database for passwords of users that are not in --auth-file
    #[arg(long, value_name = "USER")]
    auth_user: Option<String>,
    /// The question, with the user as $1
    #[arg(long, default_value = AUTH_QUERY)]
    auth_query: String,
    /// The database that is asked; without it the client's, if it has a --database of its own
    #[arg(long, value_name = "DATABASE")]
    auth_dbname: Option<String>,
    /// Seconds that an answer is good for
    #[arg(long, default_value_t = 30.0)]
    auth_query_cache: f64,
    /// TLS with clients: disable, allow, prefer, require, verify-ca or verify-full
    #[arg(long, value_name = "MODE", default_value = "disable")]
    client_tls_sslmode: SslMode,
    /// Authorities of certificates of clients
    #[arg(long, value_name = "FILE")]
    client_tls_ca_file: Option<PathBuf>,
    /// Certificate for clients
    #[arg(long, value_name = "FILE")]
    client_tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    client_tls_key_file: Option<PathBuf>,
    /// TLS with servers, as with clients
    #[arg(long, value_name = "MODE", default_value = "disable")]
    server_tls_sslmode: SslMode,
    /// Authorities of certificates of servers
    #[arg(long, value_name = "FILE")]
    server_tls_ca_file: Option<PathBuf>,
    /// Certificate for servers
    #[arg(long, value_name = "FILE")]
    server_tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    server_tls_key_file: Option<PathBuf>,
    /// session, transaction or statement
    #[arg(long, default_value = "transaction")]
    pool_mode: PoolMode,
    /// Connections to a database for one user
    #[arg(long, default_value_t = 20)]
    default_pool_size: usize,
    /// Connections of clients
    #[arg(long, default_value_t = 1000)]
    max_client_conn: usize,
    /// Seconds that a client waits for a server
    #[arg(long, default_value_t = 120.0)]
    query_wait_timeout: f64,
    /// Seconds that a query may take; 0, here and for all times: any
    #[arg(long, default_value_t = 0.0)]
    query_timeout: f64,
    /// Seconds that a transaction may stand still
    #[arg(long, default_value_t = 0.0)]
    idle_transaction_timeout: f64,
    /// Seconds that a client may do nothing
    #[arg(long, default_value_t = 0.0)]
    client_idle_timeout: f64,
    /// Seconds after which a server is closed when it is free
    #[arg(long, default_value_t = 3600.0)]
    server_lifetime: f64,
    /// More connections for a pool whose clients wait for long
    #[arg(long, default_value_t = 0)]
    reserve_pool_size: usize,
    /// Seconds of waiting after which there are those
    #[arg(long, default_value_t = 5.0)]
    reserve_pool_timeout: f64,
    /// Connections to a database for all users; 0: any number
    #[arg(long, default_value_t = 0)]
    max_db_connections: usize,
    /// Connections of a user to all databases; 0: any number
    #[arg(long, default_value_t = 0)]
    max_user_connections: usize,
    /// Seconds that a client may take to log in
    #[arg(long, default_value_t = 60.0)]
    client_login_timeout: f64,
    /// Seconds that a server may take to let the proxy in
    #[arg(long, default_value_t = 15.0)]
    server_connect_timeout: f64,
    /// Seconds that the database may take to answer a request to cancel
    #[arg(long, default_value_t = 10.0)]
    cancel_wait_timeout: f64,
    /// Seconds after which a server that nobody uses is closed
    #[arg(long, default_value_t = 600.0)]
    server_idle_timeout: f64,
    /// What puts a session right whose client has left state in it
    #[arg(long, default_value = "DISCARD ALL")]
    server_reset_query: String,
    /// Prepared statements that a server keeps
    #[arg(long, default_value_t = 200)]
    max_prepared_statements: usize,
    /// Parameters of clients' starts that are passed over, such as extra_float_digits
    #[arg(long, value_delimiter = ',')]
    ignore_startup_parameters: Vec<String>,
    /// Cgroup whose clients and databases are served in the kernel
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Serve everything in user space: for tests
    #[arg(long)]
    always_slow: bool,
}

impl Arguments {
    pub(crate) fn settings(self) -> anyhow::Result<Settings> {
        let mut databases = HashMap::new();
        for text in &self.database {
            let (name, rest) = text
                .split_once('=')
                .context("--database: NAME=host=… is expected")?;
            databases.insert(name.to_owned(), rest.parse::<Database>()?);
        }
        if databases.is_empty() {
            databases.insert(ANY_DATABASE.to_owned(), "".parse::<Database>()?);
        }
        let users = match &self.auth_file {
            Some(file) => users(&read(file)?)?,
            None => HashMap::new(),
        };
        let hba = match &self.auth_hba_file {
            Some(file) => Some(Hba::parse(&read(file)?, &file.display().to_string())?),
            None => None,
        };
        Ok(Settings {
            listen: self.listen,
            unix_socket_dirs: self.unix_socket_dir,
            databases,
            auth_type: self.auth_type,
            hba,
            auth_user: self.auth_user,
            auth_query: self.auth_query,
            auth_dbname: self.auth_dbname,
            auth_query_cache: seconds(self.auth_query_cache)?,
            client_tls: TlsSettings {
                mode: self.client_tls_sslmode,
                ca_file: self.client_tls_ca_file,
                cert_file: self.client_tls_cert_file,
                key_file: self.client_tls_key_file,
            },
            server_tls: TlsSettings {
                mode: self.server_tls_sslmode,
                ca_file: self.server_tls_ca_file,
                cert_file: self.server_tls_cert_file,
                key_file: self.server_tls_key_file,
            },
            users,
            pool_mode: self.pool_mode,
            default_pool_size: self.default_pool_size,
            max_client_conn: self.max_client_conn,
            query_wait_timeout: seconds(self.query_wait_timeout)?,
            query_timeout: seconds(self.query_timeout)?,
            idle_transaction_timeout: seconds(self.idle_transaction_timeout)?,
            client_idle_timeout: seconds(self.client_idle_timeout)?,
            server_lifetime: seconds(self.server_lifetime)?,
            reserve_pool_size: self.reserve_pool_size,
            reserve_pool_timeout: seconds(self.reserve_pool_timeout)?,
            max_db_connections: self.max_db_connections,
            max_user_connections: self.max_user_connections,
            client_login_timeout: seconds(self.client_login_timeout)?,
            server_connect_timeout: seconds(self.server_connect_timeout)?,
            cancel_wait_timeout: seconds(self.cancel_wait_timeout)?,
            server_idle_timeout: seconds(self.server_idle_timeout)?,
            server_reset_query: self.server_reset_query,
            max_prepared_statements: self.max_prepared_statements,
            ignore_startup_parameters: self.ignore_startup_parameters,
            cgroup: self.cgroup,
            always_slow: self.always_slow,
        })
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn seconds(number: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(number).context("a time is no number of seconds")
}
