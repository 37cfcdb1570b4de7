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
    /// It may do by a function, a view or a block of code what outlives the transaction: lock for the session, or set
    /// a parameter. This may have been done whatever the tag is, and if there is none: by a part of a result, or before
    /// an error.
    pub(crate) calls_session: bool,
    /// A tag DEALLOCATE may be of a statement of the proxy's own.
    pub(crate) names_ours: bool,
    /// It may end prepared statements.
    pub(crate) forgets: bool,
    /// It is one statement, which leaves nothing in its session: the kernel may bring it without the process.
    pub(crate) is_plain: bool,
}

/// Statements that may be plain.
const PLAIN: [&[u8]; 17] = [
    b"abort",
    b"begin",
    b"commit",
    b"delete",
    b"end",
    b"insert",
    b"merge",
    b"release",
    b"rollback",
    b"savepoint",
    b"select",
    b"show",
    b"start",
    b"table",
    b"update",
    b"values",
    b"with",
];

/// Functions that lock for the session.
const LOCKS: [&[u8]; 4] = [
    b"pg_advisory_lock",
    b"pg_advisory_lock_shared",
    b"pg_try_advisory_lock",
    b"pg_try_advisory_lock_shared",
];

/// Sets a parameter.
const SET_CONFIG: &[u8] = b"set_config";

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

/// Is there a name in quotes of one sign, as the proxy has them?
fn quotes_a_sign(text: &[u8]) -> bool {
    let is_sign = |byte: u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && byte != b'_';
    text.windows(3)
        .any(|all| all[0] == b'"' && is_sign(all[1]) && all[2] == b'"')
}

impl Hint {
    /// `is_whole`: this is all of the text.
    pub(crate) fn of(text: &[u8], is_whole: bool) -> Self {
        let lower = text.to_ascii_lowercase();
        let all = words(&lower);
        let has = |word: &str| all.contains(&word.as_bytes());
        // Of letters and the like only, so that it is within a word.
        let has_part = |part: &[u8]| all.iter().any(|word| contains(word, part));
        let quotes = lower.contains(&b'"');
        let escapes = quotes && contains(&lower, b"u&\"");
        let is_one = is_whole && is_one_statement(&lower);
        let creates_lasting = is_whole && !escapes && !is_temporary(&all);
        // What is not looked at may say anything.
        let selects_temporary = !creates_lasting && (!is_whole || has("create") || has("into"));
        // What lies beyond is looked at as it comes (`Beyond`).
        let calls_session = escapes
            || all.iter().any(|word| LOCKS.contains(word))
            || has("pg_settings") && has("update")
            || has_part(SET_CONFIG) && sets_for_session(&lower)
            || is_block(&lower);
        Self {
            set_is_known: is_one && is_known_set(&lower),
            cursor_ends: is_whole && !has("hold"),
            creates_lasting,
            selects_temporary,
            calls_session,
            names_ours: !is_whole
                || escapes
                || has_part(b"bpfdb_")
                || quotes && (contains(&lower, b"\"~") || quotes_a_sign(&lower)),
            forgets: !is_whole || has_part(b"deallocate") || has_part(b"discard"),
            // Also of a parameter that is reported: the process has to see its new value.
            is_plain: is_one
                && !selects_temporary
                && !calls_session
                && !has_part(SET_CONFIG)
                && begins_plainly(&lower),
        }
    }

    /// Of a call of a function by its number, which may be any.
    pub(crate) fn of_call() -> Self {
        Self {
            calls_session: true,
            ..Self::default()
        }
    }

    /// Does what this tag is of outlive its transaction, in the session?
    pub(crate) fn leaves_state(self, tag: &[u8]) -> bool {
        match tag {
            // A block of code may do anything.
            b"LISTEN" | b"PREPARE" | b"LOAD" | b"DO" => true,
            b"DECLARE CURSOR" => !self.cursor_ends,
            tag if tag.starts_with(b"CREATE ") => !self.creates_lasting,
            b"EXPLAIN" => self.selects_temporary,
            tag if tag.starts_with(b"SELECT ") => self.selects_temporary,
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
            forgets: self.forgets || other.forgets,
            is_plain: self.is_plain && other.is_plain,
        }
    }
}

/// What of a text is not looked at as a whole: parts of it that show that it calls what a session keeps.
#[derive(Debug)]
pub(crate) struct Beyond {
    /// The end of what has come, in small letters: a part may begin in it.
    end: Vec<u8>,
}

impl Beyond {
    const PARTS: [&[u8]; 4] = [SET_CONFIG, b"advisory_lock", b"pg_settings", b"u&\""];
    /// Shorter than a part, and as long as the longest one's beginning.
    const OVERLAP: usize = 12;

    /// Behind a text.
    pub(crate) fn of(text: &[u8]) -> Self {
        let from = text.len().saturating_sub(Self::OVERLAP);
        let end = text[from..].to_ascii_lowercase();
        Self { end }
    }

    /// Is one of the parts in the next piece?
    pub(crate) fn calls_session(&mut self, piece: &[u8]) -> bool {
        self.end.extend(piece.to_ascii_lowercase());
        let is_there = Self::PARTS.iter().any(|part| contains(&self.end, part));
        let from = self.end.len().saturating_sub(Self::OVERLAP);
        self.end.drain(..from);
        is_there
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// As long as most words are with the blank behind them, bytes: so their list seldom grows.
const WORD: usize = 5;

fn words(lower: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::with_capacity(lower.len() / WORD + 1);
    let words = lower.split(|byte| !is_of_word(*byte));
    all.extend(words.filter(|word| !word.is_empty()));
    all
}

/// Does a text begin with the word of a statement that may be plain?
fn begins_plainly(lower: &[u8]) -> bool {
    let text = lower.trim_ascii_start();
    let end = text.iter().position(|byte| !is_of_word(*byte));
    PLAIN.contains(&&text[..end.unwrap_or(text.len())])
}

/// Nothing follows a semicolon. One within a text counts, which is safe.
fn is_one_statement(lower: &[u8]) -> bool {
    let end = lower.iter().position(|&byte| byte == b';');
    end.is_none_or(|end| lower[end + 1..].trim_ascii().is_empty())
}

/// Says a word that it is temporary? `pg_temp` is the schema of such.
fn is_temporary(words: &[&[u8]]) -> bool {
    let says =
        |word: &&[u8]| matches!(*word, b"temp" | b"temporary") || word.starts_with(b"pg_temp");
    words.iter().any(says)
}

/// Is there a call of `set_config()` that may set a parameter for longer than the transaction, and none that PostgreSQL
/// reports?
fn sets_for_session(lower: &[u8]) -> bool {
    let mut rest = lower;
    while let Some(at) = (rest.windows(SET_CONFIG.len())).position(|window| window == SET_CONFIG) {
        rest = &rest[at + SET_CONFIG.len()..];
        let Some(arguments) = arguments(rest) else {
            return true;
        };
        let [name, _, is_local] = arguments[..] else {
            return true;
        };
        let name = name
            .strip_prefix(b"'")
            .and_then(|name| name.strip_suffix(b"'"));
        let is_reported = name.is_some_and(|name| {
            let mut known = REPORTED.iter();
            known.any(|known| known.as_bytes() == name)
        });
        if !is_reported && is_local != b"true" {
            return true;
        }
    }
    false
}

/// What stands between the brackets at the beginning of a text, at each comma outside of quotes and inner brackets.
/// `None`: there are no such brackets, or something is in them that may hide where they end.
fn arguments(text: &[u8]) -> Option<Vec<&[u8]>> {
    let text = text.trim_ascii_start().strip_prefix(b"(")?;
    let (mut from, mut depth, mut quoted) = (0, 0, false);
    let mut arguments = Vec::new();
    for (at, &byte) in text.iter().enumerate() {
        let next = text.get(at + 1).copied().unwrap_or_default();
        match byte {
            b'\\' => return None,
            b'\'' => quoted = !quoted,
            _ if quoted => {}
            b'"' => return None,
            b'-' if next == b'-' => return None,
            b'/' if next == b'*' => return None,
            b'$' if !next.is_ascii_digit() => return None,
            b'(' => depth += 1,
            b',' | b')' if depth == 0 => {
                arguments.push(text[from..at].trim_ascii());
                from = at + 1;
                if byte == b')' {
                    return Some(arguments);
                }
            }
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Is its first statement DO? Before an error in such a block it may have ended a transaction of its own. Only the
/// first one can do so.
fn is_block(lower: &[u8]) -> bool {
    let mut rest = lower;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if let Some(comment) = rest.strip_prefix(b"--") {
            let end = comment
                .iter()
                .position(|byte| matches!(byte, b'\n' | b'\r'));
            rest = end.map_or(&[][..], |end| &comment[end..]);
        } else if let Some(comment) = rest.strip_prefix(b"/*") {
            let end = comment.windows(2).position(|window| window == b"*/");
            let (within, behind) = comment.split_at(end.map_or(comment.len(), |end| end + 2));
            // Where a comment in a comment ends is not looked for.
            if contains(within, b"/*") {
                return words(lower).contains(&&b"do"[..]);
            }
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(b";") {
            rest = behind;
        } else {
            let behind = rest.strip_prefix(b"do");
            return behind.is_some_and(|rest| !rest.first().is_some_and(|next| is_of_word(*next)));
        }
    }
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
    let words: Vec<&[u8]> = lower
        .split(|byte| is_blank(*byte))
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
            "select set_config('a.b', 'true', false)",
            "select set_config('a.b', c, false) from d where e = true",
            "select set_config('a.b', set_config('a.c', 'd', false), true)",
            "select set_config('a.b', 'true)', false)",
            "select set_config('a.b', 'c', false /* true) */)",
            "select set_config('a.b', $a$, true)$a$, false)",
            "select set_config('a.b', e'\\', true)', false)",
            "select set_config('a.b', 'c', not true)",
            "select \"set_config\"('a.b', 'c', false)",
            "select u&\"set\\005fconfig\"('a.b', 'c', false)",
            "update t set a = set_config('a.b', 'c', false) returning a",
            "update pg_settings set setting = 'off' where name = 'synchronous_commit'",
            "do $$begin set role a; end$$",
            " ; -- a\n /* b */\x0bDO language plpgsql 'begin end'",
            "/* a /* b */ */ do 'begin end'",
        ] {
            assert!(hint(kept).calls_session, "{kept}");
        }
        for not in [
            "select pg_advisory_xact_lock(1)",
            "select set_config('a.b', 'c', true)",
            "SELECT set_config('TimeZone', 'UTC', false)",
            "select pg_catalog.set_config ( 'DateStyle' , $1, $2), set_config('timezone', 'UTC', $3)",
            "select set_config('a.b', coalesce($1, 'it''s (', '1'), true ), 2",
            "select setting from pg_settings",
            "-- a\ninsert into a values (1) on conflict do nothing",
            "/* do */ select 1",
            "domain",
            "select 1",
        ] {
            assert!(!hint(not).calls_session, "{not}");
        }
        assert!(hint("deallocate \"bpfdb_1\"").names_ours);
        for name in ["~0", "$", " "] {
            assert!(hint(&format!("deallocate \"{name}\"")).names_ours);
        }
        assert!(!hint("deallocate \"Mine\"; ").names_ours);
        assert!(!hint("deallocate mine").names_ours);
        let cut = Hint::of(b"select 1", false);
        assert!(cut.selects_temporary && cut.names_ours && !cut.calls_session);
    }

    #[test]
    fn a_long_text_is_looked_at_as_it_comes() {
        let text = b"insert into a select SET_CONFIG('a.b', 'c', false) returning 1";
        for size in 1..text.len() {
            let mut beyond = Beyond::of(b"select 'a very long one', ");
            let mut pieces = text.chunks(size);
            assert!(pieces.any(|piece| beyond.calls_session(piece)), "{size}");
        }
        assert!(Beyond::of(b"select pg_advisory_").calls_session(b"lock(1)"));
        assert!(!Beyond::of(b"insert into a values").calls_session(b"('configuration')"));
    }

    #[test]
    fn what_leaves_nothing_is_plain() {
        let is_plain = |text: &str| Hint::of(text.as_bytes(), true).is_plain;
        for plain in ["select $1::int", " BEGIN", "insert into a values ($1);"] {
            assert!(is_plain(plain), "{plain}");
        }
        for not in [
            "set a = 1",
            "deallocate all",
            "selected",
            "",
            "select 1 into temp a",
            "select pg_advisory_lock($1)",
            "SELECT set_config('TimeZone', $1, false)",
            "copy a from stdin",
            "select 1; discard all",
        ] {
            assert!(!is_plain(not), "{not}");
        }
        assert!(!Hint::of(b"select 1", false).is_plain);
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
