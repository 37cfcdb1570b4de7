//! Headers of libbpf and of the kernel's UAPI, from the `libbpf-sys` crate: those of a distribution
//! may be older than the kernel that the programs need.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::result::{Result, variable};
use crate::tree::Tree;

/// `bpf/*.h` as libbpf-sys installs them, `linux/*.h` from its sources; for a test that builds
/// a loader in C, the library too.
pub(crate) fn copy(tree: &Tree) -> Result<()> {
    let installed = PathBuf::from(variable("DEP_BPF_INCLUDE")?);
    if env::var_os("CARGO_FEATURE_TEST_OBJECTS").is_some() {
        let library = installed.with_file_name("libbpf.a");
        fs::copy(&library, tree.out.join("libbpf.a"))
            .map_err(|error| format!("{}: {error}", library.display()))?;
    }
    let uapi = libbpf_sources(&tree.target)?.join("libbpf/include/uapi");
    copy_headers(&installed.join("bpf"), &tree.headers.join("bpf"))?;
    copy_headers(&uapi.join("linux"), &tree.headers.join("linux"))
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
