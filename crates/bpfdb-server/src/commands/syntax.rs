//! How a definition writes down its arguments, and what COMMAND DOCS makes of it.
//!
//! ```text
//! key:key, value, [condition(NX|XX)@2.6.12], [EX seconds:integer], [key:key]...
//!
//! arguments  one behind the other, with commas between
//! name       a string; name:type one of TYPES; name:type#1 says which keys of the command it names
//! TOKEN      a word that stands for itself; TOKEN name... one before its argument
//! TOKEN=name a word with another name than its own; '*'=name one that is no word
//! name(a|b)  one of several          name{a, b}  several that belong together
//! [a]        may be left out         a...        may be repeated
//! a...+      may be repeated with its token
//! a@1.2.3    since that version      a!1.2.3     deprecated since
//! ```

use crate::protocol::reply::Replies;

const TYPES: &[&str] = &["key", "integer", "double", "pattern", "unix-time"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    name: &'a str,
    kind: &'a str,
    /// Which keys of the command it names; `None`: the next ones, if it is a key.
    keys: Option<usize>,
    token: Option<&'a str>,
    since: Option<&'a str>,
    deprecated: Option<&'a str>,
    flags: Vec<&'static str>,
    parts: Vec<Argument<'a>>,
}

/// The arguments that a definition names; `None` if it is not written well.
pub(super) fn parse(text: &str) -> Option<Vec<Argument<'_>>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut reader = Reader { rest: text };
    let arguments = reader.list(", ")?;
    reader.rest.is_empty().then_some(arguments)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn takes(&mut self, text: &str) -> bool {
        let behind = self.rest.strip_prefix(text);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    /// Up to what cannot be in a name.
    fn word(&mut self) -> Option<&'a str> {
        let special = self.rest.find(|c| " ,|(){}[]@!=".contains(c));
        let dots = self.rest.find("...");
        let ends = special.into_iter().chain(dots).min();
        let (word, rest) = self.rest.split_at(ends.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn list(&mut self, separator: &str) -> Option<Vec<Argument<'a>>> {
        let mut all = vec![self.argument()?];
        while self.takes(separator) {
            all.push(self.argument()?);
        }
        Some(all)
    }

    fn argument(&mut self) -> Option<Argument<'a>> {
        let optional = self.takes("[");
        let mut argument = self.core()?;
        if self.takes("@") {
            argument.since = Some(self.word()?);
        }
        if self.takes("!") {
            argument.deprecated = Some(self.word()?);
        }
        if optional {
            if !self.takes("]") {
                return None;
            }
            argument.flags.push("optional");
        }
        if self.takes("...") {
            argument.flags.push("multiple");
            if self.takes("+") {
                argument.flags.push("multiple_token");
            }
        }
        Some(argument)
    }

    fn core(&mut self) -> Option<Argument<'a>> {
        if self.takes("'") {
            return self.quoted();
        }
        let mut word = self.word()?;
        let token = is_token(word).then_some(word);
        if token.is_some() {
            if !self.takes(" ") {
                return Some(Argument {
                    name: if self.takes("=") { self.word()? } else { word },
                    kind: "pure-token",
                    token,
                    ..Argument::default()
                });
            }
            word = self.word()?;
        }
        let (word, keys) = match word.split_once('#') {
            Some((word, number)) => (word, Some(number.parse().ok()?)),
            None => (word, None),
        };
        let (name, kind, parts) = if self.takes("(") {
            (word, "oneof", self.parts("|", ")")?)
        } else if self.takes("{") {
            (word, "block", self.parts(", ", "}")?)
        } else {
            let (name, kind) = typed(word);
            (name, kind, Vec::new())
        };
        Some(Argument {
            name,
            kind,
            keys,
            token,
            parts,
            ..Argument::default()
        })
    }

    /// Behind the first apostrophe of a token that is no word.
    fn quoted(&mut self) -> Option<Argument<'a>> {
        let (token, rest) = self.rest.split_once("'=")?;
        self.rest = rest;
        Some(Argument {
            name: self.word()?,
            kind: "pure-token",
            token: Some(token),
            ..Argument::default()
        })
    }

    fn parts(&mut self, separator: &str, end: &str) -> Option<Vec<Argument<'a>>> {
        let parts = self.list(separator)?;
        self.takes(end).then_some(parts)
    }
}

fn is_token(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_uppercase()) && !word.contains(|c: char| c.is_lowercase())
}

/// A name may have a colon of its own.
fn typed(word: &str) -> (&str, &str) {
    match word.rsplit_once(':') {
        Some((name, kind)) if TYPES.contains(&kind) => (name, kind),
        _ => (word, "string"),
    }
}

/// As COMMAND DOCS lists them; the keys of the command are in so many places.
pub(super) fn list(replies: &mut Replies, arguments: &[Argument<'_>], places: usize) {
    list_from(replies, arguments, places, &mut 0);
}

fn list_from(
    replies: &mut Replies,
    arguments: &[Argument<'_>],
    places: usize,
    keys_before: &mut usize,
) {
    replies.array(arguments.len());
    for argument in arguments {
        describe(replies, argument, places, keys_before);
    }
}

fn describe(
    replies: &mut Replies,
    argument: &Argument<'_>,
    places: usize,
    keys_before: &mut usize,
) {
    let next = (*keys_before).min(places.saturating_sub(1));
    let keys = argument.keys.or((argument.kind == "key").then_some(next));
    let texts = [
        ("token", argument.token),
        ("since", argument.since),
        ("deprecated_since", argument.deprecated),
    ];
    let lists = [!argument.flags.is_empty(), !argument.parts.is_empty()];
    let more = texts.iter().filter(|(_, text)| text.is_some()).count()
        + lists.iter().filter(|&&list| list).count()
        + usize::from(keys.is_some());

    replies.map(2 + more);
    replies.bulk("name");
    replies.bulk(argument.name.to_ascii_lowercase());
    replies.bulk("type");
    replies.bulk(argument.kind);
    if let Some(keys) = keys {
        replies.bulk("key_spec_index");
        replies.integer(keys as i64);
        *keys_before = keys + 1;
    }
    for (name, text) in texts {
        if let Some(text) = text {
            replies.bulk(name);
            replies.bulk(text);
        }
    }
    if !argument.flags.is_empty() {
        replies.bulk("flags");
        replies.set(argument.flags.len());
        for flag in &argument.flags {
            replies.simple(flag);
        }
    }
    if !argument.parts.is_empty() {
        replies.bulk("arguments");
        list_from(replies, &argument.parts, places, keys_before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(name: &'a str, kind: &'a str) -> Argument<'a> {
        Argument {
            name,
            kind,
            ..Argument::default()
        }
    }

    #[test]
    fn what_each_sign_means() {
        let all = parse("key:key, ip:port!2.8.12, [EX seconds:integer@6.0.0]...+").expect("read");
        assert_eq!(all[0], named("key", "key"));
        let of_keys = parse("BY pattern:pattern#1").expect("read");
        assert_eq!((of_keys[0].kind, of_keys[0].keys), ("pattern", Some(1)));
        assert_eq!(
            all[1],
            Argument {
                deprecated: Some("2.8.12"),
                ..named("ip:port", "string")
            }
        );
        assert_eq!(
            all[2],
            Argument {
                token: Some("EX"),
                since: Some("6.0.0"),
                flags: vec!["optional", "multiple", "multiple_token"],
                ..named("seconds", "integer")
            }
        );
        let all = parse("TYPE kind(NORMAL|MASTER), pair{key:key, value}...").expect("read");
        assert_eq!(all[0].token, Some("TYPE"));
        assert_eq!(all[0].parts[1].kind, "pure-token");
        assert_eq!((all[1].kind, all[1].parts.len()), ("block", 2));
        assert_eq!(all[1].flags, ["multiple"]);
    }

    #[test]
    fn what_is_not_written_well() {
        for text in [
            "a,b", "[a", "a(b|", "a{b, }", "a@", "a#", "a#b", "EX ", "a]", ", a",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
