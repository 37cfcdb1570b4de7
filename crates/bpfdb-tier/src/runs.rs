//! The runs of an engine: which there are, and reading one value of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bpfdb::{ColdPlace, RunUse, Status};
use bpfdb_log::{AlignedBuffer, Disk, DiskFile};

use crate::format::manifest::Manifest;
use crate::format::run::{self, Contents, RunId};
use crate::format::{BLOCK, Invalid, entry};
use crate::park::Parker;
use crate::prefetch::{Prefetcher, ReadsItself};

/// Folder of the data directory with everything that is here.
pub const FOLDER: &str = "tier";
pub const MANIFEST: &str = "tier/manifest";
const MANIFEST_NEW: &str = "tier/manifest.new";
const PREFIX: &str = "run-";

/// The file of a run, below the data directory.
pub fn run_name(number: u64) -> String {
    format!("{FOLDER}/{PREFIX}{number:016x}")
}

/// One run.
#[derive(Debug)]
struct Run<F> {
    /// `None`: it could not be opened. The file stays until no version names it, and the next start tries again.
    file: Option<Arc<F>>,
    /// Bytes of values that were written, whether a version still names them or not.
    bytes: u64,
    /// Bytes of the file.
    size: u64,
    /// Nothing is written to it any more.
    is_closed: bool,
}

impl<F> Run<F> {
    fn unusable() -> Self {
        Self {
            file: None,
            bytes: 0,
            size: 0,
            is_closed: true,
        }
    }
}

#[derive(Debug)]
struct Table<F> {
    runs: BTreeMap<u64, Run<F>>,
    next: u64,
}

/// A run that is read from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Source<F> {
    pub(crate) id: RunId,
    pub(crate) file: F,
    /// Bytes: whole blocks.
    pub(crate) end: u64,
}

/// What there is of a value without waiting for the disk.
pub(crate) enum AtHand {
    Value(Vec<u8>),
    /// The disk has been told to read it.
    OnItsWay,
    Nothing,
}

/// The runs of one engine.
#[derive(Debug)]
pub struct Runs<D: Disk> {
    disk: D,
    engine: u64,
    table: RwLock<Table<D::File>>,
    /// What the kernel reads before it is asked for.
    prefetcher: OnceLock<Arc<Prefetcher>>,
    /// What it reads to answer by itself.
    parker: OnceLock<Arc<Parker>>,
    /// As [`Self::set_full`] said last.
    is_full: AtomicBool,
}

impl<D: Disk> Runs<D> {
    /// The runs of the engine with this identity: those that the manifest on `disk` names; or, if it is
    /// damaged, gone, or another engine's, those whose headers name the engine. A run that cannot
    /// be read now stays, and its values are [`Status::TierUnavailable`]. Nothing that is there is changed:
    /// whether the disk is this engine's is known later ([`Self::remove_foreign`]).
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(disk: D, engine: u64) -> io::Result<Self> {
        disk.make_folder(FOLDER)?;
        disk.flush_folder("")?;
        let found = numbers(&disk)?;
        let mut manifest = match read_manifest(&disk)? {
            Some(Ok(manifest)) if manifest.engine == engine => manifest,
            Some(Ok(_)) => by_headers(&disk, engine, &found, false),
            other => {
                if let Some(Err(error)) = other {
                    tracing::error!(%error, "the manifest of cold values is damaged: the headers of their files count");
                }
                by_headers(&disk, engine, &found, true)
            }
        };
        // Files that are there keep their names.
        let next = found.iter().max().map_or(1, |number| number + 1);
        manifest.next = manifest.next.max(next);
        let runs = manifest.runs.iter().map(|&number| {
            let run = open_run(&disk, RunId { engine, number }).unwrap_or_else(|error| {
                tracing::error!(%error, run = number, "a file of cold values cannot be used");
                Run::unusable()
            });
            (number, run)
        });
        let table = Table {
            runs: runs.collect(),
            next: manifest.next,
        };
        Ok(Self {
            disk,
            engine,
            table: RwLock::new(table),
            prefetcher: OnceLock::new(),
            parker: OnceLock::new(),
            is_full: AtomicBool::new(false),
        })
    }

    /// From now on the kernel may read values of these runs before they are asked for. False: that is so
    /// already.
    pub(crate) fn prefetch_by(&self, prefetcher: &Arc<Prefetcher>) -> bool {
        let is_first = self.prefetcher.set(Arc::clone(prefetcher)).is_ok();
        if is_first {
            // A run that is made meanwhile registers itself, too.
            self.read(|table| {
                for (&number, run) in &table.runs {
                    prefetcher
                        .set_file(number, run.file.as_ref().and_then(|file| file.descriptor()));
                }
            });
        }
        is_first
    }

    /// From now on the kernel may answer requests with values of these runs. False: that is so already.
    pub(crate) fn park_by(&self, parker: &Arc<Parker>) -> bool {
        let is_first = self.parker.set(Arc::clone(parker)).is_ok();
        if is_first {
            parker.set_full(self.is_full.load(Ordering::Relaxed));
            // As above.
            self.read(|table| {
                for (&number, run) in &table.runs {
                    parker.set_file(number, run.file.as_ref().and_then(|file| file.descriptor()));
                }
            });
        }
        is_first
    }

    /// Has the kernel answered a request with the value of this place lately, as far as is known?
    pub(crate) fn was_parked_for(&self, place: ColdPlace) -> bool {
        self.parker
            .get()
            .is_some_and(|parker| parker.was_read(place))
    }

    /// See [`Parker::set_full`].
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
        if let Some(parker) = self.parker.get() {
            parker.set_full(is_full);
        }
    }

    /// See [`Prefetcher::take_completions`].
    pub(crate) fn take_completions(&self) {
        if let Some(prefetcher) = self.prefetcher.get() {
            prefetcher.take_completions();
        }
    }

    /// Tells the kernel which file a run has.
    fn set_file(&self, number: u64, file: Option<&D::File>) {
        if let Some(prefetcher) = self.prefetcher.get() {
            prefetcher.set_file(number, file.and_then(DiskFile::descriptor));
        }
        if let Some(parker) = self.parker.get() {
            parker.set_file(number, file.and_then(DiskFile::descriptor));
        }
    }

    /// Removes all other runs of the disk, which is this engine's, and has the manifest say what there is.
    /// Not while a run is made.
    ///
    /// # Errors
    /// Those of the disk; then it can be tried again, and runs can be made and read all the same.
    pub fn remove_foreign(&self) -> io::Result<()> {
        let found = numbers(&self.disk)?;
        let foreign = self.read(|table| {
            let is_foreign = |number: &u64| !table.runs.contains_key(number);
            found.into_iter().filter(is_foreign).collect::<Vec<u64>>()
        });
        remove_all(&self.disk, foreign.iter())?;
        match read_manifest(&self.disk)? {
            Some(Ok(manifest)) if manifest == self.manifest() => Ok(()),
            _ => self.publish(),
        }
    }

    /// Makes a run whose name is in the manifest, with a header; to be written from [`BLOCK`] on, up to
    /// about `size` bytes, for which it takes the space. `uses`: a run of the same place must have
    /// gone. `keep`: bytes that it leaves to other files.
    ///
    /// # Errors
    /// Those of the disk; then there is no such run.
    pub(crate) fn create(
        &self,
        size: u64,
        keep: u64,
        uses: &[RunUse],
    ) -> io::Result<(RunId, D::File)> {
        if self.disk.free()? < size.saturating_add(keep) {
            let error = "the disk has no more room than log and checkpoints may need";
            return Err(io::Error::new(io::ErrorKind::StorageFull, error));
        }
        let number = self.free_number(uses)?;
        // No other attempt meets what is left of one that fails.
        self.write(|table| table.next = number + 1);
        let id = RunId {
            engine: self.engine,
            number,
        };
        let name = run_name(number);
        let made = self.make(&name, id, size);
        if made.is_err() {
            self.write(|table| drop(table.runs.remove(&number)));
            self.set_file(number, None);
            let _ = self.disk.remove(&name);
        }
        made.map(|file| (id, file))
    }

    fn make(&self, name: &str, id: RunId, size: u64) -> io::Result<D::File> {
        let file = self.disk.create(name)?;
        file.allocate(size)?;
        let header = AlignedBuffer::from(&run::encode_header(id)[..]);
        file.write_flushed(0, &header)?;
        self.disk.flush_folder(FOLDER)?;
        let reader = self.disk.open(name)?.ok_or(io::ErrorKind::NotFound)?;
        let reader = Arc::new(reader);
        let run = Run {
            file: Some(Arc::clone(&reader)),
            bytes: 0,
            size,
            is_closed: false,
        };
        self.write(|table| table.runs.insert(id.number, run));
        self.set_file(id.number, Some(&reader));
        self.publish()?;
        Ok(file)
    }

    fn free_number(&self, uses: &[RunUse]) -> io::Result<u64> {
        let places = uses.len() as u64;
        self.read(|table| {
            let taken = |number: u64| {
                uses[(number % places) as usize].values != 0
                    || table
                        .runs
                        .keys()
                        .any(|other| other % places == number % places)
            };
            let mut numbers = table.next..table.next + places;
            numbers.find(|&number| !taken(number)).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::StorageFull,
                    "there are as many runs as there may be",
                )
            })
        })
    }

    /// So many bytes of values were written to it.
    pub(crate) fn wrote(&self, number: u64, bytes: u64) {
        self.write(|table| {
            if let Some(run) = table.runs.get_mut(&number) {
                run.bytes += bytes;
            }
        });
    }

    /// Nothing more is written to it.
    pub(crate) fn closed(&self, number: u64, size: u64) {
        self.write(|table| {
            if let Some(run) = table.runs.get_mut(&number) {
                run.is_closed = true;
                run.size = size;
            }
        });
    }

    /// The value of this key and length at a place.
    ///
    /// # Errors
    /// [`Status::TierUnavailable`]: there is no such run, or it cannot be read;
    /// [`Status::TierCorrupt`]: what is there is not the value.
    pub fn read_value(&self, key: &[u8], len: u64, place: ColdPlace) -> Result<Vec<u8>, Status> {
        if let Some(value) = self.prefetched(key, len, place) {
            return Ok(value);
        }
        let file = self.file(place).ok_or(Status::TierUnavailable)?;
        let size = usize::try_from(entry::size(key, len)).map_err(|_| Status::TierCorrupt)?;
        let mut bytes = vec![0; size];
        let read = file.read_whole(place.offset, &mut bytes).map_err(|error| {
            tracing::error!(%error, run = place.run, offset = place.offset, "a cold value cannot be read");
            Status::TierUnavailable
        })?;
        // A read that was late has ended by now: else the next one would not seem to be alone.
        self.take_completions();
        bytes.truncate(read);
        self.value_of(bytes, key, len, place).map_err(|error| {
            tracing::error!(%error, run = place.run, offset = place.offset, "a cold value is damaged");
            Status::TierCorrupt
        })
    }

    /// The same if the disk need not be waited for. If something is wrong [`Self::read_value`] finds it out.
    pub(crate) fn read_at_hand(&self, key: &[u8], len: u64, place: ColdPlace) -> AtHand {
        if let Some(value) = self.prefetched(key, len, place) {
            return AtHand::Value(value);
        }
        let (Some(file), Ok(size)) = (self.file(place), usize::try_from(entry::size(key, len)))
        else {
            return AtHand::Nothing;
        };
        let mut bytes = vec![0; size];
        let _reads = self.reads_for_command();
        match file.read_at_hand(place.offset, &mut bytes) {
            Ok(read) => {
                bytes.truncate(read);
                let value = self.value_of(bytes, key, len, place);
                value.map_or(AtHand::Nothing, AtHand::Value)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => AtHand::OnItsWay,
            Err(_) => AtHand::Nothing,
        }
    }

    /// A command needs what is read as long as this is there: others of its kind are read beside.
    pub(crate) fn reads_for_command(&self) -> Option<ReadsItself<'_>> {
        let prefetcher = self.prefetcher.get()?;
        Some(prefetcher.reads_itself())
    }

    fn file(&self, place: ColdPlace) -> Option<Arc<D::File>> {
        self.read(|table| table.runs.get(&place.run).and_then(|run| run.file.clone()))
    }

    /// The value of an entry that was read.
    fn value_of(
        &self,
        mut bytes: Vec<u8>,
        key: &[u8],
        len: u64,
        place: ColdPlace,
    ) -> Result<Vec<u8>, Invalid> {
        let value = entry::decode(&bytes, self.engine, place, key, len)?;
        let head = bytes.len() - value.len();
        bytes.drain(..head);
        Ok(bytes)
    }

    /// The same if the kernel has read it by now, or is about to. What is wrong with it the caller finds out.
    fn prefetched(&self, key: &[u8], len: u64, place: ColdPlace) -> Option<Vec<u8>> {
        let prefetcher = self.prefetcher.get()?;
        let size = usize::try_from(entry::size(key, len)).ok()?;
        prefetcher.take(place, size, |bytes| {
            let value = entry::decode(bytes, self.engine, place, key, len);
            value.ok().map(<[u8]>::to_vec)
        })
    }

    /// Removes the runs that are closed and that no version names; how many.
    ///
    /// # Errors
    /// Those of the disk; what is left goes the next time, or at the next start.
    pub fn remove_unused(&self, uses: &[RunUse]) -> io::Result<usize> {
        let gone = self.write(|table| {
            let unused = |(number, run): (&u64, &Run<D::File>)| {
                let unused =
                    run.is_closed && uses[(number % uses.len() as u64) as usize].values == 0;
                unused.then_some(*number)
            };
            let gone: Vec<u64> = table.runs.iter().filter_map(unused).collect();
            for number in &gone {
                table.runs.remove(number);
            }
            gone
        });
        // While io_uring has a file, the disk has it, too.
        for &number in &gone {
            self.set_file(number, None);
        }
        if !gone.is_empty() {
            // A disk that has no room for a manifest has some when they are gone.
            let published = self.publish();
            remove_all(&self.disk, gone.iter())?;
            published.or_else(|_| self.publish())?;
        }
        Ok(gone.len())
    }

    /// Closed runs of which versions name less than half of the bytes.
    pub(crate) fn sparse(&self, uses: &[RunUse]) -> Vec<u64> {
        self.read(|table| {
            let sparse = |(number, run): (&u64, &Run<D::File>)| {
                let used = uses[(number % uses.len() as u64) as usize];
                (run.is_closed && used.values > 0 && used.bytes * 2 < run.bytes).then_some(*number)
            };
            table.runs.iter().filter_map(sparse).collect()
        })
    }

    /// A run to be read from its beginning to its end, past the page cache.
    pub(crate) fn source(&self, number: u64) -> io::Result<Source<D::File>> {
        let id = RunId {
            engine: self.engine,
            number,
        };
        let file = self.disk.open_for_scan(&run_name(number))?;
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        let size = file.size()?;
        Ok(Source {
            id,
            file,
            end: size - size % BLOCK as u64,
        })
    }

    /// How many runs there are, and the bytes of their files.
    pub fn sizes(&self) -> (u64, u64) {
        self.read(|table| {
            let bytes = table.runs.values().map(|run| run.size).sum();
            (table.runs.len() as u64, bytes)
        })
    }

    fn read<T>(&self, with: impl FnOnce(&Table<D::File>) -> T) -> T {
        with(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, with: impl FnOnce(&mut Table<D::File>) -> T) -> T {
        with(&mut self.table.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// What there is.
    fn manifest(&self) -> Manifest {
        self.read(|table| Manifest {
            engine: self.engine,
            next: table.next,
            runs: table.runs.keys().copied().collect(),
        })
    }

    /// Replaces the manifest by one that says what there is.
    fn publish(&self) -> io::Result<()> {
        let manifest = self.manifest();
        match self.disk.remove(MANIFEST_NEW) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.create(MANIFEST_NEW)?;
        file.write_flushed(0, &AlignedBuffer::from(&manifest.encode()[..]))?;
        self.disk.rename(MANIFEST_NEW, MANIFEST)?;
        self.disk.flush_folder(FOLDER)
    }
}

/// Of all runs on the disk, whatever engine's.
fn numbers<D: Disk>(disk: &D) -> io::Result<Vec<u64>> {
    let names = disk.list(FOLDER)?;
    Ok(names.iter().filter_map(|name| number_of(name)).collect())
}

fn number_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()
}

pub(crate) fn read_all<F: DiskFile>(file: &F) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.size()? as usize];
    let read = file.read_whole(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// `None`: there is none.
pub(crate) fn read_manifest<D: Disk>(disk: &D) -> io::Result<Option<Result<Manifest, Invalid>>> {
    let file = disk.open(MANIFEST)?;
    let bytes = file.map(|file| read_all(&file)).transpose()?;
    Ok(bytes.map(|bytes| Manifest::decode(&bytes)))
}

/// What the manifest of this engine would say, by the files that were found. A file whose header cannot be
/// read counts if `with_unreadable`: it may be one of them.
fn by_headers<D: Disk>(disk: &D, engine: u64, found: &[u64], with_unreadable: bool) -> Manifest {
    let is_ours = |number: &u64| {
        let wanted = RunId {
            engine,
            number: *number,
        };
        read_header(disk, *number).map_or(with_unreadable, |(_, found)| found == wanted)
    };
    let mut runs: Vec<u64> = found.iter().copied().filter(is_ours).collect();
    runs.sort_unstable();
    Manifest {
        engine,
        next: 1,
        runs,
    }
}

/// A file, and which run its header says it is.
pub(crate) fn read_header<D: Disk>(disk: &D, number: u64) -> io::Result<(D::File, RunId)> {
    let file = disk
        .open(&run_name(number))?
        .ok_or(io::ErrorKind::NotFound)?;
    let mut header = vec![0; BLOCK];
    let read = file.read_whole(0, &mut header)?;
    let id = run::decode_header(&header[..read]).map_err(invalid)?;
    Ok((file, id))
}

/// A run of before. One without a footer was being written when its server ended: what is in it counts,
/// but it is not known how much that is.
fn open_run<D: Disk>(disk: &D, id: RunId) -> io::Result<Run<D::File>> {
    let (file, found) = read_header(disk, id.number)?;
    if found != id {
        return Err(invalid(Invalid::Field("engine or number")));
    }
    let size = file.size()?;
    let contents = read_footer(&file, size, id)?;
    Ok(Run {
        file: Some(Arc::new(file)),
        bytes: contents.map_or(size, |contents| contents.bytes),
        size,
        is_closed: true,
    })
}

fn read_footer<F: DiskFile>(file: &F, size: u64, id: RunId) -> io::Result<Option<Contents>> {
    let Some(start) = size.checked_sub(BLOCK as u64) else {
        return Ok(None);
    };
    let mut footer = vec![0; BLOCK];
    let read = file.read_whole(start, &mut footer)?;
    let found = run::decode_footer(&footer[..read]).ok();
    Ok(found.and_then(|(found, contents)| (found == id).then_some(contents)))
}

fn invalid(error: Invalid) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn remove_all<'a, D: Disk>(disk: &D, numbers: impl Iterator<Item = &'a u64>) -> io::Result<()> {
    let mut removed = Ok(());
    for number in numbers {
        match disk.remove(&run_name(*number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => removed = Err(error),
            _ => {}
        }
    }
    removed
}
