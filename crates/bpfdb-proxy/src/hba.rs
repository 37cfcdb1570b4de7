//! Admission of clients, and their ways to authenticate: rules in the form of PostgreSQL's `pg_hba.conf`.

use std::net::IpAddr;
use std::str::FromStr;

use crate::error::{Error, Result};

/// How clients authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthType {
    /// Not at all.
    #[default]
    Trust,
    /// A password as it is.
    Plain,
    /// SCRAM-SHA-256 for those whose password is kept so.
    Md5,
    /// SCRAM-SHA-256, without channel binding.
    Scram,
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

/// What a rule says of those whom it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Reject,
    /// The user of the other end of a Unix socket has the name that the client asks for.
    Peer,
    /// The certificate that the client has shown has the name of the user.
    Cert,
    Prove(AuthType),
}

/// A client, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    /// `None`: it came by a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) has_tls: bool,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

/// Which connections a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    Host,
    HostTls,
    HostPlain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    All,
    /// The database has the user's name.
    SameUser,
    Is(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    All,
    /// Those that agree with this one in so many bits.
    Net(IpAddr, u8),
}

#[derive(Clone, Debug)]
struct Rule {
    kind: Kind,
    databases: Vec<Name>,
    users: Vec<Name>,
    addresses: Addresses,
    method: Method,
}

/// The rules of a file, in its order.
#[derive(Clone, Debug)]
pub struct Hba {
    rules: Vec<Rule>,
}

impl Hba {
    /// `file`: its name, for errors.
    ///
    /// # Errors
    /// A line that is no rule, or says what the proxy does not know: with file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let rule = words(line).and_then(|words| rule(&words));
            let wrong = |told| Error::Settings(format!("{file}:{}: {told}", number + 1));
            rules.extend(rule.map_err(wrong)?);
        }
        Ok(Self { rules })
    }

    /// The certificate says who a client is, whoever it is.
    pub(crate) fn of_certificates() -> Self {
        let all = || vec![Name::All];
        let rule = Rule {
            kind: Kind::HostTls,
            databases: all(),
            users: all(),
            addresses: Addresses::All,
            method: Method::Cert,
        };
        Self { rules: vec![rule] }
    }

    /// Does any rule need a certificate of the client?
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.rules.iter().any(|rule| rule.method == Method::Cert)
    }

    /// What the first rule says that is about this client; `None`: there is none.
    pub(crate) fn method(&self, who: &Who<'_>) -> Option<Method> {
        let matches = |rule: &&Rule| rule.is_about(who);
        self.rules.iter().find(matches).map(|rule| rule.method)
    }
}

impl Rule {
    fn is_about(&self, who: &Who<'_>) -> bool {
        let by_kind = match (self.kind, who.address) {
            (Kind::Local, address) => address.is_none(),
            (Kind::Host, Some(_)) => true,
            (Kind::HostTls, Some(_)) => who.has_tls,
            (Kind::HostPlain, Some(_)) => !who.has_tls,
            (_, None) => false,
        };
        by_kind
            && who
                .address
                .is_none_or(|address| self.addresses.has(address))
            && self.databases.iter().any(|name| name.is(who.database, who))
            && self.users.iter().any(|name| name.is(who.user, who))
    }
}

impl Name {
    fn is(&self, name: &str, who: &Who<'_>) -> bool {
        match self {
            Self::All => true,
            Self::SameUser => who.database == who.user,
            Self::Is(own) => own == name,
        }
    }
}

impl Addresses {
    fn has(self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32u8),
            IpAddr::V6(v6) => (u128::from(v6), 128),
        };
        match self {
            Self::All => true,
            Self::Net(net, length) => {
                let ((net, family), (address, other)) = (bits(net), bits(address));
                family == other
                    && (length == 0 || (net ^ address) >> (128 - u32::from(length)) == 0)
            }
        }
    }
}

/// A word, and whether it was quoted: then it is a name whatever it says.
type Word = (String, bool);

/// The columns of a line; each is a list.
fn words(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut columns: Vec<Vec<Word>> = Vec::new();
    let mut letters = line.chars().peekable();
    // Does the next word belong to the list before it?
    let mut goes_on = false;
    while let Some(&letter) = letters.peek() {
        if letter == '#' {
            break;
        }
        if letter.is_whitespace() {
            letters.next();
            continue;
        }
        if letter == ',' {
            letters.next();
            if columns.is_empty() || goes_on {
                return Err("a comma without a word before it".into());
            }
            goes_on = true;
            continue;
        }
        let word = word(&mut letters)?;
        match columns.last_mut() {
            Some(column) if std::mem::take(&mut goes_on) => column.push(word),
            _ => columns.push(vec![word]),
        }
    }
    if goes_on {
        return Err("a comma without a word behind it".into());
    }
    Ok(columns)
}

fn word(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Word, String> {
    let (mut word, mut quoted, mut within) = (String::new(), false, false);
    while let Some(&letter) = letters.peek() {
        if !within && (letter.is_whitespace() || matches!(letter, ',' | '#')) {
            break;
        }
        letters.next();
        if letter == '"' {
            // Two quotes within quotes are one.
            if within && letters.next_if_eq(&'"').is_some() {
                word.push('"');
                continue;
            }
            (quoted, within) = (true, !within);
        } else {
            word.push(letter);
        }
    }
    if within {
        return Err("a quote that does not end".into());
    }
    Ok((word, quoted))
}

/// A column that has one word.
fn one(columns: &[Vec<Word>], at: usize, what: &str) -> Result<String, String> {
    match columns.get(at).map(Vec::as_slice) {
        Some([(word, _)]) => Ok(word.clone()),
        Some(_) => Err(format!("more than one {what}")),
        None => Err(format!("no {what}")),
    }
}

fn rule(columns: &[Vec<Word>]) -> Result<Option<Rule>, String> {
    if columns.is_empty() {
        return Ok(None);
    }
    let kind = match one(columns, 0, "type")?.as_str() {
        "local" => Kind::Local,
        "host" => Kind::Host,
        "hostssl" => Kind::HostTls,
        "hostnossl" => Kind::HostPlain,
        other => {
            return Err(format!(
                "{other} is none of local, host, hostssl, hostnossl"
            ));
        }
    };
    let databases = names(columns.get(1).ok_or("no database")?, true)?;
    let users = names(columns.get(2).ok_or("no user")?, false)?;
    let (addresses, at) = if kind == Kind::Local {
        (Addresses::All, 3)
    } else {
        addresses(columns)?
    };
    let method = method(&one(columns, at, "method")?, kind)?;
    match columns.get(at + 1).and_then(|column| column.first()) {
        Some((word, _)) => Err(format!("{word} behind the method is not known")),
        None => Ok(Some(Rule {
            kind,
            databases,
            users,
            addresses,
            method,
        })),
    }
}

fn names(column: &[Word], are_databases: bool) -> Result<Vec<Name>, String> {
    let name = |(word, quoted): &Word| match word.as_str() {
        _ if *quoted => Ok(Name::Is(word.clone())),
        "all" => Ok(Name::All),
        "sameuser" if are_databases => Ok(Name::SameUser),
        "samerole" | "samegroup" | "replication" if are_databases => {
            Err(format!("{word} is not known to the proxy"))
        }
        word if word.starts_with(['+', '@', '/']) => Err(format!(
            "{word}: groups, files and patterns are not known to the proxy"
        )),
        word => Ok(Name::Is(word.to_owned())),
    };
    column.iter().map(name).collect()
}

/// Addresses, and the column behind them.
fn addresses(columns: &[Vec<Word>]) -> Result<(Addresses, usize), String> {
    let word = one(columns, 3, "address")?;
    if word == "all" {
        return Ok((Addresses::All, 4));
    }
    let parsed = |text: &str| {
        text.parse::<IpAddr>()
            .map_err(|_| format!("{text} is no address; names of hosts are not known to the proxy"))
    };
    if let Some((net, length)) = word.split_once('/') {
        let net = parsed(net)?;
        let most = if net.is_ipv4() { 32 } else { 128 };
        let length = length.parse().ok().filter(|length| *length <= most);
        let length = length.ok_or_else(|| format!("{word}: a length up to {most} is expected"))?;
        return Ok((Addresses::Net(net, length), 4));
    }
    let net = parsed(&word)?;
    let mask = one(columns, 4, "mask")?;
    let length = match (net, parsed(&mask)?) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => ones(u128::from(u32::from(mask)) << 96),
        (IpAddr::V6(_), IpAddr::V6(mask)) => ones(u128::from(mask)),
        _ => None,
    };
    let length = length.ok_or_else(|| format!("{mask} is no mask of {word}"))?;
    Ok((Addresses::Net(net, length), 5))
}

/// How many bits are set, if those are the first ones.
fn ones(mask: u128) -> Option<u8> {
    let ones = mask.leading_ones();
    (mask.count_ones() == ones).then_some(ones as u8)
}

fn method(word: &str, kind: Kind) -> Result<Method, String> {
    match word {
        "trust" => Ok(Method::Prove(AuthType::Trust)),
        "reject" => Ok(Method::Reject),
        "password" | "plain" => Ok(Method::Prove(AuthType::Plain)),
        "md5" => Ok(Method::Prove(AuthType::Md5)),
        "scram-sha-256" => Ok(Method::Prove(AuthType::Scram)),
        "peer" if kind == Kind::Local => Ok(Method::Peer),
        "peer" => Err("peer is for local connections only".into()),
        "cert" if kind == Kind::HostTls => Ok(Method::Cert),
        "cert" => Err("cert is for hostssl only".into()),
        _ => Err(format!(
            "{word} is none of trust, reject, password, md5, scram-sha-256, peer, cert"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# a comment
local   all   admin                         peer
hostssl all   all      10.0.0.0/8           scram-sha-256
host    a,\"all\" b  , c 192.168.0.0 255.255.0.0 md5 # and one behind
host    sameuser all   ::1/128              trust
host    all   all      all                  reject
";

    fn method_of(
        address: Option<&str>,
        has_tls: bool,
        database: &str,
        user: &str,
    ) -> Option<Method> {
        let rules = Hba::parse(FILE, "file").expect("rules");
        let address = address.map(|address| address.parse().expect("an address"));
        rules.method(&Who {
            address,
            has_tls,
            database,
            user,
        })
    }

    #[test]
    fn the_first_rule_that_is_about_a_client_counts() {
        let prove = |auth| Some(Method::Prove(auth));
        assert_eq!(method_of(None, false, "x", "admin"), Some(Method::Peer));
        assert_eq!(method_of(None, false, "x", "b"), None);
        assert_eq!(
            method_of(Some("10.1.2.3"), true, "x", "y"),
            prove(AuthType::Scram)
        );
        assert_eq!(
            method_of(Some("::ffff:10.1.2.3"), true, "x", "y"),
            prove(AuthType::Scram)
        );
        assert_eq!(
            method_of(Some("10.1.2.3"), false, "x", "y"),
            Some(Method::Reject)
        );
        assert_eq!(
            method_of(Some("192.168.9.9"), false, "all", "c"),
            prove(AuthType::Md5)
        );
        assert_eq!(
            method_of(Some("192.168.9.9"), false, "x", "c"),
            Some(Method::Reject)
        );
        assert_eq!(
            method_of(Some("::1"), false, "u", "u"),
            prove(AuthType::Trust)
        );
        assert_eq!(
            method_of(Some("::2"), false, "u", "u"),
            Some(Method::Reject)
        );
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_line() {
        for line in [
            "hosts all all all trust",
            "host all all all trust clientcert=verify-ca",
            "host all all example.org trust",
            "host all all samenet trust",
            "host all all 10.0.0.0/33 trust",
            "host all all 10.0.0.0 255.0.255.0 trust",
            "host all all 10.0.0.0/8 ldap",
            "host all +group all trust",
            "host samerole all all trust",
            "host all all all peer",
            "host all all all cert",
            "hostssl all all all cert map=names",
            "host all \"all all trust",
            "local all",
            "local ,all all trust",
        ] {
            let text = format!("# one\n{line}\n");
            let told = Hba::parse(&text, "/etc/hba").expect_err(line).to_string();
            assert!(told.starts_with("/etc/hba:2: "), "{told}");
        }
    }
}
