//! Sources of programs, and the Rust by which a crate has their objects.

use std::fs;
use std::path::{Path, PathBuf};

use crate::result::Result;
use crate::tree::Tree;

/// One `.bpf.c` and the object made of it.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) object: PathBuf,
}

impl Source {
    /// Of the file `path`; its object goes to the folder `objects`.
    pub(crate) fn new(path: PathBuf, objects: &Path) -> Result<Self> {
        let file = path.file_name().and_then(|file| file.to_str());
        let Some(name) = file.and_then(|file| file.strip_suffix(".bpf.c")) else {
            return Err(format!("{} is not named NAME.bpf.c", path.display()));
        };
        Ok(Self {
            object: objects.join(format!("{name}.o")),
            name: name.to_owned(),
            path,
        })
    }
}

pub(crate) fn sources(tree: &Tree, folder: &str) -> Result<Vec<Source>> {
    sources_into(tree, folder, folder)
}

/// The objects go to `objects` below the folder of the build's results.
pub(crate) fn sources_into(tree: &Tree, folder: &str, objects: &str) -> Result<Vec<Source>> {
    let objects = self::folder(tree, objects)?;
    let Ok(entries) = fs::read_dir(tree.root.join(folder)) else {
        return Ok(Vec::new());
    };
    let mut found = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|file| file.ends_with(".bpf.c"))
        .map(|file| Source::new(Path::new(folder).join(file), &objects))
        .collect::<Result<Vec<_>>>()?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// A folder for objects, which is made if there is none.
pub(crate) fn folder(tree: &Tree, name: &str) -> Result<PathBuf> {
    let objects = tree.out.join(name);
    fs::create_dir_all(&objects).map_err(|error| format!("{}: {error}", objects.display()))?;
    Ok(objects)
}

/// A static with the bytes of the object, which are aligned as a reader of ELF may expect.
pub(crate) fn named(visibility: &str, source: &Source) -> String {
    let (path, name) = (source.path.display(), source.name.to_uppercase());
    let bytes = embed(source);
    format!("/// `{path}`.\n{visibility} static {name}: &[u8] = {bytes};\n")
}

fn embed(source: &Source) -> String {
    let object = &source.object;
    format!(
        "{{\n    #[repr(C, align(16))]\n    struct Aligned<T: ?Sized>(T);\n    \
         const OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!({object:?}));\n    &OBJECT.0\n}}"
    )
}

pub(crate) fn embed_list(list: &str, about: &str, sources: &[Source]) -> String {
    let rows: String = sources
        .iter()
        .map(|source| {
            let (name, bytes) = (&source.name, embed(source));
            format!("    TestObject {{ name: {name:?}, bytes: {bytes} }},\n")
        })
        .collect();
    format!("/// {about}\npub static {list}: &[TestObject] = &[\n{rows}];\n")
}
