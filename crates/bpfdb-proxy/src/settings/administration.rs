//! What operators set besides the serving of clients: the users of the console, what is logged, and what
//! a file of PgBouncer says that has no effect here.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::PoolMode;

/// A row of the section `[users]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSettings {
    pub pool_mode: Option<PoolMode>,
    /// In the place of the settings of the same names, and `pool_size` in that of `default_pool_size`.
    pub pool_size: Option<usize>,
    pub reserve_pool_size: Option<usize>,
    pub query_timeout: Option<Duration>,
    pub query_wait_timeout: Option<Duration>,
    pub idle_transaction_timeout: Option<Duration>,
    pub transaction_timeout: Option<Duration>,
    pub client_idle_timeout: Option<Duration>,
    pub max_user_connections: Option<usize>,
    pub max_user_client_connections: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Administration {
    /// The file that was read; RELOAD reads it again.
    pub file: Option<PathBuf>,
    /// Port of Unix sockets if there is no listener of TCP.
    pub listen_port: u16,
    /// The file mode of Unix sockets.
    pub unix_socket_mode: u32,
    /// Users that may do everything in the console.
    pub admin_users: Vec<String>,
    /// Users that may only look there.
    pub stats_users: Vec<String>,
    /// Everybody may look there, as with `auth_type = any`.
    pub anyone_may_look: bool,
    pub log_connections: bool,
    pub log_disconnections: bool,
    pub log_pooler_errors: bool,
    pub log_stats: bool,
    /// The time of which averages are taken.
    pub stats_period: Duration,
    pub verbose: u32,
    /// Where the log goes instead of standard error.
    pub log_file: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Where a proxy comes that takes over from this one.
    pub takeover_socket: Option<PathBuf>,
    /// Settings of single users, by name.
    pub users: HashMap<String, UserSettings>,
    /// The files of passwords and of rules, which RELOAD reads again.
    pub auth_file: Option<PathBuf>,
    pub auth_hba_file: Option<PathBuf>,
    /// Rules count, and not `auth_type`.
    pub uses_rules: bool,
    /// Certificates say who clients are, as with `auth_type = cert`.
    pub uses_certificates: bool,
    /// What was set without an effect, by the setting's name.
    pub others: BTreeMap<&'static str, String>,
}

impl Default for Administration {
    fn default() -> Self {
        Self {
            file: None,
            listen_port: 6432,
            unix_socket_mode: 0o777,
            admin_users: Vec::new(),
            stats_users: Vec::new(),
            anyone_may_look: false,
            log_connections: true,
            log_disconnections: true,
            log_pooler_errors: true,
            log_stats: true,
            stats_period: Duration::from_secs(60),
            verbose: 0,
            log_file: None,
            pid_file: None,
            metrics: None,
            takeover_socket: None,
            users: HashMap::new(),
            auth_file: None,
            auth_hba_file: None,
            uses_rules: false,
            uses_certificates: false,
            others: BTreeMap::new(),
        }
    }
}
