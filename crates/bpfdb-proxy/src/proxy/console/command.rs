//! What an operator asks for.

use super::super::ending::Ending;
use super::show::What;
use crate::settings::until_quote;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Show(What),
    /// Names and values as they are written.
    Set(String, String),
    Reload,
    /// At once, or when this is so.
    Shutdown(Ending),
    /// A database, or all.
    Pause(Option<String>),
    Resume(Option<String>),
    Reconnect(Option<String>),
    WaitClose(Option<String>),
    /// A database; PgBouncer's error if none is named.
    Kill(Option<String>),
    Disable(Option<String>),
    Enable(Option<String>),
    Suspend,
    /// A database, and the one that gets the same from now on.
    Mirror(String, Option<String>),
}

impl Command {
    pub(super) fn of(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = (text[..end].to_ascii_uppercase(), text[end..].trim());
        match word.as_str() {
            "SHOW" => return What::of(rest).map(Self::Show),
            "SET" => return set(rest),
            "MIRROR" => return mirror(rest),
            "SHUTDOWN" => return ending(rest).map(Self::Shutdown),
            _ => {}
        }
        let database = if rest.is_empty() {
            None
        } else {
            Some(database(rest)?)
        };
        match (word.as_str(), database) {
            ("RELOAD", None) => Some(Self::Reload),
            ("SUSPEND", None) => Some(Self::Suspend),
            ("PAUSE", database) => Some(Self::Pause(database)),
            ("RESUME", database) => Some(Self::Resume(database)),
            ("RECONNECT", database) => Some(Self::Reconnect(database)),
            ("WAIT_CLOSE", database) => Some(Self::WaitClose(database)),
            ("KILL", database) => Some(Self::Kill(database)),
            ("DISABLE", database) => Some(Self::Disable(database)),
            ("UNMIRROR", Some(database)) => Some(Self::Mirror(database, None)),
            ("ENABLE", database) => Some(Self::Enable(database)),
            _ => None,
        }
    }

    /// May those ask for it who may not change anything?
    pub(super) fn only_looks(&self) -> bool {
        matches!(self, Self::Show(what) if *what != What::Fds)
    }
}

/// What SHUTDOWN waits for.
fn ending(text: &str) -> Option<Ending> {
    match text.to_ascii_uppercase().as_str() {
        "" => Some(Ending::No),
        "WAIT_FOR_SERVERS" => Some(Ending::Servers),
        "WAIT_FOR_CLIENTS" => Some(Ending::Clients),
        _ => None,
    }
}

/// One name, which may be quoted.
fn database(text: &str) -> Option<String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, rest) = until_quote(quoted, '"')?;
        return rest.trim().is_empty().then_some(name);
    }
    (!text.contains([' ', '\t', '\n', ';'])).then(|| text.to_owned())
}

/// `DATABASE TO DATABASE`.
fn mirror(text: &str) -> Option<Command> {
    let at = text.to_ascii_uppercase().find(" TO ")?;
    let (from, to) = (text[..at].trim(), text[at + 4..].trim());
    Some(Command::Mirror(database(from)?, Some(database(to)?)))
}

fn set(text: &str) -> Option<Command> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let value = match rest.strip_prefix('=') {
        Some(value) => value,
        None => rest
            .get(..3)
            .filter(|word| word.eq_ignore_ascii_case("to "))
            .map(|_| &rest[3..])?,
    };
    let value = value.trim();
    let value = match value.strip_prefix('\'') {
        Some(quoted) => {
            until_quote(quoted, '\'')
                .filter(|(_, rest)| rest.is_empty())?
                .0
        }
        None => value.to_owned(),
    };
    (!name.is_empty()).then(|| Command::Set(name.to_ascii_lowercase(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let name = |name: &str| Some(name.to_owned());
        for (text, command) in [
            ("show pools;", Command::Show(What::Pools)),
            (" SHOW  stats_totals ", Command::Show(What::StatsTotals)),
            ("pause", Command::Pause(None)),
            ("PAUSE postgres;", Command::Pause(name("postgres"))),
            ("kill \"a \"\" b\"", Command::Kill(name("a \" b"))),
            (
                "set a_b = 'it''s'",
                Command::Set("a_b".into(), "it's".into()),
            ),
            (
                "SET default_pool_size=5;",
                Command::Set("default_pool_size".into(), "5".into()),
            ),
            ("SHUTDOWN;", Command::Shutdown(Ending::No)),
            (
                "shutdown wait_for_clients;",
                Command::Shutdown(Ending::Clients),
            ),
            ("mirror a to b;", Command::Mirror("a".into(), name("b"))),
            ("unmirror a", Command::Mirror("a".into(), None)),
            (
                "set verbose to 1",
                Command::Set("verbose".into(), "1".into()),
            ),
        ] {
            assert_eq!(Command::of(text), Some(command), "{text}");
        }
        for text in [
            "",
            "SHOW",
            "SHOW nothing",
            "SHOW POOLS; SHOW POOLS",
            "RELOAD now",
            "set a",
            "pause a b",
            "shutdown now",
            "mirror a",
            "unmirror",
        ] {
            assert_eq!(Command::of(text), None, "{text}");
        }
    }
}
