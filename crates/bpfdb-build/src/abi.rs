//! `abi.rs`: the structures and constants of `include/bpfdb`, by bindgen. `shared.rs`: those that one
//! crate shares with its own programs.

use std::path::PathBuf;

use crate::result::{Result, read};
use crate::tree::Tree;

/// The engine's, and those of the Redis front end.
const ABI_HEADERS: [&str; 5] = [
    "abi.h",
    "commands.h",
    "connection.h",
    "procedure.h",
    "waiting.h",
];

pub(crate) fn generate(tree: &Tree) -> Result<()> {
    bind(tree, &ABI_HEADERS, ".*/include/bpfdb/.*", "abi.rs")
}

/// What these headers have, of those in `include/bpfdb`.
pub(crate) fn share(tree: &Tree, headers: &[&str]) -> Result<()> {
    let names = headers.join("|").replace('.', "\\.");
    let declared_in = format!(".*/include/bpfdb/({names})");
    bind(tree, headers, &declared_in, "shared.rs")
}

fn bind(tree: &Tree, headers: &[&str], declared_in: &str, file: &str) -> Result<()> {
    let include = tree.root.join("include");
    let path = |header: &&str| include.join("bpfdb").join(header);
    let headers: Vec<PathBuf> = headers.iter().map(path).collect();
    // In this order: a header uses those before it.
    let wide = Wide::read(
        &["limits.h", "status.h", "form.h"]
            .iter()
            .map(path)
            .chain(headers.clone())
            .collect::<Vec<_>>(),
    )?;
    let flags = tree
        .include_flags()
        .into_iter()
        .filter(|flag| !flag.starts_with("-Ibpf"));
    bindgen::Builder::default()
        .headers(headers.iter().map(|header| header.display().to_string()))
        .clang_arg(format!("-I{}", include.display()))
        .clang_args(flags)
        .allowlist_file(declared_in)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_debug(true)
        .derive_copy(true)
        .explicit_padding(true)
        .layout_tests(true)
        .generate_comments(true)
        .use_core()
        .parse_callbacks(Box::new(wide))
        .generate()
        .map_err(|error| format!("bindgen of include/bpfdb: {error}"))?
        .write_to_file(tree.out.join(file))
        .map_err(|error| format!("{file}: {error}"))
}

/// Macros whose value is `unsigned long long` in C, though it may be small:
/// their constants are `u64`, all others `u32`.
#[derive(Debug)]
struct Wide(Vec<String>);

impl Wide {
    fn read(headers: &[PathBuf]) -> Result<Self> {
        let mut wide: Vec<String> = Vec::new();
        for header in headers {
            let text = read(header)?;
            for (name, body) in text.lines().filter_map(define) {
                let mut words = body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                if words.any(|word| word.ends_with("ULL") || wide.iter().any(|w| w == word)) {
                    wide.push(name.to_string());
                }
            }
        }
        Ok(Self(wide))
    }
}

/// `#define NAME body`: the name and the body, without comment.
fn define(line: &str) -> Option<(&str, &str)> {
    let (name, body) = line.strip_prefix("#define ")?.split_once(' ')?;
    Some((name, body.split("/*").next().unwrap_or(body)))
}

impl bindgen::callbacks::ParseCallbacks for Wide {
    fn int_macro(&self, name: &str, value: i64) -> Option<bindgen::callbacks::IntKind> {
        use bindgen::callbacks::IntKind;
        if self.0.iter().any(|wide| wide == name) {
            return Some(IntKind::U64);
        }
        u32::try_from(value).is_ok().then_some(IntKind::U32)
    }
}
