//! Texts that are no programs.

use super::super::{TEXT_MAX, Unsupported, library, script};

fn only_reason(text: &[u8]) -> Unsupported {
    let mut problems = script(text).expect_err("unsupported");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn texts_that_cannot_be_read() {
    let problem = only_reason(b"return 1\nlocal\xff");
    assert_eq!(problem.to_string(), "line 2: this is not UTF-8");
    let problem = only_reason(&vec![b' '; TEXT_MAX + 1]);
    assert_eq!(problem.reason, "the text is longer than 65536 bytes");
    assert_eq!(
        script(b"#!lua flags=no-writes\n\nx = 1").unwrap_err()[0].line,
        3
    );
    assert!(script(b"return 'a").is_err());
    assert!(library(b"local = 1").is_err());
    assert_eq!(library(b"#!lua name=a"), Ok(vec![]));
}

/// `\r` alone ends a line of Lua, and with it a comment: here it would hide what is behind.
#[test]
fn ends_of_lines() {
    for (text, line) in [
        ("local x = 1 -- c\rx = 2\nreturn x", 1),
        ("local x = 1\n-- c\rx = 2\nreturn x", 2),
        ("return 1\r", 1),
        ("return\r\r\n1", 1),
        ("return\r\n\r1", 2),
        ("return\n\r\n\n\r\r1", 4),
        ("#!lua name=a\n-- all of it\rreturn 1", 2),
    ] {
        let problem = only_reason(text.as_bytes());
        let reason = "a carriage return without a line feed";
        assert_eq!(
            problem,
            Unsupported {
                line,
                reason: reason.into()
            },
            "{text:?}"
        );
        assert_eq!(library(text.as_bytes()), Err(vec![problem]));
    }
}

#[test]
fn ends_of_lines_of_two_bytes() {
    let text = "local x = 1 -- c\nx = x + 1\n\n-- d\nreturn x --[[\n]]\n";
    let function = script(text.as_bytes()).expect("small");
    for end in ["\r\n", "\n\r"] {
        let text = text.replace('\n', end);
        assert_eq!(script(text.as_bytes()).as_ref(), Ok(&function), "{text:?}");
    }
    let text = "#!lua name=a\r\nx = 1\r\n";
    assert_eq!(only_reason(text.as_bytes()).line, 2);
}

#[test]
fn deep_texts() {
    let deep = |open: &str, middle: &str, close: &str| {
        let count = (TEXT_MAX - 100) / (open.len() + close.len());
        format!(
            "return {}{middle}{}",
            open.repeat(count),
            close.repeat(count)
        )
    };
    for text in [
        deep("(", "1", ")"),
        deep("{", "1", "}"),
        deep("- ", "1", ""),
        deep("not ", "1", ""),
        deep("'a' .. ", "1", ""),
        deep("1 + ", "1", ""),
        deep("a.", "b", ""),
        deep("", "f", "()"),
        deep("", "f", "''"),
        deep("", "f", "[1]"),
        deep("function() return ", "1", " end"),
        deep("(", "", ""),
    ] {
        let problem = only_reason(text.as_bytes());
        assert_eq!(
            problem.reason,
            "it is nested deeper than 200 levels",
            "{}",
            &text[..40]
        );
    }
    let blocks = "if ARGV[1] then ".repeat(201) + &"end ".repeat(201);
    assert!(script(blocks.as_bytes()).is_err());
    let blocks = "if ARGV[1] then ".repeat(190) + &"end ".repeat(190);
    assert!(script(blocks.as_bytes()).is_ok());
}

#[test]
fn long_texts_that_are_not_deep() {
    let calls = "redis.call('INCR', KEYS[1]) ".repeat(240);
    assert!(script(calls.as_bytes()).is_ok());
    let branches = "if ARGV[1] then return 1 ".to_owned() + &"elseif ARGV[2] then ".repeat(1000);
    assert!(script((branches + "end").as_bytes()).is_ok());
}

/// Parts of programs in any order. What is compiled keeps the promises of the form.
#[test]
fn any_text() {
    const PARTS: &[&str] = &[
        "local ",
        "a",
        "b",
        "f",
        " = ",
        "1",
        "-",
        "'x'",
        "KEYS[1]",
        "ARGV[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "if ",
        " then ",
        " else ",
        " end ",
        "while ",
        " do ",
        "repeat ",
        " until ",
        "for ",
        " in ",
        "ipairs(KEYS)",
        "return ",
        "break ",
        "function ",
        "redis.call(",
        "'GET', ",
        "'SET'",
        ", ",
        "..",
        " and ",
        " or ",
        "not ",
        "==",
        "<",
        "#",
        ".ok",
        "\n",
        ";",
        "[[",
        "]]",
        "--",
        "redis.register_function(",
        "nil",
        "math.floor(",
        "local function f(a) ",
        "\\",
        "\u{e9}",
    ];
    let mut random = 1u64;
    let mut next = |end: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(random >> 33).unwrap_or(0) % end
    };
    for _ in 0..3000 {
        let count = 1 + next(25);
        let text: String = (0..count).map(|_| PARTS[next(PARTS.len())]).collect();
        let _ = library(text.as_bytes());
        if let Ok(function) = script(text.as_bytes()) {
            promises::check(&function);
        }
    }
}

#[test]
fn programs_with_a_part_missing() {
    let text = include_bytes!("voter.lua");
    for start in 0..text.len() {
        for len in [1, 7, 40] {
            let end = (start + len).min(text.len());
            let shorter = [&text[..start], &text[end..]].concat();
            for compiled in library(&shorter).unwrap_or_default() {
                if let Ok(function) = compiled.outcome {
                    promises::check(&function);
                }
            }
        }
    }
}

/// What [`ir`](crate::ir) says of every function.
mod promises {
    use crate::ir::{Function, Operation};

    pub(super) fn check(function: &Function) {
        let lines = &function.lines;
        let last = lines.last().map(|line| &line.operation);
        assert!(matches!(
            last,
            Some(Operation::Return(_) | Operation::ReturnArray(_) | Operation::Jump(_))
        ));
        let place = |wanted| {
            let is_it = |operation: &Operation| matches!(operation, Operation::Label(label) if *label == wanted);
            lines
                .iter()
                .position(|line| is_it(&line.operation))
                .expect("a label has a place")
        };
        for (at, line) in lines.iter().enumerate() {
            if let Operation::Jump(label) | Operation::JumpIf(_, label) = line.operation {
                let to = place(label);
                let passed = lines.get(to..at).unwrap_or_default();
                let has_fuel = passed.iter().any(|line| line.operation == Operation::Fuel);
                assert!(to > at || has_fuel, "{function}");
            }
            if ends(&line.operation) && at + 1 < lines.len() {
                assert!(
                    matches!(lines[at + 1].operation, Operation::Label(_)),
                    "{function}"
                );
            }
        }
    }

    fn ends(operation: &Operation) -> bool {
        matches!(
            operation,
            Operation::Jump(_) | Operation::Return(_) | Operation::ReturnArray(_)
        )
    }
}
