//! Values of settings, as text: what flags, files and CONFIG SET write. The
//! texts of errors are Redis's where Redis has one.

mod output;
mod size;
mod words;

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

pub use output::{OutputLimit, OutputLimits};
pub use size::{ClientMemory, Size};
pub use words::{AppendFsync, Durability, EvictionPolicy, LogFormat, LogLevel, TablesBy};

/// A type that settings have.
pub(super) trait Value: Sized {
    /// Stands for a value in `--help`.
    const HINT: &'static str;

    fn parse(text: &str) -> Result<Self, String>;

    /// What it becomes by this text, which need not tell all of it.
    fn parse_onto(&self, text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn show(&self) -> String;

    /// As a file has it.
    fn to_toml(&self) -> toml_edit::Value {
        self.show().into()
    }

    /// For settings with bounds.
    fn number(&self) -> Option<i64> {
        None
    }
}

/// For a number beyond its bounds.
pub(crate) fn outside(least: impl fmt::Display, most: impl fmt::Display) -> String {
    format!("argument must be between {least} and {most} inclusive")
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const HINT: &'static str = "N";

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| match text.parse::<i128>() {
                    Ok(_) => outside(<$type>::MIN, <$type>::MAX),
                    Err(_) => "argument couldn't be parsed into an integer".into(),
                })
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn to_toml(&self) -> toml_edit::Value {
                self.number().unwrap_or(i64::MAX).into()
            }

            fn number(&self) -> Option<i64> {
                i64::try_from(*self).ok()
            }
        }
    )*};
}

integers!(u16, u32, u64, i64);

impl Value for bool {
    const HINT: &'static str = "yes|no";

    fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "yes" | "true" => Ok(true),
            "no" | "false" => Ok(false),
            _ => Err("argument must be 'yes' or 'no'".into()),
        }
    }

    fn show(&self) -> String {
        if *self { "yes" } else { "no" }.into()
    }

    fn to_toml(&self) -> toml_edit::Value {
        (*self).into()
    }
}

/// A password; not shown by `{:?}`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub String);

impl Secret {
    /// As in Redis.
    pub const LEN_MAX: usize = 512;
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Value for Secret {
    const HINT: &'static str = "TEXT";

    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > Self::LEN_MAX {
            return Err(format!(
                "argument must not be longer than {} bytes",
                Self::LEN_MAX
            ));
        }
        Ok(Self(text.to_owned()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for IpAddr {
    const HINT: &'static str = "ADDRESS";

    /// Of a name, such as localhost, the first IPv4 address, for which clients
    /// ask and get nothing; else the first.
    fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let found = (text, 0).to_socket_addrs().map_err(|_| {
            "argument must be one IP address, or the name of a host that has one".to_owned()
        })?;
        let mut found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        found.sort_by_key(IpAddr::is_ipv6);
        let first = found.into_iter().next();
        first.ok_or_else(|| "argument is the name of a host without an address".into())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Something that may be left out: the empty text.
macro_rules! optional {
    ($type:ty, $hint:literal, $error:literal, $show:expr) => {
        impl Value for Option<$type> {
            const HINT: &'static str = $hint;

            fn parse(text: &str) -> Result<Self, String> {
                if text.is_empty() {
                    return Ok(None);
                }
                text.parse().map(Some).map_err(|_| $error.into())
            }

            fn show(&self) -> String {
                self.as_ref().map($show).unwrap_or_default()
            }
        }
    };
}

optional!(
    SocketAddr,
    "ADDRESS:PORT",
    "argument must be an address and a port, as 127.0.0.1:9121",
    SocketAddr::to_string
);
optional!(
    PathBuf,
    "PATH",
    "argument must be a path",
    |path: &PathBuf| { path.display().to_string() }
);

/// Which clients are answered inside their own send().
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalClients {
    Off,
    /// All on this machine, as far as the server sees it: those below the root of
    /// its cgroup hierarchy; none if that cannot be had.
    Auto,
    /// Those in a cgroup and below it.
    In(PathBuf),
}

impl Value for LocalClients {
    const HINT: &'static str = "off|auto|PATH";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            path if path.starts_with('/') => Ok(Self::In(path.into())),
            _ => Err("argument must be 'off', 'auto' or the path of a cgroup".into()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Off => "off".into(),
            Self::Auto => "auto".into(),
            Self::In(path) => path.display().to_string(),
        }
    }
}

/// The permissions of a file, in octal digits; 0: as the umask leaves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions(pub u32);

impl Value for Permissions {
    const HINT: &'static str = "OCTAL";

    fn parse(text: &str) -> Result<Self, String> {
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| *mode <= 0o777)
            .map(Self)
            .ok_or_else(|| "argument must be octal permissions, as 700".into())
    }

    fn show(&self) -> String {
        format!("{:o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512m", 512 << 20),
            ("4G", 4 << 30),
            ("100mb", 100 << 20),
            ("2 TiB", 0),
            ("2TiB", 2 << 40),
        ] {
            let parsed = Size::parse(text);
            if text.contains(' ') {
                assert!(parsed.is_err(), "{text}");
            } else {
                assert_eq!(parsed, Ok(Size(bytes)), "{text}");
            }
        }
        for text in ["", "M", "-1", "1.5G", "99999999999T"] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
        assert_eq!(Size(0).to_string(), "0 B");
        assert_eq!(Size(1536).to_string(), "1.5 KiB");
        assert_eq!(Size(64 << 20).to_string(), "64.0 MiB");
    }

    #[test]
    fn what_is_shown_is_read_again() {
        fn again<T: Value + PartialEq + fmt::Debug>(text: &str) {
            let value = T::parse(text).expect(text);
            assert_eq!(T::parse(&value.show()).as_ref(), Ok(&value), "{text}");
        }
        again::<bool>("yes");
        again::<Size>("64M");
        again::<Permissions>("750");
        again::<OutputLimits>("normal 64M 16M 60");
        again::<OutputLimits>(
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        );
        again::<LogLevel>("notice");
        again::<LogFormat>("json");
        again::<Option<SocketAddr>>("127.0.0.1:9121");
        again::<Option<PathBuf>>("");
        again::<IpAddr>("::1");
    }

    #[test]
    fn memory_of_clients() {
        for (text, shown, limit) in [
            ("0", "0", None),
            ("0%", "0", None),
            ("1mb", "1048576", Some(1 << 20)),
            ("5%", "5%", Some(50)),
            ("100%", "100%", Some(1000)),
        ] {
            let parsed = ClientMemory::parse(text).expect(text);
            assert_eq!((parsed.show().as_str(), parsed.limit(1000)), (shown, limit));
        }
        for text in ["101%", "x%", "-5", "%", "5 %"] {
            assert!(ClientMemory::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_has_an_address() {
        let localhost = IpAddr::parse("localhost").expect("in /etc/hosts");
        assert!(localhost.is_loopback());
        assert!(IpAddr::parse("").is_err());
        assert!(IpAddr::parse("no host").is_err());
    }

    #[test]
    fn errors_are_redis_texts() {
        assert_eq!(
            u32::parse("x"),
            Err("argument couldn't be parsed into an integer".into())
        );
        assert_eq!(
            bool::parse("x"),
            Err("argument must be 'yes' or 'no'".into())
        );
        assert_eq!(
            u16::parse("70000"),
            Err("argument must be between 0 and 65535 inclusive".into())
        );
        assert!(LogLevel::parse("loud").is_err());
        assert!(OutputLimits::parse("odd 1 1 1").is_err());
        assert!(Permissions::parse("8").is_err());
        assert!(Secret::parse(&"x".repeat(513)).is_err());
        assert!(!format!("{:?}", Secret("open".into())).contains("open"));
    }
}
