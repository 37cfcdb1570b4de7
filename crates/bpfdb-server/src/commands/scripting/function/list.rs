//! FUNCTION LIST.

use std::rc::Rc;

use super::super::super::arguments::is;
use super::super::super::prelude::*;
use super::super::find::view;
use crate::protocol::reply::Replies;
use crate::scripting::functions::libraries::Library;
use crate::values::glob;

pub(crate) static COMMAND: Command = Command {
    name: "function|list",
    summary: "Lists libraries and what is in them",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(length of all libraries)",
    arity: -2,
    arguments: "[LIBRARYNAME library-name-pattern], [WITHCODE]",
    flags: &[Flag::NoScript],
    categories: &[Category::Scripting],
    tips: &["nondeterministic_output_order"],
    differences: "In the order of the names; functions in the order in which they were registered.",
    run,
    ..Command::BASE
};

#[derive(Debug, Default)]
struct Options {
    pattern: Option<Vec<u8>>,
    with_code: bool,
}

impl Options {
    fn parse(mut words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let Some((word, behind)) = words.split_first() {
            words = behind;
            if !options.with_code && is(word, "withcode") {
                options.with_code = true;
            } else if options.pattern.is_none() && is(word, "libraryname") {
                let (pattern, behind) =
                    (words.split_first()).ok_or("ERR library name argument was not given")?;
                options.pattern = Some(pattern.to_ascii_lowercase());
                words = behind;
            } else {
                return Err(Failure::Text(
                    [b"ERR Unknown argument ", &word[..]].concat(),
                ));
            }
        }
        Ok(options)
    }

    /// Letters match those of either size.
    fn wants(&self, library: &Library) -> bool {
        let name = library.name.to_ascii_lowercase();
        (self.pattern.as_ref()).is_none_or(|pattern| glob::matches(pattern, &name))
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let options = Options::parse(arguments)?;
    let libraries = view(context)?;
    let wanted: Vec<&Rc<Library>> = libraries.all().filter(|one| options.wants(one)).collect();
    context.replies.array(wanted.len());
    for library in wanted {
        describe(context.replies, library, options.with_code);
    }
    Ok(())
}

fn describe(replies: &mut Replies, library: &Library, with_code: bool) {
    replies.map(3 + usize::from(with_code));
    replies.bulk("library_name");
    replies.bulk(&library.name);
    replies.bulk("engine");
    replies.bulk("LUA");
    replies.bulk("functions");
    replies.array(library.functions.len());
    for function in &library.functions {
        replies.map(3);
        replies.bulk("name");
        replies.bulk(&function.name);
        replies.bulk("description");
        replies.bulk_or_null(function.description.as_deref());
        replies.bulk("flags");
        replies.set(function.flags.names().count());
        for flag in function.flags.names() {
            replies.simple(flag);
        }
    }
    if with_code {
        replies.bulk("library_code");
        replies.bulk(&*library.source.text);
    }
}
