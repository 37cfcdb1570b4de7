//! The paths that a file of Rust names: of its `use` statements, and of all other code.
//!
//! This is no parser of Rust. It knows words, `::`, braces, `use` and `mod`; comments, strings and
//! characters are nothing. A path that a macro makes is not seen.

/// A path as it is written, such as `super::a::B`, and the module that it is written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) line: usize,
    /// Modules within the file, outermost first: `mod tests { … }`.
    pub(super) inside: Vec<String>,
    pub(super) words: Vec<String>,
    /// The name that a `use` gives it; of all else `None`. `*` stands for all names.
    pub(super) name: Option<String>,
}

/// All paths of `text`, in their order.
pub(super) fn paths(text: &str) -> Vec<Path> {
    let mut reader = Reader {
        tokens: tokens(text),
        at: 0,
        open: Vec::new(),
        found: Vec::new(),
    };
    reader.read();
    reader.found
}

/// Does the file only declare modules, as a `mod.rs` without code?
pub(super) fn declares_only(text: &str) -> bool {
    let tokens = tokens(text);
    let mut words = tokens.iter().map(|token| token.text.as_str()).peekable();
    while words.peek().is_some() {
        let item: Vec<&str> = words.by_ref().take_while(|word| *word != ";").collect();
        if !(item.contains(&"mod") || item.contains(&"use")) || item.contains(&"fn") {
            return false;
        }
    }
    true
}

#[derive(Debug)]
struct Token {
    text: String,
    line: usize,
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    /// What each open brace belongs to: a module, or something else.
    open: Vec<Option<String>>,
    found: Vec<Path>,
}

impl Reader {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", |token| &token.text)
    }

    fn next(&mut self) -> String {
        let word = self.peek().to_owned();
        self.at += 1;
        word
    }

    /// Takes `word` if it comes next.
    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        self.at += usize::from(found);
        found
    }

    fn read(&mut self) {
        while self.at < self.tokens.len() {
            match self.peek() {
                "use" => {
                    self.at += 1;
                    self.tree(&[]);
                }
                "mod" => self.module(),
                "{" => {
                    self.at += 1;
                    self.open.push(None);
                }
                "}" => {
                    self.at += 1;
                    self.open.pop();
                }
                // `$crate::…` is of a macro.
                "$" | "." => self.at += 2,
                word if is_word(word) => self.path(),
                _ => self.at += 1,
            }
        }
    }

    fn module(&mut self) {
        self.at += 1;
        let name = self.next();
        if self.take("{") {
            self.open.push(Some(name));
        }
    }

    fn path(&mut self) {
        let line = self.tokens[self.at].line;
        let mut words = vec![self.next()];
        while self.peek() == "::"
            && self
                .tokens
                .get(self.at + 1)
                .is_some_and(|t| is_word(&t.text))
        {
            self.at += 1;
            words.push(self.next());
        }
        // `$(…)::` and `<T>::name` begin elsewhere.
        if words.len() > 1 {
            self.add(line, words, None);
        }
        while self.take("::") {}
    }

    /// What follows `use`, or one entry between braces.
    fn tree(&mut self, before: &[String]) {
        let mut words = before.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        self.take("::");
        loop {
            if self.take("{") {
                while !self.take("}") && self.at < self.tokens.len() {
                    self.tree(&words);
                    self.take(",");
                }
                return;
            }
            let word = self.next();
            if !self.take("::") {
                let own = if word == "self" {
                    words.last()
                } else {
                    Some(&word)
                };
                let name = own.cloned().unwrap_or_default();
                if word != "self" && word != "*" {
                    words.push(word);
                }
                let name = if self.take("as") { self.next() } else { name };
                self.add(line, words, Some(name));
                return;
            }
            words.push(word);
        }
    }

    fn add(&mut self, line: usize, words: Vec<String>, name: Option<String>) {
        let inside = self.open.iter().flatten().cloned().collect();
        self.found.push(Path {
            line,
            inside,
            words,
            name,
        });
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let length = length(&text[at..]);
        let token = &text[at..at + length];
        if !token.trim().is_empty() && !is_nothing(token) {
            tokens.push(Token {
                text: token.to_owned(),
                line,
            });
        }
        line += token.matches('\n').count();
        at += length;
    }
    tokens
}

fn is_nothing(token: &str) -> bool {
    token.starts_with("//") || token.starts_with("/*") || token.ends_with(['"', '\''])
}

/// Of the token that `rest` begins with: at least one character.
fn length(rest: &str) -> usize {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if let Some(raw) = raw_string(rest) {
        return raw;
    }
    if rest.starts_with('"') || rest.starts_with("b\"") || rest.starts_with("c\"") {
        return string(rest);
    }
    if let Some(character) = character(rest) {
        return character;
    }
    if rest.starts_with("::") {
        return 2;
    }
    let word = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    word.max(first)
}

/// `r"…"`, `r#"…"#`, and so on; the token ends with a quotation mark, so that it is nothing.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix)
            .is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let body = &rest[prefix.len()..];
    let marks = body.len() - body.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(marks));
    let begin = prefix.len() + marks + 1;
    Some(
        rest[begin..]
            .find(&end)
            .map_or(rest.len(), |found| begin + found + 1),
    )
}

fn string(rest: &str) -> usize {
    let begin = rest.find('"').unwrap_or(0) + 1;
    let mut escaped = false;
    for (at, c) in rest[begin..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return begin + at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'a'`, `'\n'`, `b'a'`, and not a lifetime.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix("b'").or(rest.strip_prefix('\''))?;
    let begin = rest.len() - body.len();
    let mut chars = body.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(begin + 2 + body[2..].find('\'')? + 1);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(begin + at + 1)
}
