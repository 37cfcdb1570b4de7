//! Parameters of a session: what a client believes, and what is so on a server. PostgreSQL reports some of them
//! (ParameterStatus). Of others it is known that a client has set them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::wire::assignment::{Assignment, FOLLOWED};

/// Those that a client may set, by the names under which they are reported. The others are the server's.
const SETTABLE: [&str; 6] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "standard_conforming_strings",
    "TimeZone",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    all: BTreeMap<String, String>,
    /// Not reported: their values as they were written. Of a server, empty: what it has is not known.
    followed: BTreeMap<&'static str, String>,
    /// Of the values above; they are compared with each transaction, and change seldom.
    digest: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        let mut none = Self {
            all: BTreeMap::new(),
            followed: BTreeMap::new(),
            digest: 0,
        };
        none.changed();
        none
    }
}

impl Parameters {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.all.insert(name.to_owned(), value.to_owned());
        if SETTABLE.contains(&name) {
            self.changed();
        }
    }

    /// By what PostgreSQL reads a text when it is parsed: literals, and their dates.
    pub(crate) fn of_texts(&self) -> String {
        let names = [
            "client_encoding",
            "standard_conforming_strings",
            "TimeZone",
            "DateStyle",
            "IntervalStyle",
        ];
        names
            .map(|name| self.get(name).unwrap_or_default())
            .join("\0")
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn follow(&mut self, assignment: Assignment) {
        if assignment.value.eq_ignore_ascii_case("default") {
            self.followed.remove(assignment.name);
        } else {
            self.followed.insert(assignment.name, assignment.value);
        }
        self.changed();
    }

    pub(crate) fn followed(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.followed
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
    }

    pub(crate) fn forget_followed(&mut self) {
        self.followed.clear();
        self.changed();
    }

    /// They may have become others, or those that a session begins with.
    pub(crate) fn doubt_followed(&mut self) {
        self.followed = FOLLOWED.map(|name| (name, String::new())).into();
        self.changed();
    }

    /// Those of `other` are so here now.
    pub(crate) fn follow_all(&mut self, other: &Self) {
        self.followed.clone_from(&other.followed);
        self.changed();
    }

    /// All that this sets was set on a server, which reports it: PostgreSQL may write a value otherwise than the client,
    /// such as `ISO, MDY` for `ISO`. Else the two would differ for ever. Those that are another one now.
    pub(crate) fn adopt(&mut self, server: &Self) -> Vec<(&'static str, String)> {
        let mut changed = Vec::new();
        for name in SETTABLE {
            if let (Some(own), Some(there)) = (self.all.get_mut(name), server.all.get(name))
                && own != there
            {
                own.clone_from(there);
                changed.push((name, there.clone()));
            }
        }
        if !changed.is_empty() {
            self.changed();
        }
        changed
    }

    /// The reported name of a parameter that a client names at its start, if it is one that can be set.
    pub(crate) fn settable(name: &str) -> Option<&'static str> {
        SETTABLE
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(name))
    }

    /// What makes `server` as this is; `None`: it is so.
    pub(crate) fn statement(&self, server: &Self) -> Option<String> {
        if self.digest == server.digest {
            return None;
        }
        let mut text = String::new();
        // First of all what may hold up the others, as a short timeout does; last of all the client's own.
        for name in server.followed.keys() {
            if !self.followed.contains_key(name) {
                let _ = write!(text, "RESET {name};");
            }
        }
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
        for (name, value) in &self.followed {
            if server.followed.get(name) != Some(value) {
                let _ = write!(text, "SET {name} TO {value};");
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// The same number for the same values of those that can be set or are followed. Values with the number of others
    /// cannot be chosen.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn changed(&mut self) {
        static KEYS: OnceLock<RandomState> = OnceLock::new();
        let keys = KEYS.get_or_init(RandomState::new);
        self.digest = keys.hash_one((SETTABLE.map(|name| self.all.get(name)), &self.followed));
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

    #[test]
    fn values_are_as_the_server_writes_them() {
        let mut client = of(&[("DateStyle", "ISO"), ("is_superuser", "on")]);
        let server = of(&[
            ("DateStyle", "ISO, MDY"),
            ("TimeZone", "UTC"),
            ("is_superuser", "off"),
        ]);
        assert_eq!(client.adopt(&server), [("DateStyle", "ISO, MDY".into())]);
        assert_eq!(client.adopt(&server), []);
        assert_eq!(client.statement(&server), None);
        // The kernel compares digests.
        assert_eq!(client.digest(), of(&[("DateStyle", "ISO, MDY")]).digest());
        // What it has not set stays the server's.
        assert_eq!(
            (client.get("TimeZone"), client.get("is_superuser")),
            (None, Some("on"))
        );
    }

    #[test]
    fn what_is_followed_is_set_or_taken_back() {
        let assigned = |text: &str| {
            let mut parameters = Parameters::default();
            parameters.follow(Assignment::of(text.as_bytes()).expect(text));
            parameters
        };
        let (one, two) = (
            assigned("set jit = off"),
            assigned("set lock_timeout = '7s'"),
        );
        let wanted = "RESET lock_timeout;SET jit TO off;";
        assert_eq!(one.statement(&two).as_deref(), Some(wanted));
        assert_ne!(one.digest(), two.digest());
        let mut server = two;
        server.follow_all(&one);
        assert_eq!(
            (one.statement(&server), one.digest()),
            (None, server.digest())
        );
        server.doubt_followed();
        let text = one.statement(&server).expect("all of them");
        assert_eq!(text.matches("RESET ").count(), FOLLOWED.len() - 1, "{text}");
        assert!(text.ends_with(";SET jit TO off;"), "{text}");
        let mut none = one;
        none.follow(Assignment::of(b"set jit to default").expect("one"));
        assert_eq!(none, Parameters::default());
    }
}
