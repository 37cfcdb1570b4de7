//! The objects of a crate that uses the engine.

use std::path::PathBuf;

use crate::abi;
use crate::clang::{Machine, find_compiler};
use crate::compile::compile_in_parallel;
use crate::objects::{self, Source};
use crate::result::{Result, variable, write};
use crate::tree::Tree;

/// BPF programs that a build script compiles for its crate.
///
/// A program may include `<bpfdb/…>`, `<bpf/…>` and `<linux/…>`.
pub struct Programs {
    tree: Tree,
    paths: Vec<PathBuf>,
}

impl Programs {
    /// None so far.
    ///
    /// # Errors
    /// Called by something else than the build script of a crate that depends on `bpfdb`.
    pub fn new() -> Result<Self> {
        Ok(Self {
            tree: Tree::of_user()?,
            paths: Vec::new(),
        })
    }

    /// Adds the program in the file `path`, `NAME.bpf.c`, seen from the folder of the crate.
    #[must_use]
    pub fn source(mut self, path: &str) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Adds the program of this name in bpfdb's own folder `bpf`.
    #[must_use]
    pub fn own(mut self, path: &str) -> Self {
        self.paths.push(self.tree.root.join("bpf").join(path));
        self
    }

    /// Writes `shared.rs` to `OUT_DIR`: the structures and constants of the headers of these names in
    /// bpfdb's own folder `include/bpfdb`, each after those that it includes.
    ///
    /// # Errors
    /// One of them is not there, or cannot be translated.
    pub fn shares(self, headers: &[&str]) -> Result<Self> {
        abi::share(&self.tree, headers)?;
        Ok(self)
    }

    /// Compiles those that are out of date, and writes `objects.rs` to `OUT_DIR`, with a
    /// `pub(crate) static NAME: &[u8]` for each.
    ///
    /// # Errors
    /// There is no compiler, a file cannot be read or written, or a program does not compile; the
    /// compiler has said why on standard error.
    pub fn build(self) -> Result<()> {
        let Self { tree, paths } = self;
        tree.declare_inputs(&["bpf", "include"]);
        let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
        let objects = objects::folder(&tree, "objects")?;
        let mut sources = Vec::new();
        for path in paths {
            let path = package.join(path);
            // With the headers beside it.
            let folder = path.parent().unwrap_or(&package);
            println!("cargo::rerun-if-changed={}", folder.display());
            // As the compiler, which runs in the root, is to name it.
            let path = path
                .strip_prefix(&tree.root)
                .map(PathBuf::from)
                .unwrap_or(path);
            sources.push(Source::new(path, &objects)?);
        }
        let all: Vec<&Source> = sources.iter().collect();
        compile_in_parallel(&tree, &find_compiler()?, &all, &Machine::of_build(&tree)?)?;
        let text: String = sources
            .iter()
            .map(|source| objects::named("pub(crate)", source))
            .collect();
        write(&tree.out.join("objects.rs"), &text)
    }
}
