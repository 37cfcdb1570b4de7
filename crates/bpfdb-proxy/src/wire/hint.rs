//! Does a statement leave something in its session that outlives its transaction?
//!
//! What has been done is said by the tags of its replies, which do not tell SET from SET LOCAL. So the
//! text is looked at, too: as far as it is one statement that begins plainly. All else is taken for
//! what keeps its server.

/// So many bytes of a text are looked at.
pub(crate) const LOOKED_AT: usize = 1024;

/// What the texts of a batch say about the tags of their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    /// A tag SET is of something that ends with the transaction, or that PostgreSQL reports.
    pub(crate) set_is_known: bool,
    /// A tag DECLARE CURSOR is of a cursor that ends with the transaction.
    pub(crate) cursor_ends: bool,
    /// A tag CREATE … is of nothing temporary.
    pub(crate) creates_lasting: bool,
}

/// Parameters that PostgreSQL reports when they change (GUC_REPORT), and that can be set.
const REPORTED: [&str; 7] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "intervalstyle",
    "names",
    "standard_conforming_strings",
    "timezone",
];

impl Hint {
    /// `is_whole`: this is all of the text.
    pub(crate) fn of(text: &[u8], is_whole: bool) -> Self {
        let lower = text.to_ascii_lowercase();
        let all = words(&lower);
        let has = |word: &str| all.contains(&word.as_bytes());
        let is_one = is_whole && is_one_statement(&lower);
        Self {
            set_is_known: is_one && is_known_set(&all),
            cursor_ends: is_whole && !has("hold"),
            creates_lasting: is_whole && !has("temp") && !has("temporary"),
        }
    }

    /// Of two texts in one batch.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            set_is_known: self.set_is_known && other.set_is_known,
            cursor_ends: self.cursor_ends && other.cursor_ends,
            creates_lasting: self.creates_lasting && other.creates_lasting,
        }
    }
}

fn words(lower: &[u8]) -> Vec<&[u8]> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    lower
        .split(|byte| !is_of_word(byte))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Nothing follows a semicolon. One within a text counts, which is safe.
fn is_one_statement(lower: &[u8]) -> bool {
    let end = lower.iter().position(|&byte| byte == b';');
    end.is_none_or(|end| lower[end + 1..].trim_ascii().is_empty())
}

fn is_known_set(words: &[&[u8]]) -> bool {
    let word = |n: usize| {
        words
            .get(n)
            .map_or("", |word| str::from_utf8(word).unwrap_or(""))
    };
    if word(0) != "set" {
        return false;
    }
    let name = match word(1) {
        "local" | "transaction" | "constraints" => return true,
        "session" => 2,
        _ => 1,
    };
    match (word(name), word(name + 1)) {
        ("time", "zone") => true,
        (name, _) => REPORTED.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_is_known(text: &str) -> bool {
        Hint::of(text.as_bytes(), true).set_is_known
    }

    #[test]
    fn what_ends_or_is_reported_is_known() {
        for known in [
            "SET LOCAL work_mem = 1",
            "set transaction read only;",
            "SET client_encoding TO 'UTF8'",
            "SET SESSION TimeZone='UTC' ; ",
            "set time zone 'UTC'",
        ] {
            assert!(set_is_known(known), "{known}");
        }
        for unknown in [
            "SET work_mem = 1",
            "SET ROLE a",
            "SET SESSION AUTHORIZATION a",
            "SET LOCAL a = 1; SET b = 2",
            "select 1; set local a = 1",
            "/* set local */ set a = 1",
        ] {
            assert!(!set_is_known(unknown), "{unknown}");
        }
        assert!(!Hint::of(b"SET LOCAL a = 1", false).set_is_known);
    }

    #[test]
    fn what_outlives_a_transaction_is_seen() {
        assert!(Hint::of(b"declare c cursor for select 1", true).cursor_ends);
        assert!(!Hint::of(b"DECLARE c CURSOR WITH HOLD FOR select 1", true).cursor_ends);
        assert!(Hint::of(b"create table a (temperature int)", true).creates_lasting);
        assert!(!Hint::of(b"CREATE TEMP TABLE a (b int)", true).creates_lasting);
    }
}
