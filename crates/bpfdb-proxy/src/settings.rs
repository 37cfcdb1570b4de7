//! What can be set; names and meanings are PgBouncer's where it has the same.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::io::socket::Address;

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

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthType {
    /// Not at all.
    #[default]
    Trust,
    /// A password as it is.
    Plain,
    Md5,
    /// SCRAM-SHA-256, without channel binding.
    Scram,
}

/// A database as clients name it, and where it is.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) address: Address,
    /// Its name there; without one that by which clients ask for it.
    pub(crate) name: Option<String>,
    /// The user as which servers log in; without one the client's.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) pool_size: Option<usize>,
    pub(crate) pool_mode: Option<PoolMode>,
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
    /// Passwords, or what PostgreSQL keeps of them, by user.
    pub users: HashMap<String, String>,
    pub pool_mode: PoolMode,
    /// Servers of one user on one database.
    pub default_pool_size: usize,
    pub max_client_conn: usize,
    /// How long a client waits for a server.
    pub query_wait_timeout: Duration,
    /// How long a client may take to log in.
    pub client_login_timeout: Duration,
    /// How long a server may take to let us in.
    pub server_connect_timeout: Duration,
    /// How long the database may take to answer a request to cancel.
    pub cancel_wait_timeout: Duration,
    /// Servers that are in use by none for so long are closed.
    pub server_idle_timeout: Duration,
    /// What puts a server right whose client has left state in its session.
    pub server_reset_query: String,
    /// Prepared statements that a server keeps for all clients.
    pub max_prepared_statements: usize,
    /// Parameters at the start of clients that are passed over.
    pub ignore_startup_parameters: Vec<String>,
    /// The cgroup whose clients and databases are served in the kernel.
    pub cgroup: Option<PathBuf>,
    /// All goes through user space, programs or not: for tests.
    pub always_slow: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 6432))],
            unix_socket_dirs: Vec::new(),
            databases: HashMap::new(),
            auth_type: AuthType::default(),
            users: HashMap::new(),
            pool_mode: PoolMode::default(),
            default_pool_size: 20,
            max_client_conn: 1000,
            query_wait_timeout: Duration::from_secs(120),
            client_login_timeout: Duration::from_secs(60),
            server_connect_timeout: Duration::from_secs(15),
            cancel_wait_timeout: Duration::from_secs(10),
            server_idle_timeout: Duration::from_secs(600),
            server_reset_query: "DISCARD ALL".into(),
            max_prepared_statements: 200,
            ignore_startup_parameters: Vec::new(),
            cgroup: None,
            always_slow: false,
        }
    }
}

const PORT: u16 = 5432;

/// `NAME=host=… port=… dbname=… user=… password=… pool_size=… pool_mode=…`
impl FromStr for Database {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::Settings(format!("database: {what}"));
        let mut words = HashMap::new();
        for word in text.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| wrong(&format!("{word} is not NAME=VALUE")))?;
            words.insert(name, value.to_owned());
        }
        let host = words.remove("host").unwrap_or_else(|| "127.0.0.1".into());
        let port = match words.remove("port") {
            Some(port) => port.parse().map_err(|_| wrong("the port is no number"))?,
            None => PORT,
        };
        let pool_size = (words.remove("pool_size"))
            .map(|size| size.parse().map_err(|_| wrong("pool_size is no number")))
            .transpose()?;
        let pool_mode = (words.remove("pool_mode"))
            .map(|mode| mode.parse())
            .transpose()?;
        let database = Self {
            address: address(&host, port)?,
            name: words.remove("dbname"),
            user: words.remove("user"),
            password: words.remove("password"),
            pool_size,
            pool_mode,
        };
        match words.keys().next() {
            Some(unknown) => Err(wrong(&format!("{unknown} is not known"))),
            None => Ok(database),
        }
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

impl FromStr for AuthType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "trust" => Ok(Self::Trust),
            "plain" => Ok(Self::Plain),
            "md5" => Ok(Self::Md5),
            "scram-sha-256" => Ok(Self::Scram),
            _ => Err(Error::Settings(format!(
                "{text} is none of trust, plain, md5, scram-sha-256"
            ))),
        }
    }
}

/// A folder of Unix sockets, or a host, which is looked up now.
fn address(host: &str, port: u16) -> Result<Address> {
    use std::net::ToSocketAddrs;

    if host.starts_with('/') {
        let file = format!(".s.PGSQL.{port}");
        return Ok(Address::Unix(PathBuf::from(host).join(file)));
    }
    let found = (host, port).to_socket_addrs().ok();
    let first = found.and_then(|mut found| found.next());
    first
        .map(Address::Inet)
        .ok_or_else(|| Error::Settings(format!("there is no host {host}")))
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
    let text = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != '"' {
            value.push(letter);
        } else if letters.next_if(|(_, next)| *next == '"').is_some() {
            value.push('"');
        } else {
            return Some((value, &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
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
        assert_eq!(database.address, Address::Unix("/run/.s.PGSQL.5433".into()));
        assert_eq!(database.name.as_deref(), Some("b"));
        assert!("hots=a".parse::<Database>().is_err());
    }
}
