//! What can be set; names and meanings are PgBouncer's where it has the same.

mod administration;
mod connection;
mod hosts;
mod limits;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

pub use crate::hba::{AuthType, Hba};
pub use crate::io::alive::KeepAlive;
pub use crate::io::tls::{SslMode, TlsSettings};
pub use administration::{Administration, UserSettings};
pub(crate) use connection::pairs;
pub(crate) use hosts::{Addresses, Host, TargetSessionAttrs, look_up, named, renewed};
pub(crate) use limits::{Limits, own_limit, seconds};

/// When a server goes back to its pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// When the transaction is over.
    #[default]
    Transaction,
    /// After each statement; transactions of several are refused.
    Statement,
}

/// A database as clients name it, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// At least one; of a name with several addresses one for each.
    pub(crate) hosts: Vec<Host>,
    /// Which of them is used.
    pub(crate) target: TargetSessionAttrs,
    /// Its name there; without one that by which clients ask for it.
    pub(crate) name: Option<String>,
    /// The user as which servers log in; without one the client's.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) pool_size: Option<usize>,
    pub(crate) pool_mode: Option<PoolMode>,
    /// In the place of the settings of the same name.
    pub(crate) min_pool_size: Option<usize>,
    pub(crate) reserve_pool: Option<usize>,
    pub(crate) query_wait_timeout: Option<Duration>,
    pub(crate) server_lifetime: Option<Duration>,
    pub(crate) max_db_connections: Option<usize>,
    pub(crate) max_db_client_connections: Option<usize>,
    pub(crate) auth_user: Option<String>,
    pub(crate) auth_dbname: Option<String>,
    pub(crate) auth_query: Option<String>,
    /// Parameters with which servers start.
    pub(crate) parameters: Vec<(String, String)>,
    /// What a server does before a client has it.
    pub(crate) connect_query: Option<String>,
    /// The database that gets all that this one gets.
    pub(crate) mirror: Option<String>,
}

/// For all databases that have none of their own.
pub const ANY_DATABASE: &str = "*";

#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: Vec<SocketAddr>,
    /// Folders in which there is a Unix socket for clients, too.
    pub unix_socket_dirs: Vec<PathBuf>,
    pub databases: HashMap<String, Database>,
    pub auth_type: AuthType,
    /// Rules that say more than `auth_type`: a client in none of them is refused.
    pub hba: Option<Hba>,
    /// Passwords, or what PostgreSQL keeps of them, by user.
    pub users: HashMap<String, String>,
    /// The user that asks the database for what it keeps of the password of users that are not in `users`.
    pub auth_user: Option<String>,
    /// The question, with the user as `$1`; a row of a name, and of what is kept.
    pub auth_query: String,
    /// The database that is asked; without one that of the client, if it is named in `databases`.
    pub auth_dbname: Option<String>,
    /// How long an answer is good for.
    pub auth_query_cache: Duration,
    pub client_tls: TlsSettings,
    /// Connections with TLS are served by the process alone: so there is none unless it is asked for.
    pub server_tls: TlsSettings,
    /// Of clients and of servers.
    pub keep_alive: KeepAlive,
    pub pool_mode: PoolMode,
    /// Servers of one user on one database.
    pub default_pool_size: usize,
    pub max_client_conn: usize,
    /// So many servers a pool has at least, while it has clients.
    pub min_pool_size: usize,
    /// How long a client waits for a server.
    pub query_wait_timeout: Duration,
    /// A client that waits for so long is told so; zero: none is.
    pub query_wait_notify: Duration,
    /// How long a query may take; zero, here and for all times: as long as it likes.
    pub query_timeout: Duration,
    /// How long a transaction may stand still.
    pub idle_transaction_timeout: Duration,
    /// How long a transaction may last, or a query outside of one.
    pub transaction_timeout: Duration,
    /// How long a client may do nothing.
    pub client_idle_timeout: Duration,
    /// How old a server becomes; one that is in use is closed when it is free.
    pub server_lifetime: Duration,
    /// So many more servers a pool may have if a client has waited for `reserve_pool_timeout`.
    pub reserve_pool_size: usize,
    pub reserve_pool_timeout: Duration,
    /// Servers of one database, of all users; 0: any number.
    pub max_db_connections: usize,
    /// Clients of one database, and of one user; 0: any number.
    pub max_db_client_connections: usize,
    pub max_user_client_connections: usize,
    /// Servers that log in as one user, at all databases; 0: any number.
    pub max_user_connections: usize,
    /// How long a client may take to log in.
    pub client_login_timeout: Duration,
    /// How long a server may take to let us in.
    pub server_connect_timeout: Duration,
    /// How long no server is opened for `min_pool_size` when one could not log in.
    pub server_login_retry: Duration,
    /// How long the database may take to answer a request to cancel.
    pub cancel_wait_timeout: Duration,
    /// Servers that are in use by none for so long are closed.
    pub server_idle_timeout: Duration,
    /// What puts a server right whose client has left state in its session.
    pub server_reset_query: String,
    /// Prepared statements that a server keeps for all clients.
    pub max_prepared_statements: usize,
    /// Bytes that wait for the mirror of a database, at most; what is beyond is lost for it.
    pub mirror_queue: usize,
    /// The name of an application says where its client is, too.
    pub application_name_add_host: bool,
    /// Parameters at the start of clients that are passed over.
    pub ignore_startup_parameters: Vec<String>,
    /// Names of hosts are looked up so often, and so often while one of them is not known.
    pub dns_max_ttl: Duration,
    pub dns_nxdomain_ttl: Duration,
    /// The cgroup whose clients and databases are served in the kernel.
    pub cgroup: Option<PathBuf>,
    /// All goes through user space, programs or not: for tests.
    pub always_slow: bool,
    pub administration: Administration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 6432))],
            unix_socket_dirs: Vec::new(),
            databases: HashMap::new(),
            auth_type: AuthType::default(),
            hba: None,
            users: HashMap::new(),
            auth_user: None,
            auth_query: AUTH_QUERY.into(),
            auth_dbname: None,
            auth_query_cache: Duration::from_secs(30),
            client_tls: TlsSettings::default(),
            server_tls: TlsSettings::default(),
            keep_alive: KeepAlive::default(),
            pool_mode: PoolMode::default(),
            default_pool_size: 20,
            max_client_conn: 1000,
            min_pool_size: 0,
            query_wait_timeout: Duration::from_secs(120),
            query_wait_notify: Duration::from_secs(5),
            query_timeout: Duration::ZERO,
            idle_transaction_timeout: Duration::ZERO,
            transaction_timeout: Duration::ZERO,
            client_idle_timeout: Duration::ZERO,
            server_lifetime: Duration::from_secs(3600),
            reserve_pool_size: 0,
            reserve_pool_timeout: Duration::from_secs(5),
            max_db_connections: 0,
            max_db_client_connections: 0,
            max_user_client_connections: 0,
            max_user_connections: 0,
            client_login_timeout: Duration::from_secs(60),
            server_connect_timeout: Duration::from_secs(15),
            server_login_retry: Duration::from_secs(15),
            cancel_wait_timeout: Duration::from_secs(10),
            server_idle_timeout: Duration::from_secs(600),
            server_reset_query: "DISCARD ALL".into(),
            max_prepared_statements: 200,
            mirror_queue: 16 << 20,
            application_name_add_host: false,
            ignore_startup_parameters: Vec::new(),
            dns_max_ttl: Duration::from_secs(15),
            dns_nxdomain_ttl: Duration::from_secs(15),
            cgroup: None,
            always_slow: false,
            administration: Administration::default(),
        }
    }
}

impl Settings {
    /// Gives names of hosts the addresses that they have in `known`. Names that are not there are looked up, each once.
    pub(crate) fn find_hosts(
        &mut self,
        known: Option<&Self>,
        look_up: impl Fn(&str) -> Vec<SocketAddr>,
    ) {
        let known = known.map(Self::names).unwrap_or_default();
        let mut found = self.names();
        for (name, addresses) in &mut found {
            match known.get(name) {
                Some(known) => addresses.clone_from(known),
                None => *addresses = look_up(name),
            }
        }
        for database in self.databases.values_mut() {
            database.hosts = renewed(&database.hosts, &found);
        }
    }

    /// What names of hosts mean.
    pub(crate) fn names(&self) -> Addresses {
        let databases = self.databases.values();
        hosts::meanings(databases.flat_map(|database| &database.hosts))
    }

    /// Do some clients come in by their certificates?
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.hba.as_ref().is_some_and(Hba::asks_for_certificates)
    }

    /// # Errors
    /// A mirror that is not known, a database that is its own, a number that the system would not take, or certificates
    /// that no client can show.
    pub(crate) fn check(&self) -> Result<()> {
        self.keep_alive.check()?;
        if self.asks_for_certificates() && self.client_tls.mode == SslMode::Disable {
            let told = "the method cert needs TLS with clients (client_tls_sslmode)";
            return Err(Error::Settings(told.into()));
        }
        for (name, database) in &self.databases {
            let Some(mirror) = &database.mirror else {
                continue;
            };
            let is_known = |name: &str| self.databases.contains_key(name);
            if mirror == name || !(is_known(mirror) || is_known(ANY_DATABASE)) {
                let told = format!("{name}: mirror={mirror} is no other database");
                return Err(Error::Settings(told));
            }
        }
        Ok(())
    }

    /// The mode of a user's pool: the user's own, that of the database, or the usual one.
    pub(crate) fn mode(&self, database: &Database, user: &str) -> PoolMode {
        let of_user = self.administration.users.get(user);
        let of_user = of_user.and_then(|user| user.pool_mode);
        of_user.or(database.pool_mode).unwrap_or(self.pool_mode)
    }
}

/// What PostgreSQL keeps of those that may log in, and whose password has not expired.
pub const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END \
                              FROM pg_authid WHERE rolname = $1 AND rolcanlogin";

/// Parameters that a database may have its servers start with.
const STARTED_WITH: [&str; 4] = [
    "client_encoding",
    "datestyle",
    "timezone",
    "application_name",
];

/// `host=… port=… dbname=… user=… password=… pool_size=… pool_mode=… mirror=…`; without a host it is on this
/// machine, by TCP.
impl FromStr for Database {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text, "127.0.0.1")
    }
}

impl Database {
    /// Of a connection string. `host`: where it is that names none.
    pub(crate) fn read(text: &str, host: &str) -> Result<Self> {
        let pairs = connection::pairs(text);
        let pairs = pairs.map_err(|error| Error::Settings(format!("database: {error}")))?;
        Self::of(pairs, host)
    }

    /// The same, of the pairs of such a string.
    pub(crate) fn of(pairs: Vec<(String, String)>, host: &str) -> Result<Self> {
        let wrong = |what: &str| Error::Settings(format!("database: {what}"));
        let mut words: HashMap<_, _> = pairs.into_iter().collect();
        let named = words.remove("host").filter(|host| !host.is_empty());
        let host = named.unwrap_or_else(|| host.to_owned());
        let port = words.remove("port");
        let target = words.remove("target_session_attrs");
        let target = target.map_or(Ok(TargetSessionAttrs::Any), |target| target.parse())?;
        let mut number = |name: &str| {
            let number = words.remove(name).map(|text| text.parse());
            let wrong = |_| wrong(&format!("{name} is no number"));
            number.transpose().map_err(wrong)
        };
        let pool_size = number("pool_size")?;
        let min_pool_size = number("min_pool_size")?;
        // The former name of the same.
        let reserve_pool = number("reserve_pool_size")?.or(number("reserve_pool")?);
        let max_db_connections = number("max_db_connections")?;
        let max_db_client_connections = number("max_db_client_connections")?;
        let mut limit = |name: &str| {
            let limit = words.remove(name).map(|text| own_limit(&text));
            let wrong = |told| wrong(&format!("{name}: {told}"));
            limit.transpose().map(Option::flatten).map_err(wrong)
        };
        let query_wait_timeout = limit("query_wait_timeout")?;
        let server_lifetime = limit("server_lifetime")?;
        let pool_mode = (words.remove("pool_mode"))
            .map(|mode| mode.parse())
            .transpose()?;
        let parameters = STARTED_WITH
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), words.remove(*name)?)))
            .collect();
        let database = Self {
            hosts: hosts::hosts(&host, port.as_deref())?,
            target,
            name: words.remove("dbname"),
            user: words.remove("user"),
            password: words.remove("password"),
            pool_size,
            pool_mode,
            min_pool_size,
            reserve_pool,
            query_wait_timeout,
            server_lifetime,
            max_db_connections,
            max_db_client_connections,
            auth_user: words.remove("auth_user").filter(|user| !user.is_empty()),
            auth_dbname: words.remove("auth_dbname").filter(|name| !name.is_empty()),
            auth_query: words.remove("auth_query").filter(|query| !query.is_empty()),
            parameters,
            connect_query: words.remove("connect_query"),
            mirror: words.remove("mirror").filter(|name| !name.is_empty()),
        };
        match words.keys().next() {
            Some(unknown) => Err(wrong(&format!("{unknown} is not known"))),
            None => Ok(database),
        }
    }

    /// Are connections to the one as good as connections to the other? The order of hosts is none of the place: that of a
    /// name's addresses may be another with each lookup.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        let of = |one: &Self| {
            let Self {
                mut hosts,
                target,
                name,
                user,
                password,
                parameters,
                connect_query,
                ..
            } = one.clone();
            hosts.sort_by_cached_key(|host| (host.name.clone(), host.to_string()));
            let session = (parameters, connect_query);
            (hosts, target, name, user, password, session)
        };
        of(self) == of(other)
    }
}

impl FromStr for PoolMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "session" => Ok(Self::Session),
            "transaction" => Ok(Self::Transaction),
            "statement" => Ok(Self::Statement),
            _ => Err(Error::Settings(format!(
                "{text} is none of session, transaction, statement"
            ))),
        }
    }
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        })
    }
}

/// The users of a file with lines `"user" "password"`, as PgBouncer has it: the password as it is, or as
/// PostgreSQL keeps it (`md5…`, `SCRAM-SHA-256$…`). Quotes within are doubled; lines that
/// begin with `;` are comments.
pub fn users(text: &str) -> Result<HashMap<String, String>> {
    let mut users = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        let pair = quoted(line).and_then(|(user, rest)| Some((user, quoted(rest.trim())?.0)));
        let (user, password) = pair.ok_or_else(|| {
            let number = number + 1;
            Error::Settings(format!(
                "auth_file: line {number} is not \"user\" \"password\""
            ))
        })?;
        users.insert(user, password);
    }
    Ok(users)
}

fn quoted(text: &str) -> Option<(String, &str)> {
    until_quote(text.strip_prefix('"')?, '"')
}

/// What stands before a quote, two of which are one within, and what follows it.
pub(crate) fn until_quote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != quote {
            value.push(letter);
        } else if letters.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return Some((value, &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn users_are_read() {
        let read = users("; a comment\n\"a\" \"b\"\n\"c\"\"d\" \"md5…\"\n").expect("a file");
        assert_eq!(read["a"], "b");
        assert_eq!(read["c\"d"], "md5…");
        assert!(users("a b").is_err());
    }

    #[test]
    fn a_database_is_read() {
        let database: Database = "host=/run port=5433 dbname=b".parse().expect("a database");
        assert_eq!(database.hosts[0].to_string(), "/run/.s.PGSQL.5433");
        assert_eq!(database.name.as_deref(), Some("b"));
        assert!("hots=a".parse::<Database>().is_err());
    }

    #[test]
    fn names_are_looked_up_once_and_not_again() {
        let read = |hosts: &[&str]| {
            let mut settings = Settings::default();
            for (number, host) in hosts.iter().enumerate() {
                let database = format!("host={host}").parse().expect("a database");
                settings.databases.insert(number.to_string(), database);
            }
            settings
        };
        let asked = RefCell::new(Vec::new());
        let look_up = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            match name {
                "unknown" => Vec::new(),
                _ => vec![([192, 0, 2, 1], 0).into()],
            }
        };
        let mut first = read(&["one", "one,127.0.0.1", "one", "unknown"]);
        first.find_hosts(None, look_up);
        assert_eq!(asked.take(), ["one", "unknown"]);
        assert_eq!(first.databases["1"].hosts.len(), 2);
        // As RELOAD reads it, also while nobody answers who knows names.
        let mut second = read(&["one", "two", "unknown"]);
        second.find_hosts(Some(&first), look_up);
        assert_eq!(asked.take(), ["two"]);
        assert_eq!(second.databases["0"].hosts, first.databases["0"].hosts);
        assert!(second.databases["2"].hosts[0].address.is_none());
    }

    #[test]
    fn a_place_is_its_hosts_in_any_order() {
        let read = |hosts: &str| {
            let database = format!("host={hosts} port=1,2").parse::<Database>();
            database.expect("a database")
        };
        let mut database = read("127.0.0.1,127.0.0.2");
        let before = database.clone();
        database.hosts.reverse();
        assert!(database != before && database.is_same_place(&before));
        assert!(!database.is_same_place(&read("127.0.0.1,127.0.0.3")));
    }
}
