//! The compiler, and how it is called.

use std::env;
use std::process::{Command, Stdio};

use crate::result::{Result, write};
use crate::tree::Tree;

/// Compilers, best first, unless `BPFDB_CLANG` names one.
const COMPILERS: [&str; 2] = ["clang-22", "clang-19"];
const LAST_COMPILER: &str = "clang";

pub(crate) const BPF_FLAGS: &str = "-target bpf -O2 -g -std=gnu11 -Wall -Wextra -Werror \
    -Wno-unused-parameter -Wno-address-of-packed-member";

/// For processors that keep loads and stores in order, as x86-64 does.
const STRONG_ORDER: &str = "-mcpu=v3";
/// For all others (docs/decisions/0014-memory-order.md): v4 has load-acquire and
/// store-release. It also has tables of jumps, which kernels of today do not know.
const WEAK_ORDER: &str = "-mcpu=v4 -fno-jump-tables -DBPFDB_WEAK_ORDER";

/// The processor that objects are compiled for.
pub(crate) struct Machine {
    /// The name by which `bpf_tracing.h` knows it.
    architecture: &'static str,
    order: &'static str,
}

impl Machine {
    const X86_64: Self = Self {
        architecture: "-D__TARGET_ARCH_x86",
        order: STRONG_ORDER,
    };
    pub(crate) const ARM64: Self = Self {
        architecture: "-D__TARGET_ARCH_arm64",
        order: WEAK_ORDER,
    };

    pub(crate) fn of_build(tree: &Tree) -> Result<Self> {
        match tree.architecture.as_str() {
            "x86_64" => Ok(Self::X86_64),
            "aarch64" => Ok(Self::ARM64),
            other => Err(format!("bpfdb does not know the architecture {other}")),
        }
    }

    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.order.split(' ').chain([self.architecture])
    }
}

/// Does the compiler know load-acquire of BPF? Older ones than LLVM 22 may not.
pub(crate) fn has_acquire(tree: &Tree, clang: &str) -> Result<bool> {
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

pub(crate) fn find_compiler() -> Result<String> {
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
