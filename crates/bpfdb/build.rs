//! Turns the C side into something Rust can use:
//!
//! 1. compiles `bpf/*.bpf.c` (and, for tests, `bpf/tests` and `examples`) to eBPF objects;
//! 2. generates `abi.rs` from `include/bpfdb/abi.h` and the headers of the front end;
//! 3. generates `status.rs`, `conflict.rs`, `commands.rs` and `operators.rs` from the lists in the headers
//!    of these names in `include/bpfdb`.
//!
//! Headers of libbpf and of the kernel's UAPI come from the `libbpf-sys` crate:
//! those of a distribution may be older than the kernel that we need.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};

use compile::compile_in_parallel;

#[path = "build/compile.rs"]
mod compile;

/// Compilers, best first, unless `BPFDB_CLANG` names one.
const COMPILERS: [&str; 2] = ["clang-22", "clang-19"];
const LAST_COMPILER: &str = "clang";

const BPF_FLAGS: &str = "-target bpf -O2 -g -std=gnu11 -Wall -Wextra -Werror \
    -Wno-unused-parameter -Wno-address-of-packed-member";

/// For processors that keep loads and stores in order, as x86-64 does.
const STRONG_ORDER: &str = "-mcpu=v3";
/// For all others (docs/decisions/0014-memory-order.md): v4 has load-acquire and
/// store-release. It also has tables of jumps, which kernels of today do not know.
const WEAK_ORDER: &str = "-mcpu=v4 -fno-jump-tables -DBPFDB_WEAK_ORDER";

/// Objects that the crate names; one that has no source yet is empty.
const NAMED_OBJECTS: [&str; 7] = [
    "engine",
    "redis",
    "bench",
    "procedure",
    "procedure_embedded",
    "procedure_run",
    "voter",
];

type Result<T> = std::result::Result<T, String>;

fn main() {
    if let Err(message) = build() {
        eprintln!("error: {message}");
        exit(1);
    }
}

fn build() -> Result<()> {
    let tree = Tree::find()?;
    tree.declare_inputs();
    tree.copy_kernel_headers()?;
    let clang = find_compiler()?;

    compile_objects(&tree, &clang)?;
    generate_abi(&tree)?;
    generate_status(&tree, &clang)?;
    generate_conflicts(&tree, &clang)?;
    generate_deoptimisations(&tree, &clang)?;
    generate_commands(&tree, &clang)?;
    generate_operators(&tree, &clang)
}

/// Where things are.
struct Tree {
    root: PathBuf,
    out: PathBuf,
    headers: PathBuf,
    target: String,
    architecture: String,
}

impl Tree {
    fn find() -> Result<Self> {
        let root = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../..");
        let out = PathBuf::from(variable("OUT_DIR")?);
        Ok(Self {
            root: root
                .canonicalize()
                .map_err(|error| format!("{}: {error}", root.display()))?,
            headers: out.join("libbpf-headers"),
            out,
            target: variable("TARGET")?,
            architecture: variable("CARGO_CFG_TARGET_ARCH")?,
        })
    }

    fn declare_inputs(&self) {
        for folder in ["bpf", "include", "examples"] {
            println!(
                "cargo::rerun-if-changed={}",
                self.root.join(folder).display()
            );
        }
        println!("cargo::rerun-if-changed=build.rs");
        println!("cargo::rerun-if-changed=build");
        println!("cargo::rerun-if-env-changed=BPFDB_CLANG");
    }

    /// `bpf/*.h` as libbpf-sys installs them, `linux/*.h` from its sources; for a test that builds
    /// a loader in C, the library too.
    fn copy_kernel_headers(&self) -> Result<()> {
        let installed = PathBuf::from(variable("DEP_BPF_INCLUDE")?);
        if env::var_os("CARGO_FEATURE_TEST_OBJECTS").is_some() {
            let library = installed.with_file_name("libbpf.a");
            fs::copy(&library, self.out.join("libbpf.a"))
                .map_err(|error| format!("{}: {error}", library.display()))?;
        }
        let uapi = libbpf_sources(&self.target)?.join("libbpf/include/uapi");
        copy_headers(&installed.join("bpf"), &self.headers.join("bpf"))?;
        copy_headers(&uapi.join("linux"), &self.headers.join("linux"))
    }

    fn include_flags(&self) -> Vec<String> {
        let headers = self.headers.display();
        let machine = format!("/usr/include/{}-linux-gnu", self.architecture);
        let mut flags: Vec<String> = ["-Iinclude", "-Ibpf"].map(String::from).into();
        flags.push(format!("-I{headers}"));
        if Path::new(&machine).is_dir() {
            flags.push(format!("-I{machine}"));
        }
        flags
    }
}

/// The processor that objects are compiled for.
struct Machine {
    /// The name by which `bpf_tracing.h` knows it.
    architecture: &'static str,
    order: &'static str,
}

impl Machine {
    const X86_64: Self = Self {
        architecture: "-D__TARGET_ARCH_x86",
        order: STRONG_ORDER,
    };
    const ARM64: Self = Self {
        architecture: "-D__TARGET_ARCH_arm64",
        order: WEAK_ORDER,
    };

    fn of_build(tree: &Tree) -> Result<Self> {
        match tree.architecture.as_str() {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::ARM64),
            other => Err(format!("bpfdb does not know the architecture {other}")),
        }
    }

    fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.order.split(' ').chain([self.architecture])
    }
}

/// Does the compiler know load-acquire of BPF? Older ones than LLVM 22 may not.
fn has_acquire(tree: &Tree, clang: &str) -> Result<bool> {
    let probe = tree.out.join("acquire.c");
    write(
        &probe,
        "int probe(int *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }\n",
    )?;
    Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v4", "-O2", "-S", "-o", "/dev/null"])
        // A compiler that does not know it reports a crash of its own.
        .arg("-fno-crash-diagnostics")
        .arg(&probe)
        .stderr(Stdio::null())
        .status()
        .map(|status| status.success())
        .map_err(|error| format!("{clang}: {error}"))
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|error| format!("variable {name}: {error}"))
}

/// The folder of the libbpf-sys crate that this build uses. The first try is
/// without network; a fresh machine may have to fetch test dependencies.
fn libbpf_sources(target: &str) -> Result<PathBuf> {
    let cargo = variable("CARGO")?;
    let ask = |extra: &[&str]| {
        Command::new(&cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--filter-platform",
                target,
            ])
            .args(extra)
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())
    };
    let output = ask(&["--offline"])
        .or_else(|| ask(&[]))
        .ok_or("cargo metadata failed: run it to see why")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "libbpf-sys")
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .map(Path::to_path_buf)
        .ok_or_else(|| "cargo metadata does not know libbpf-sys".into())
}

fn copy_headers(from: &Path, to: &Path) -> Result<()> {
    let fail = |error: std::io::Error| format!("copying {}: {error}", from.display());
    fs::create_dir_all(to).map_err(fail)?;
    for entry in fs::read_dir(from).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if let Some(name) = path
            .file_name()
            .filter(|_| path.extension().is_some_and(|e| e == "h"))
        {
            // One that is the same keeps its age, and with it the objects that include it.
            let (text, copy) = (fs::read(&path).map_err(fail)?, to.join(name));
            if fs::read(&copy).is_ok_and(|old| old == text) {
                continue;
            }
            fs::write(copy, text).map_err(fail)?;
        }
    }
    Ok(())
}

fn find_compiler() -> Result<String> {
    if let Ok(clang) = env::var("BPFDB_CLANG") {
        return runs(&clang)
            .then_some(clang.clone())
            .ok_or(format!("BPFDB_CLANG={clang} does not run"));
    }
    COMPILERS
        .into_iter()
        .chain([LAST_COMPILER])
        .find(|compiler| runs(compiler))
        .map(String::from)
        .ok_or("no clang found: run scripts/setup.sh, or set BPFDB_CLANG".into())
}

fn runs(compiler: &str) -> bool {
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

// ---- Objects ---------------------------------------------------------------

/// One `.bpf.c` and the object made of it.
struct Source {
    path: PathBuf,
    name: String,
    object: PathBuf,
}

fn compile_objects(tree: &Tree, clang: &str) -> Result<()> {
    let engine = sources(tree, "bpf")?;
    let (mut tests, mut must_fail, mut examples) = (Vec::new(), Vec::new(), Vec::new());
    let with_tests = env::var_os("CARGO_FEATURE_TEST_OBJECTS").is_some();
    if with_tests {
        tests = sources(tree, "bpf/tests")?;
        must_fail = sources(tree, "bpf/tests/must_fail")?;
        examples = sources(tree, "examples")?;
    }
    let all: Vec<&Source> = [&engine, &tests, &must_fail, &examples]
        .into_iter()
        .flatten()
        .collect();
    compile_in_parallel(tree, clang, &all, &Machine::of_build(tree)?)?;
    let mut weak = Vec::new();
    if with_tests && has_acquire(tree, clang)? {
        weak = sources_into(tree, "bpf", "weak")?;
        let all: Vec<&Source> = weak.iter().collect();
        compile_in_parallel(tree, clang, &all, &Machine::ARM64)?;
    }

    let mut text = String::new();
    for name in NAMED_OBJECTS {
        let source = engine.iter().find(|source| source.name == name);
        let bytes = source.map_or("&Aligned([]).0".into(), embed);
        text += &format!("/// `bpf/{name}.bpf.c`.\n");
        text += &format!("pub static {}: &[u8] = {bytes};\n", name.to_uppercase());
    }
    if with_tests {
        text += &compiler_command(tree, clang, &Machine::of_build(tree)?);
        text += &embed_list("TESTS", "Programs that test the engine.", &tests);
        text += &embed_list(
            "MUST_FAIL",
            "Programs that the verifier must refuse.",
            &must_fail,
        );
        text += &embed_list("EXAMPLES", "The programs of `examples`.", &examples);
        text += &embed_list(
            "WEAK",
            "The engine's objects for arm64; none if the compiler has no load-acquire.",
            &weak,
        );
    }
    write(&tree.out.join("objects.rs"), &text)
}

fn sources(tree: &Tree, folder: &str) -> Result<Vec<Source>> {
    sources_into(tree, folder, folder)
}

/// The objects go to `objects` below the folder of the build's results.
fn sources_into(tree: &Tree, folder: &str, objects: &str) -> Result<Vec<Source>> {
    let objects = tree.out.join(objects);
    fs::create_dir_all(&objects).map_err(|error| format!("{}: {error}", objects.display()))?;
    let Ok(entries) = fs::read_dir(tree.root.join(folder)) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<Source> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| {
            let name = file.strip_suffix(".bpf.c")?.to_string();
            Some(Source {
                path: Path::new(folder).join(&file),
                object: objects.join(format!("{name}.o")),
                name,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// For a test that compiles a changed copy of the sources.
fn compiler_command(tree: &Tree, clang: &str, machine: &Machine) -> String {
    let words: Vec<String> = [clang.to_owned()]
        .into_iter()
        .chain(
            BPF_FLAGS
                .split_whitespace()
                .chain(machine.flags())
                .map(String::from),
        )
        .chain(tree.include_flags())
        .collect();
    format!(
        "/// The compiler and its flags, to be run in a folder with `bpf` and `include`.\n\
         pub static COMPILER: &[&str] = &{words:?};\n"
    )
}

fn embed(source: &Source) -> String {
    format!("&Aligned(*include_bytes!({:?})).0", source.object)
}

fn embed_list(list: &str, about: &str, sources: &[Source]) -> String {
    let rows: String = sources
        .iter()
        .map(|source| {
            let (name, bytes) = (&source.name, embed(source));
            format!("    TestObject {{ name: {name:?}, bytes: {bytes} }},\n")
        })
        .collect();
    format!("/// {about}\npub static {list}: &[TestObject] = &[\n{rows}];\n")
}

// ---- abi.h -----------------------------------------------------------------

/// The engine's, and those of the Redis front end.
const ABI_HEADERS: [&str; 4] = ["abi.h", "commands.h", "connection.h", "procedure.h"];

fn generate_abi(tree: &Tree) -> Result<()> {
    let include = tree.root.join("include");
    let path = |header: &&str| include.join("bpfdb").join(header);
    let headers: Vec<PathBuf> = ABI_HEADERS.iter().map(path).collect();
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
        .allowlist_file(".*/include/bpfdb/.*")
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
        .write_to_file(tree.out.join("abi.rs"))
        .map_err(|error| format!("abi.rs: {error}"))
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

// ---- status.h --------------------------------------------------------------

/// One row of `BPFDB_STATUS_LIST`.
struct Row {
    name: String,
    code: String,
    text: String,
    action: String,
}

fn generate_status(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/status.h",
        name: "BPFDB_STATUS_LIST",
        fields: &["#name", "#code", "text", "action"],
        arguments: "name, code, text, action",
    };
    let rows: Vec<Row> = list
        .rows(tree, clang)?
        .into_iter()
        .filter_map(row)
        .collect();
    let each = |row: fn(&Row) -> String| rows.iter().map(row).collect::<String>();

    let variants = each(|r| {
        format!(
            "    /// {}\n    {} = {},\n",
            sentence(&r.text),
            camel(&r.name),
            r.code
        )
    });
    let all = each(|r| format!("        Self::{},\n", camel(&r.name)));
    let names = each(|r| format!("            Self::{} => {:?},\n", camel(&r.name), r.name));
    let texts = each(|r| format!("            Self::{} => {:?},\n", camel(&r.name), r.text));
    let actions = each(|r| format!("            Self::{} => {:?},\n", camel(&r.name), r.action));

    let text = format!(
        "/// The outcome of an operator.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         #[repr(u32)]\npub enum Status {{\n{variants}}}\n\n\
         impl Status {{\n    /// All of them, by code.\n    pub const ALL: &[Self] = &[\n{all}    ];\n\n\
         {}{}{}}}\n",
        method("name", "Its name in C, without prefix.", &names),
        method("text", "What happened.", &texts),
        method("action", "What the caller should do.", &actions),
    );
    write(&tree.out.join("status.rs"), &text)
}

/// A method of a generated enum that gives a text for each variant.
fn method(name: &str, about: &str, arms: &str) -> String {
    format!(
        "    /// {about}\n    pub const fn {name}(self) -> &'static str {{\n        \
         match self {{\n{arms}        }}\n    }}\n"
    )
}

fn row(fields: Vec<String>) -> Option<Row> {
    let mut fields = fields.iter().map(|field| literal(field));
    Some(Row {
        name: fields.next()?,
        code: fields.next()?,
        text: fields.next()?,
        action: fields.next()?,
    })
}

/// The value of adjacent C string literals. The list uses no escapes.
fn literal(text: &str) -> String {
    text.split('"').skip(1).step_by(2).collect()
}

fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_string() + &rest.to_lowercase()
        })
        .collect()
}

fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}

// ---- conflict.h ------------------------------------------------------------

fn generate_conflicts(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/conflict.h",
        name: "BPFDB_CONFLICT_LIST",
        fields: &["#name", "#value", "text"],
        arguments: "name, value, text",
    };
    let [mut variants, mut all, mut names, mut texts] = [const { String::new() }; 4];
    for fields in list.rows(tree, clang)? {
        let [name, value, text] = [0, 1, 2].map(|field| literal(&fields[field]));
        let variant = camel(&name);
        variants += &format!("    /// {}\n    {variant} = {value},\n", sentence(&text));
        all += &format!("        Self::{variant},\n");
        names += &format!(
            "            Self::{variant} => {:?},\n",
            name.to_ascii_lowercase()
        );
        texts += &format!("            Self::{variant} => {text:?},\n");
    }
    let text = format!(
        "/// Why an operator said CONFLICT.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq)]\n\
         #[repr(u32)]\npub enum ConflictCause {{\n{variants}}}\n\n\
         impl ConflictCause {{\n    /// All of them, by code.\n    \
         pub const ALL: &[Self] = &[\n{all}    ];\n\n{}{}}}\n",
        method(
            "name",
            "In small letters, as counters and metrics call it.",
            &names
        ),
        method("text", "What happened.", &texts),
    );
    write(&tree.out.join("conflict.rs"), &text)
}

// ---- procedure.h -----------------------------------------------------------

fn generate_deoptimisations(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/procedure.h",
        name: "BPFDB_DEOPTIMISATION_LIST",
        fields: &["#name", "text"],
        arguments: "name, value, text",
    };
    let rows: String = list
        .rows(tree, clang)?
        .iter()
        .map(|fields| {
            let (name, text) = (literal(&fields[0]), literal(&fields[1]));
            let small = name.to_ascii_lowercase();
            format!("    Deoptimisation {{ name: {small:?}, text: {text:?} }},\n")
        })
        .collect();
    let text = format!(
        "/// Why calls of compiled procedures are given up, in the order of their counters.\n\
         pub const DEOPTIMISATIONS: [Deoptimisation; BPFDB_DEOPTIMISATION_COUNT as usize] = [\n{rows}];\n"
    );
    write(&tree.out.join("deoptimisations.rs"), &text)
}

// ---- commands.h ------------------------------------------------------------

/// The flags are an expression of constants, which is the same in C and in Rust.
fn generate_commands(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/commands.h",
        name: "BPFDB_COMMAND_LIST",
        fields: &["#name", "flags"],
        arguments: "name, flags, call",
    };
    let rows: String = list
        .rows(tree, clang)?
        .iter()
        .map(|fields| {
            let (name, flags) = (literal(&fields[0]), &fields[1]);
            let small = name.to_ascii_lowercase();
            format!("    KernelCommand {{ name: {small:?}, number: BPFDB_COMMAND_{name}, flags: {flags} }},\n")
        })
        .collect();
    let text = format!(
        "/// The commands that the kernel answers, by name.\n\
         pub const KERNEL_COMMANDS: [KernelCommand; BPFDB_COMMAND_COUNT as usize] = [\n{rows}];\n"
    );
    write(&tree.out.join("commands.rs"), &text)
}

// ---- operators.h -----------------------------------------------------------

fn generate_operators(tree: &Tree, clang: &str) -> Result<()> {
    let list = List {
        header: "bpfdb/operators.h",
        name: "BPFDB_COUNTED_OPERATOR_LIST",
        fields: &["#name"],
        arguments: "name, call",
    };
    let rows: String = list
        .rows(tree, clang)?
        .iter()
        .map(|fields| {
            let name = literal(&fields[0]);
            format!("    ({:?}, BPFDB_OP_{name}),\n", name.to_ascii_lowercase())
        })
        .collect();
    let text = format!(
        "/// The operators that sessions count.\n\
         pub(crate) const COUNTED_OPERATORS: [(&str, u32); BPFDB_COUNTED_OPERATIONS as usize] = \
         [\n{rows}];\n"
    );
    write(&tree.out.join("operators.rs"), &text)
}

// ---- Lists -----------------------------------------------------------------

/// A list in a header: `#define LIST(X) X(…) X(…) …`.
struct List {
    /// As C includes it.
    header: &'static str,
    name: &'static str,
    /// Names for what each row gives to X.
    arguments: &'static str,
    /// What is wanted of a row: of these, with a `#` before what is not a string.
    fields: &'static [&'static str],
}

impl List {
    /// Lets the preprocessor walk the list, so that nobody parses C by hand.
    fn rows(&self, tree: &Tree, clang: &str) -> Result<Vec<Vec<String>>> {
        let Self {
            header,
            name,
            arguments,
            ..
        } = self;
        let source = tree.out.join(format!("{name}.c"));
        let fields = self.fields.join(" BPFDB_THEN ");
        write(
            &source,
            &format!(
                "#include <{header}>\n#define ROW({arguments}) BPFDB_NEXT {fields}\n{name}(ROW)\n"
            ),
        )?;
        let output = Command::new(clang)
            .current_dir(&tree.root)
            .args(["-E", "-P", "-Iinclude"])
            .arg(&source)
            .output()
            .map_err(|error| format!("{clang}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let row = |row: &str| {
            row.split("BPFDB_THEN")
                .map(|field| field.trim().to_owned())
                .collect()
        };
        let rows: Vec<Vec<String>> = text.split("BPFDB_NEXT").skip(1).map(row).collect();
        if !output.status.success() || rows.iter().any(|row| row.len() != self.fields.len()) {
            return Err(format!(
                "the list {name} of include/{header} could not be read"
            ));
        }
        if rows.is_empty() {
            return Err(format!("the list {name} of include/{header} is empty"));
        }
        Ok(rows)
    }
}

// ---- Files -----------------------------------------------------------------

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
