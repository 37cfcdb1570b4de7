//! Does a statement leave something in its session that outlives its transaction?
//!
//! What has been done is said by the tags of its replies, which do not tell SET from SET LOCAL. So the
//! text is looked at, too: as far as it is one statement that begins plainly. All else is taken for
//! what keeps its server.

/// So many bytes of a text are looked at.
pub(crate) const LOOKED_AT: usize = 64 * 1024;

/// What the texts of a batch say about the tags of their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    /// A tag SET is of something that ends with the transaction, or that PostgreSQL reports.
    pub(crate) set_is_known: bool,
    /// A tag DECLARE CURSOR is of a cursor that ends with the transaction.
    pub(crate) cursor_ends: bool,
    /// A tag CREATE … is of nothing temporary.
    pub(crate) creates_lasting: bool,
    /// A tag SELECT may be of a temporary table: CREATE … AS and SELECT INTO have that tag.
    pub(crate) selects_temporary: bool,
    /// It may call a function that changes its session: an advisory lock of the session, or a parameter
    /// that is set for longer than the transaction.
    pub(crate) calls_session: bool,
    /// A tag DEALLOCATE may be of a statement of the proxy's own.
    pub(crate) names_ours: bool,
}

/// Functions that lock for the session.
const LOCKS: [&[u8]; 4] = [
    b"pg_advisory_lock",
    b"pg_advisory_lock_shared",
    b"pg_try_advisory_lock",
    b"pg_try_advisory_lock_shared",
];

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
        let creates_lasting = is_whole && !is_temporary(&lower, &all);
        Self {
            set_is_known: is_one && is_known_set(&lower),
            cursor_ends: is_whole && !has("hold"),
            creates_lasting,
            // What is not looked at may say anything.
            selects_temporary: !creates_lasting && (!is_whole || has("create") || has("into")),
            calls_session: !is_whole
                || all.iter().any(|word| LOCKS.contains(word))
                || has("set_config") && !has("true") && !configures_reported(&lower),
            names_ours: !is_whole || contains(&lower, b"bpfdb_") || contains(&lower, b"u&\""),
        }
    }

    /// Does what this tag is of outlive its transaction, in the session?
    pub(crate) fn leaves_state(self, tag: &[u8]) -> bool {
        match tag {
            b"LISTEN" | b"PREPARE" | b"LOAD" => true,
            b"DECLARE CURSOR" => !self.cursor_ends,
            tag if tag.starts_with(b"CREATE ") => !self.creates_lasting,
            tag if tag.starts_with(b"SELECT ") => self.selects_temporary || self.calls_session,
            b"EXPLAIN" | b"DO" => self.selects_temporary || self.calls_session,
            _ => false,
        }
    }

    /// Of two texts in one batch.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            set_is_known: self.set_is_known && other.set_is_known,
            cursor_ends: self.cursor_ends && other.cursor_ends,
            creates_lasting: self.creates_lasting && other.creates_lasting,
            selects_temporary: self.selects_temporary || other.selects_temporary,
            calls_session: self.calls_session || other.calls_session,
            names_ours: self.names_ours || other.names_ours,
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

/// Says a word that it is temporary, or may one by its escapes? `pg_temp` is the schema of such.
fn is_temporary(lower: &[u8], words: &[&[u8]]) -> bool {
    let says =
        |word: &&[u8]| matches!(*word, b"temp" | b"temporary") || word.starts_with(b"pg_temp");
    words.iter().any(says) || contains(lower, b"u&\"")
}

/// Is each call of `set_config()` about a parameter that PostgreSQL reports, which is named there?
fn configures_reported(lower: &[u8]) -> bool {
    const CALL: &[u8] = b"set_config";
    let mut rest = lower;
    while let Some(at) = rest.windows(CALL.len()).position(|window| window == CALL) {
        rest = rest[at + CALL.len()..].trim_ascii_start();
        let name = rest.strip_prefix(b"(").map(<[u8]>::trim_ascii_start);
        let name = name.and_then(|name| name.strip_prefix(b"'"));
        let is_reported = |known: &&str| {
            let after = name.and_then(|name| name.strip_prefix(known.as_bytes()));
            let after = after.and_then(|after| after.strip_prefix(b"'"));
            after.is_some_and(|after| after.trim_ascii_start().starts_with(b","))
        };
        if !REPORTED.iter().any(is_reported) {
            return false;
        }
    }
    true
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Words here end at blanks: `local.tenant` is one, and a name. Comments and quoted names are not known.
fn is_known_set(lower: &[u8]) -> bool {
    if [&b"/*"[..], b"--", b"\""]
        .iter()
        .any(|part| contains(lower, part))
    {
        return false;
    }
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let words: Vec<&[u8]> = lower
        .split(is_blank)
        .filter(|word| !word.is_empty())
        .collect();
    let word = |n: usize| {
        words
            .get(n)
            .map_or("", |word| str::from_utf8(word).unwrap_or(""))
    };
    // A name goes on behind blanks, too, if a dot follows.
    if word(0) != "set" || (1..=3).any(|n| word(n).starts_with('.')) {
        return false;
    }
    let name = match word(1) {
        "local" | "transaction" | "constraints" => return true,
        "session" => 2,
        _ => 1,
    };
    match (word(name), word(name + 1)) {
        ("time", "zone") => true,
        (name, _) => {
            let name = name.split('=').next().unwrap_or(name);
            REPORTED.contains(&name)
        }
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
            "SET /* local */ ROLE admin",
            "SET -- local\n ROLE admin",
            "SET local.tenant='a'",
            "SET local .tenant='a'",
            "SET timezone . a = 'b'",
            "SET \"local\".tenant = 'a'",
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
        for temporary in [
            "CREATE TEMP TABLE a (b int)",
            "create table pg_temp.a (b int)",
            "create table \"pg_temp\".a (b int)",
            "create table u&\"pg!_temp\" uescape '!' . a (b int)",
        ] {
            let hint = Hint::of(temporary.as_bytes(), true);
            assert!(!hint.creates_lasting, "{temporary}");
        }
    }

    #[test]
    fn functions_and_names_that_matter_are_seen() {
        let hint = |text: &str| Hint::of(text.as_bytes(), true);
        assert!(hint("select pg_advisory_lock(1)").calls_session);
        for kept in [
            "select set_config('a.b', 'c', false)",
            "select set_config('timezone.b', 'c', false)",
            "select set_config('timezone' || 'b', 'c', false)",
            "select set_config($1, 'c', false)",
            "select set_config('timezone', 'UTC', false), set_config('work_mem', '7MB', false)",
        ] {
            assert!(hint(kept).calls_session, "{kept}");
        }
        for not in [
            "select pg_advisory_xact_lock(1)",
            "select set_config('a.b', 'c', true)",
            "SELECT set_config('TimeZone', 'UTC', false)",
            "select pg_catalog.set_config ( 'DateStyle' , $1, $2), set_config('timezone', 'UTC', $3)",
            "select 1",
        ] {
            assert!(!hint(not).calls_session, "{not}");
        }
        assert!(hint("deallocate \"bpfdb_1\"").names_ours);
        assert!(!hint("deallocate mine").names_ours);
        let cut = Hint::of(b"select 1", false);
        assert!(cut.selects_temporary && cut.calls_session && cut.names_ours);
    }

    #[test]
    fn a_select_may_make_a_temporary_table() {
        let makes = |text: &[u8]| Hint::of(text, true).selects_temporary;
        assert!(makes(b"create temp table a as select 1"));
        assert!(makes(b"SELECT 1 INTO TEMPORARY a"));
        assert!(!makes(b"create table a as select 1"));
        assert!(!makes(b"select temp from weather"));
    }
}
