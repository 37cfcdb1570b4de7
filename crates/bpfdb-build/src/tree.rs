//! Where sources, headers and results are.

use std::path::{Path, PathBuf};

use crate::result::{Result, variable};

pub(crate) struct Tree {
    /// The folder with bpfdb's `bpf` and `include`.
    pub(crate) root: PathBuf,
    /// The results of this build script.
    pub(crate) out: PathBuf,
    /// Of libbpf and of the kernel.
    pub(crate) headers: PathBuf,
    /// Objects that the build script of the crate `bpfdb` has compiled, for one that depends on it:
    /// what is the same there need not be compiled once more.
    pub(crate) known: Option<PathBuf>,
    pub(crate) target: String,
    pub(crate) architecture: String,
}

impl Tree {
    /// Of the crate `bpfdb`.
    pub(crate) fn of_engine() -> Result<Self> {
        let root = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../..");
        let root = root
            .canonicalize()
            .map_err(|error| format!("{}: {error}", root.display()))?;
        let headers = PathBuf::from(variable("OUT_DIR")?).join("libbpf-headers");
        Self::new(root, headers, None)
    }

    /// Of a crate that depends on `bpfdb`, whose build script says where its own are.
    pub(crate) fn of_user() -> Result<Self> {
        let missing = |error| format!("{error}: is bpfdb among the dependencies of this crate?");
        let root = variable("DEP_BPFDB_ROOT").map_err(missing)?;
        let headers = variable("DEP_BPFDB_HEADERS").map_err(missing)?;
        let known = variable("DEP_BPFDB_OBJECTS").map_err(missing)?;
        Self::new(root.into(), headers.into(), Some(known.into()))
    }

    fn new(root: PathBuf, headers: PathBuf, known: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            root,
            headers,
            known,
            out: PathBuf::from(variable("OUT_DIR")?),
            target: variable("TARGET")?,
            architecture: variable("CARGO_CFG_TARGET_ARCH")?,
        })
    }

    /// For the build scripts of crates that depend on `bpfdb`: what [`Tree::of_user`] reads.
    pub(crate) fn declare_to_users(&self) {
        println!("cargo::metadata=root={}", self.root.display());
        println!("cargo::metadata=headers={}", self.headers.display());
        println!("cargo::metadata=objects={}", self.out.display());
    }

    /// What is below these folders and files of the tree is an input of the build.
    pub(crate) fn declare_inputs(&self, inputs: &[&str]) {
        for input in inputs {
            let path = self.root.join(input);
            println!("cargo::rerun-if-changed={}", path.display());
        }
        println!("cargo::rerun-if-changed=build.rs");
        println!("cargo::rerun-if-env-changed=BPFDB_CLANG");
    }

    pub(crate) fn include_flags(&self) -> Vec<String> {
        let headers = self.headers.display();
        let machine = format!("/usr/include/{}-linux-gnu", self.architecture);
        let mut flags: Vec<String> = ["-Iinclude", "-Ibpf", "-Ibpf/api"].map(String::from).into();
        flags.push(format!("-I{headers}"));
        if Path::new(&machine).is_dir() {
            flags.push(format!("-I{machine}"));
        }
        flags
    }
}
