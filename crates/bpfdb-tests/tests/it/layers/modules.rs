//! The modules of a crate, and which of them uses which, file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path as File, PathBuf};

use super::source::{self, Path};

/// A module by its path below the root, such as `disk/buffer`; the root itself is empty.
pub(super) type Module = String;

/// One use: a line of a file names something of a module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) by: Module,
    pub(super) of: Module,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

/// The source of one crate.
pub(super) struct Modules {
    /// Of each module its file.
    files: BTreeMap<Module, PathBuf>,
    paths: BTreeMap<Module, Vec<Path>>,
    /// Modules that declare others and have no code.
    empty: BTreeSet<Module>,
}

/// The root, by which a library or a program begins. The program of a crate that has a library too
/// is above all of it.
const ROOTS: [&str; 2] = ["lib", "main"];
/// A `use` of a `use` of a `use`: more of them than any crate has.
const DEPTH: usize = 16;

impl Modules {
    /// Reads all files below `src`.
    pub(super) fn read(src: &File) -> Self {
        let files = files_below(src);
        let roots = ROOTS.map(|root| src.join(root).with_extension("rs"));
        let root = roots.iter().find(|root| files.contains(root));
        let named = files.iter().filter_map(|file| match roots.contains(file) {
            true => (Some(file) == root).then(|| (Module::new(), file.clone())),
            false => Some((module_of(file.strip_prefix(src).ok()?), file.clone())),
        });
        Self::of_texts(named.map(|(module, file)| {
            let text = fs::read_to_string(&file).expect("a source is read");
            (module, file, text)
        }))
    }

    pub(super) fn of_texts(texts: impl Iterator<Item = (Module, PathBuf, String)>) -> Self {
        let mut files = BTreeMap::new();
        let mut paths = BTreeMap::new();
        let mut empty = BTreeSet::new();
        for (module, file, text) in texts {
            if source::declares_only(&text) {
                empty.insert(module.clone());
            }
            paths.insert(module.clone(), source::paths(&text));
            files.insert(module, file);
        }
        Self {
            files,
            paths,
            empty,
        }
    }

    /// All modules but the root, and those that only declare others.
    pub(super) fn with_code(&self) -> impl Iterator<Item = (&Module, &PathBuf)> {
        self.files
            .iter()
            .filter(|(module, _)| !module.is_empty() && !self.empty.contains(*module))
    }

    /// Every use of a module of this crate by another one, but those by the root.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (module, file) in self.files.iter().filter(|(module, _)| !module.is_empty()) {
            for path in &self.paths[module] {
                if let Some(of) = self.target(module, path).filter(|of| of != module) {
                    uses.push(Use {
                        by: module.clone(),
                        of,
                        file: file.clone(),
                        line: path.line,
                    });
                }
            }
        }
        uses.sort();
        uses.dedup();
        uses
    }

    /// The module that has what `path` names; none if that is another crate's.
    fn target(&self, module: &str, path: &Path) -> Option<Module> {
        let scope = scope(module, &path.inside);
        let words: Vec<&str> = path.words.iter().map(String::as_str).collect();
        self.resolve(&scope, &words, DEPTH)
            .map(|found| self.file_of(&found))
    }

    /// Where the path leads, seen from `scope`.
    fn resolve(&self, scope: &str, words: &[&str], depth: usize) -> Option<Module> {
        let (first, rest) = words.split_first()?;
        match *first {
            "crate" => self.walk(Module::new(), rest, depth),
            "self" => self.walk(scope.to_owned(), rest, depth),
            "super" => {
                let mut at = parent(scope)?;
                let mut rest = rest;
                while let Some(("super", more)) = rest.split_first().map(|(w, m)| (*w, m)) {
                    at = parent(&at)?;
                    rest = more;
                }
                self.walk(at, rest, depth)
            }
            name if self.files.contains_key(&join(scope, name)) => {
                self.walk(join(scope, name), rest, depth)
            }
            _ => None,
        }
    }

    fn walk(&self, mut at: Module, words: &[&str], depth: usize) -> Option<Module> {
        for (i, word) in words.iter().enumerate() {
            let below = join(&at, word);
            if self.files.contains_key(&below) {
                at = below;
                continue;
            }
            let Some(given) = depth.checked_sub(1).and_then(|_| self.given(&at, word)) else {
                return Some(at);
            };
            let mut all: Vec<&str> = given.words.iter().map(String::as_str).collect();
            all.extend(&words[i + 1..]);
            let scope = scope(&self.file_of(&at), &given.inside);
            // What the root has of another crate is used by all; what a module hands on is its own.
            let found = self.resolve(&scope, &all, depth - 1);
            return found.or_else(|| (!at.is_empty()).then_some(at));
        }
        Some(at)
    }

    /// What `module` means by `name`, if a `use` says so.
    fn given(&self, module: &str, name: &str) -> Option<&Path> {
        let file = self.file_of(module);
        self.paths[&file].iter().find(|path| {
            path.name.as_deref() == Some(name)
                && scope(&file, &path.inside) == module
                && path.words.first().map(String::as_str) != Some(name)
        })
    }

    /// The module of a file that has `module`, which may lie in its parent's.
    fn file_of(&self, module: &str) -> Module {
        let mut at = module.to_owned();
        while !self.files.contains_key(&at) {
            at = parent(&at).unwrap_or_default();
            if at.is_empty() {
                break;
            }
        }
        at
    }
}

fn scope(module: &str, inside: &[String]) -> Module {
    inside.iter().fold(module.to_owned(), |at, m| join(&at, m))
}

fn join(module: &str, name: &str) -> Module {
    if module.is_empty() {
        name.to_owned()
    } else {
        format!("{module}/{name}")
    }
}

/// The module above; of the root none.
fn parent(module: &str) -> Option<Module> {
    if module.is_empty() {
        return None;
    }
    Some(
        module
            .rsplit_once('/')
            .map_or("", |(above, _)| above)
            .to_owned(),
    )
}

fn module_of(file: &File) -> Module {
    let name = file.with_extension("");
    let name = if name.ends_with("mod") {
        name.parent().unwrap_or(&name)
    } else {
        &name
    };
    name.to_str().expect("a name in UTF-8").to_owned()
}

fn files_below(folder: &File) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
