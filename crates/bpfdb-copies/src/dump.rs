//! From an engine to a file, or to any writer.

use std::io::{BufWriter, Write};
use std::path::Path;

use bpfdb::Engine;

use crate::error::Result;
use crate::file::NewFile;
use crate::format::Format;
use crate::header::Header;
use crate::snapshot::{Progress, Snapshot};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumped {
    pub header: Header,
    pub keys: u64,
}

/// Writes a copy of all that `snapshot` sees to `out`. If that fails, what was written has no
/// end, and counts as cut.
pub fn dump_to(
    snapshot: Snapshot,
    form: Format,
    out: impl Write,
    progress: Progress<'_>,
) -> Result<Dumped> {
    let header = *snapshot.header();
    let mut writer = form.writer(BufWriter::with_capacity(BUFFER, out), &header)?;
    let keys = snapshot.copy_to(&mut *writer, progress)?;
    writer.finish()?;
    Ok(Dumped { header, keys })
}

/// The same into the file `path`, of mode 0600, which is there when it is whole and on the
/// disk. An older one stays until then.
pub fn dump_file(
    snapshot: Snapshot,
    form: Format,
    path: &Path,
    progress: Progress<'_>,
) -> Result<Dumped> {
    let mut file = NewFile::create(path)?;
    let dumped = dump_to(snapshot, form, &mut file, progress)?;
    file.keep()?;
    Ok(dumped)
}

/// Writes all that `engine` has at this moment to a file that Redis 7.0 and later load.
pub fn save_rdb(engine: &Engine, path: &Path) -> Result<Dumped> {
    dump_file(Snapshot::take(engine)?, Format::Rdb, path, &mut |_| Ok(()))
}
