//! Where a database is: at one host, or at one of several.

use std::fmt;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::io::socket::Address;

const PORT: &str = "5432";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// As it was named: a certificate has this name.
    pub(crate) name: String,
    pub(crate) address: Address,
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

/// Of names with commas between them, and of one port for all or of as many ports. Names are looked up now.
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
    let host = |(name, port): (&&str, &u16)| {
        Ok(Host {
            name: (*name).to_owned(),
            address: address(name, *port)?,
        })
    };
    names.iter().zip(ports.iter().cycle()).map(host).collect()
}

/// A folder of Unix sockets, or a host.
fn address(host: &str, port: u16) -> Result<Address> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_each_or_one_for_all() {
        let read = |names, ports| {
            let hosts = hosts(names, ports).expect("hosts");
            let shown = |host: Host| format!("{} {}", host.name, host.address);
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
