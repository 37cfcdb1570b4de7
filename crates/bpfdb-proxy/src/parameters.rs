//! Parameters of a session that PostgreSQL reports (ParameterStatus): what a client believes, and what
//! is so on a server.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Those that a client may set, by the names under which they are reported. The others are the server's.
const SETTABLE: [&str; 6] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "standard_conforming_strings",
    "TimeZone",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    all: BTreeMap<String, String>,
}

impl Parameters {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.all.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The reported name of a parameter that a client names at its start, if it is one that can be set.
    pub(crate) fn settable(name: &str) -> Option<&'static str> {
        SETTABLE
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(name))
    }

    /// What makes `server` as this is; `None`: it is so.
    pub(crate) fn statement(&self, server: &Self) -> Option<String> {
        let mut text = String::new();
        for name in SETTABLE {
            let Some(value) = self.all.get(name) else {
                continue;
            };
            if server.all.get(name) != Some(value) {
                let value = value.replace('\'', "''");
                // A backslash would be an escape where strings do not conform.
                let kind = if value.contains('\\') { " E" } else { " " };
                let value = value.replace('\\', "\\\\");
                let _ = write!(text, "SET {name} TO{kind}'{value}';");
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// The same number for the same values of those that can be set. Values with the number of others
    /// cannot be chosen.
    pub(crate) fn digest(&self) -> u64 {
        static KEYS: OnceLock<RandomState> = OnceLock::new();
        let keys = KEYS.get_or_init(RandomState::new);
        keys.hash_one(SETTABLE.map(|name| self.all.get(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, &str)]) -> Parameters {
        let mut parameters = Parameters::default();
        values
            .iter()
            .for_each(|(name, value)| parameters.set(name, value));
        parameters
    }

    #[test]
    fn only_what_differs_and_can_be_set_is_set() {
        let client = of(&[
            ("TimeZone", "UTC"),
            ("application_name", "o'b\\"),
            ("is_superuser", "on"),
        ]);
        let server = of(&[
            ("TimeZone", "UTC"),
            ("application_name", "x"),
            ("is_superuser", "off"),
        ]);
        let wanted = "SET application_name TO E'o''b\\\\';";
        assert_eq!(client.statement(&server).as_deref(), Some(wanted));
        assert_eq!(client.statement(&client), None);
        assert_ne!(client.digest(), server.digest());
    }
}
