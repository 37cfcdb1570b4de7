//! Where a database is: at one host, or at one of several.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::io::socket::Address;

const PORT: &str = "5432";

/// What names mean; ports are 0.
pub(crate) type Addresses = BTreeMap<String, Vec<SocketAddr>>;

/// An address of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// As it was named: a certificate has this name.
    pub(crate) name: String,
    pub(crate) port: u16,
    /// `None`: its name has none now.
    pub(crate) address: Option<Address>,
}

/// Which of the hosts is meant; names and meanings are libpq's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TargetSessionAttrs {
    /// The first that lets the proxy in.
    #[default]
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
}

impl TargetSessionAttrs {
    /// Is a server one of those that are meant? By what it reports of `in_hot_standby` and of
    /// `default_transaction_read_only`; PostgreSQL before 14 reports neither, and is not.
    pub(crate) fn fits(self, in_hot_standby: Option<&str>, read_only: Option<&str>) -> bool {
        let is_on = |value: Option<&str>| Some(value? == "on");
        let (standby, read_only) = (is_on(in_hot_standby), is_on(read_only));
        match self {
            Self::Any => true,
            Self::Primary => standby == Some(false),
            Self::Standby => standby == Some(true),
            Self::ReadWrite => standby == Some(false) && read_only == Some(false),
            Self::ReadOnly => standby == Some(true) || read_only == Some(true),
        }
    }
}

impl FromStr for TargetSessionAttrs {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "any" => Ok(Self::Any),
            "read-write" => Ok(Self::ReadWrite),
            "read-only" => Ok(Self::ReadOnly),
            "primary" => Ok(Self::Primary),
            "standby" => Ok(Self::Standby),
            _ => Err(Error::Settings(format!(
                "target_session_attrs: {text} is none of any, read-write, read-only, primary, standby"
            ))),
        }
    }
}

impl fmt::Display for TargetSessionAttrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
            Self::Primary => "primary",
            Self::Standby => "standby",
        })
    }
}

/// Of names with commas between them, and of one port for all or of as many ports. Nothing is looked up.
pub(super) fn hosts(names: &str, ports: Option<&str>) -> Result<Vec<Host>> {
    let wrong = |what: &str| Error::Settings(format!("database: {what}"));
    let ports: Vec<u16> = (ports.unwrap_or(PORT).split(','))
        .map(|port| port.trim().parse())
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| wrong("the port is no number"))?;
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if ports.len() != 1 && ports.len() != names.len() {
        return Err(wrong("there are not as many ports as hosts"));
    }
    let host = |(name, port): (&&str, &u16)| Host {
        name: (*name).to_owned(),
        port: *port,
        address: address(name, *port),
    };
    Ok(names.iter().zip(ports.iter().cycle()).map(host).collect())
}

/// A folder of Unix sockets, or an address; `None`: a name.
fn address(name: &str, port: u16) -> Option<Address> {
    if name.starts_with('/') {
        let file = PathBuf::from(name).join(format!(".s.PGSQL.{port}"));
        return Some(Address::Unix(file));
    }
    let ip: IpAddr = name.parse().ok()?;
    Some(Address::Inet((ip, port).into()))
}

/// The addresses that a name has now, as the system orders them; none: it is not known, or nobody who knows it answers.
/// That may take seconds.
pub(crate) fn look_up(name: &str) -> Vec<SocketAddr> {
    let mut all = Vec::new();
    for address in (name, 0).to_socket_addrs().into_iter().flatten() {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

impl Host {
    /// Where it is.
    ///
    /// # Errors
    /// Its name has no address now.
    pub(crate) fn place(&self) -> io::Result<&Address> {
        let unknown = || io::Error::other("its name cannot be looked up");
        self.address.as_ref().ok_or_else(unknown)
    }

    pub(crate) fn is_inet(&self) -> bool {
        !matches!(self.address, Some(Address::Unix(_)))
    }

    /// Is it another address of the same name?
    fn is_alike(&self, other: &Self) -> bool {
        self.name == other.name && self.port == other.port
    }

    /// May its address change?
    pub(crate) fn has_name(&self) -> bool {
        self.is_inet() && self.name.parse::<IpAddr>().is_err()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => address.fmt(f),
            None => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// What the names of these hosts mean.
pub(super) fn meanings<'a>(hosts: impl Iterator<Item = &'a Host>) -> Addresses {
    let mut all = Addresses::new();
    for host in hosts.filter(|host| host.has_name()) {
        let meaning = all.entry(host.name.clone()).or_default();
        if let Some(Address::Inet(address)) = host.address {
            let address = with_port(address, 0);
            if !meaning.contains(&address) {
                meaning.push(address);
            }
        }
    }
    all
}

/// Hosts as they are named: of each name and port one.
pub(crate) fn named(hosts: &[Host]) -> impl Iterator<Item = &[Host]> {
    hosts.chunk_by(Host::is_alike)
}

/// The hosts with what their names mean now. Those that stay come first, and a name that cannot be looked up keeps what it
/// meant: so the order of an answer changes nothing.
pub(crate) fn renewed(hosts: &[Host], found: &Addresses) -> Vec<Host> {
    let mut all = Vec::new();
    for alike in named(hosts) {
        let Host { name, port, .. } = &alike[0];
        let Some(now) = found.get(name).filter(|now| !now.is_empty()) else {
            all.extend_from_slice(alike);
            continue;
        };
        let now = || {
            now.iter()
                .map(|&address| Address::Inet(with_port(address, *port)))
        };
        let stays = |host: &&Host| now().any(|address| Some(address) == host.address);
        all.extend(alike.iter().filter(stays).cloned());
        let is_there = |address: &Address| {
            alike
                .iter()
                .any(|host| host.address.as_ref() == Some(address))
        };
        all.extend(
            now()
                .filter(|address| !is_there(address))
                .map(|address| Host {
                    name: name.clone(),
                    port: *port,
                    address: Some(address),
                }),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_each_or_one_for_all() {
        let read = |names, ports| {
            let hosts = hosts(names, ports).expect("hosts");
            let shown = |host: Host| format!("{} {host}", host.name);
            hosts.into_iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(
            read("127.0.0.1,/run", Some("1, 2")),
            ["127.0.0.1 127.0.0.1:1", "/run /run/.s.PGSQL.2"]
        );
        assert_eq!(
            read("127.0.0.1,127.0.0.2", None),
            ["127.0.0.1 127.0.0.1:5432", "127.0.0.2 127.0.0.2:5432"]
        );
        assert!(hosts("127.0.0.1", Some("1,2")).is_err());
        assert!(hosts("127.0.0.1", Some("a")).is_err());
    }

    #[test]
    fn a_name_means_what_it_means_now() {
        let host = |name: &str, port, address| Host {
            name: name.to_owned(),
            port,
            address,
        };
        let inet = |name, last, port| {
            let address = Address::Inet(([192, 0, 2, last], port).into());
            host(name, port, Some(address))
        };
        let before = [
            inet("moves", 1, 5432),
            inet("moves", 2, 5432),
            inet("moves", 1, 5433),
            host("appears", 1, None),
            host("/run", 1, Some(Address::Unix("/run/.s.PGSQL.1".into()))),
        ];
        assert_eq!(named(&before).count(), 4);
        let found = |names: &[(&str, &[u8])]| {
            let ip = |last: &u8| SocketAddr::from(([192, 0, 2, *last], 0));
            let one = |(name, last): &(&str, &[u8])| {
                ((*name).to_owned(), last.iter().map(ip).collect::<Vec<_>>())
            };
            names.iter().map(one).collect::<Addresses>()
        };
        let shown = |hosts: &[Host]| {
            let shown = |host: &Host| host.to_string();
            hosts.iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        // The same in another order, and no answer.
        let now = renewed(&before, &found(&[("moves", &[2, 1]), ("appears", &[])]));
        assert_eq!(
            shown(&now),
            "192.0.2.1:5432 192.0.2.2:5432 192.0.2.1:5433 192.0.2.2:5433 appears:1 /run/.s.PGSQL.1"
        );
        let now = renewed(&now, &found(&[("moves", &[3, 2]), ("appears", &[7])]));
        assert_eq!(
            shown(&now),
            "192.0.2.2:5432 192.0.2.3:5432 192.0.2.2:5433 192.0.2.3:5433 192.0.2.7:1 /run/.s.PGSQL.1"
        );
    }

    #[test]
    fn a_name_is_not_looked_up_while_it_is_read() {
        let hosts = hosts("localhost", Some("7")).expect("a host");
        assert_eq!((hosts.len(), &hosts[0].address), (1, &None));
        assert!(hosts[0].has_name() && hosts[0].place().is_err());
        let literal = super::hosts("::1,/run", None).expect("hosts");
        assert!(literal.iter().all(|host| !host.has_name()));
        // The scope of an address within a link is part of it.
        let scoped = look_up("fe80::1%1");
        assert!(
            scoped
                .iter()
                .all(|address| address.to_string().contains("%1"))
        );
        assert_eq!(scoped.len(), 1);
    }

    #[test]
    fn a_role_is_that_of_libpq() {
        let (on, off) = (Some("on"), Some("off"));
        for (attrs, primary, standby, silent) in [
            ("any", true, true, true),
            ("read-write", true, false, false),
            ("read-only", false, true, false),
            ("primary", true, false, false),
            ("standby", false, true, false),
        ] {
            let attrs: TargetSessionAttrs = attrs.parse().expect("known");
            assert_eq!(attrs.fits(off, off), primary, "{attrs}");
            assert_eq!(attrs.fits(on, off), standby, "{attrs}");
            assert_eq!(attrs.fits(None, None), silent, "{attrs}");
        }
        let read_only = TargetSessionAttrs::ReadOnly;
        assert!(read_only.fits(off, on) && !TargetSessionAttrs::ReadWrite.fits(off, on));
        assert!("prefer-standby".parse::<TargetSessionAttrs>().is_err());
    }
}
