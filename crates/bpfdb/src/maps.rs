//! The engine's maps: created with the engine, shared by every object.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};

use crate::error::{Error, Result, bpf, system};
use crate::layout;
use crate::mapped::Mapped;
use crate::options::{Options, SEGMENT_SIZE};
use crate::{abi, objects, program};

/// Name of the map of global data, and of the constants.
pub(crate) const STATE: &str = ".data.bpfdb";
const CONFIG: &str = ".rodata.bpfdb";

/// Positions and limits of the log's rings, and their memory.
pub(crate) const LOG_STATE: &str = "log_state";
pub(crate) const LOG_RINGS: &str = "log_rings";

/// The map of io buffers, which each process has for itself.
pub(crate) const IO: &str = "io";

/// Maps that every object shares with the engine, by name.
pub(crate) const SHARED: [&str; 12] = [
    "segments",
    "directory",
    "slabs",
    "sessions",
    "snapshots",
    "snapshot_groups",
    "removals",
    LOG_STATE,
    LOG_RINGS,
    "counters",
    "maintenance",
    STATE,
];

/// Descriptors of the shared maps, and the configuration. No map is opened by its id: that takes
/// CAP_SYS_ADMIN, and a server needs less.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(crate) config: abi::bpfdb_config,
    handles: BTreeMap<String, MapHandle>,
    config_handle: MapHandle,
}

impl Maps {
    pub(crate) fn fd(&self, name: &str) -> BorrowedFd<'_> {
        self.handles[name].as_fd()
    }

    pub(crate) fn handle(&self, name: &str) -> Result<MapHandle> {
        MapHandle::try_from(&self.handles[name]).map_err(bpf(format!("open map {name}")))
    }

    /// What the table of snapshots has for a session; `None`: it cannot be read.
    pub(crate) fn snapshot(&self, session: u32) -> Option<u64> {
        let found = self.handles["snapshots"].lookup(&session.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.ok()??;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// The first `entries` values of a map, as memory.
    pub(crate) fn mapped<T>(&self, name: &str, entries: u32) -> Result<Mapped<T>> {
        Mapped::new(self.fd(name), entries as usize, size_of::<T>())
            .map_err(system(format!("map {name}")))
    }

    /// Creates maps for a new engine. No program is loaded with them: what uses the maps joins
    /// them, the engine's own programs as all others.
    pub(crate) fn create(options: &Options) -> Result<Self> {
        let mut object = program::open_object(objects::ENGINE, "engine")?;
        let config = as_built(&mut object, options.config()?)?;
        size(&mut object, &config)?;
        for mut program in object.progs_mut() {
            program.set_autoload(false);
        }
        for mut map in object.maps_mut().filter(|map| map.name() == IO) {
            // Sessions have their buffers in the map of the programs that run them.
            map.set_max_entries(1).map_err(bpf("size the io buffers"))?;
        }
        Self::of(&program::load(object, "the engine")?, config)
    }

    /// The maps of an object that was loaded to create them.
    fn of(object: &libbpf_rs::Object, config: abi::bpfdb_config) -> Result<Self> {
        let mut handles = BTreeMap::new();
        let mut config_handle = None;

        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            let keep = || MapHandle::try_from(&map).map_err(bpf(format!("keep map {name}")));
            if name == CONFIG {
                config_handle = Some(keep()?);
            } else if SHARED.contains(&name.as_str()) {
                let handle = keep()?;
                handles.insert(name, handle);
            }
        }
        for name in SHARED {
            if !handles.contains_key(name) {
                return Err(missing(name));
            }
        }
        Ok(Self {
            config,
            handles,
            config_handle: config_handle.ok_or_else(|| missing(CONFIG))?,
        })
    }

    /// Lets an object use these maps in the place of its own.
    pub(crate) fn share_with(&self, object: &mut OpenObject) -> Result<()> {
        layout::check(object)?;
        let built = as_built(object, self.config)?;
        if (built.abi_version, built.layout) != (self.config.abi_version, self.config.layout) {
            return Err(Error::Invalid(format!(
                "the BPF object was built with another version of bpfdb: ABI version {} or the \
                 limits of its headers differ from those of the engine, ABI version {}",
                built.abi_version, self.config.abi_version
            )));
        }
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == CONFIG {
                constants(&mut map, &self.config)?;
            } else if name == IO {
                map.set_max_entries(self.config.user_sessions)
                    .map_err(bpf("size the io buffers"))?;
            } else if let Some(handle) = self.handles.get(&name) {
                map.reuse_fd(handle.as_fd())
                    .map_err(bpf(format!("share map {name}")))?;
            }
        }
        Ok(())
    }

    /// Pins the maps in `folder` of a bpf file system, which the caller has claimed.
    pub(crate) fn pin(&self, folder: &Path) -> Result<()> {
        if Self::are_pinned(folder) {
            return Err(Error::Invalid(format!(
                "{}: another engine is pinned here",
                folder.display()
            )));
        }
        // What a process left that was ended in the middle of this.
        for name in SHARED {
            remove(&folder.join(pin_name(name)))?;
        }
        for (name, handle) in &self.handles {
            pin(handle, &folder.join(pin_name(name)))?;
        }
        // Last: it says that all are there.
        pin(&self.config_handle, &folder.join(pin_name(CONFIG)))
    }

    /// Are these the maps that are pinned in `folder`? False if the pins are gone, or are those of
    /// another engine. The configuration stands for all: it is pinned last, and unpinned first.
    pub(crate) fn are_those_of(&self, folder: &Path) -> Result<bool> {
        let path = folder.join(pin_name(CONFIG));
        match MapHandle::from_pinned_path(&path) {
            Ok(pinned) => Ok(map_id(pinned.as_fd())? == map_id(self.config_handle.as_fd())?),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(bpf(format!("open map {}", path.display()))(error)),
        }
    }

    pub(crate) fn are_pinned(folder: &Path) -> bool {
        folder.join(pin_name(CONFIG)).exists()
    }

    /// Opens pinned maps.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let open = |name: &str| {
            let path = folder.join(pin_name(name));
            MapHandle::from_pinned_path(&path).map_err(bpf(format!("open map {}", path.display())))
        };
        if !Self::are_pinned(folder) {
            return Err(Error::NotPinned {
                path: folder.to_owned(),
            });
        }
        // Another layout may have other maps, and another configuration.
        check_version(&open(STATE)?)?;
        let config_handle = open(CONFIG)?;
        let handles = SHARED
            .into_iter()
            .map(|name| Ok((name.to_owned(), open(name)?)))
            .collect::<Result<_>>()?;
        let config = read_config(&config_handle)?;
        let maps = Self {
            config,
            handles,
            config_handle,
        };
        // Else some of the maps may be those of the engine that was here before.
        if !maps.are_those_of(folder)? {
            return Err(Error::NotPinned {
                path: folder.to_owned(),
            });
        }
        Ok(maps)
    }
}

/// Was the engine made by a bpfdb with the same structures? Asked before anything else of it is
/// opened, mapped or loaded.
fn check_version(state: &MapHandle) -> Result<()> {
    let state = read_value(state)?;
    let version = state
        .first_chunk()
        .map_or(0, |&word| u32::from_ne_bytes(word));
    if version == abi::BPFDB_ABI_VERSION {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "the pinned engine has layout version {version}, this program {}",
        abi::BPFDB_ABI_VERSION
    )))
}

/// Removes the pins in `folder`; first of all the one that says that all are there.
pub(crate) fn unpin(folder: &Path) -> Result<()> {
    let cannot = || system(format!("empty {}", folder.display()));
    remove(&folder.join(pin_name(CONFIG)))?;
    for entry in fs::read_dir(folder).map_err(cannot())? {
        remove(&entry.map_err(cannot())?.path())?;
    }
    Ok(())
}

/// Removes a pin, if it is there.
fn remove(pin: &Path) -> Result<()> {
    match fs::remove_file(pin) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(system(format!("unpin {}", pin.display()))(error))
        }
        _ => Ok(()),
    }
}

/// File name of a map's pin: bpf file systems do not allow dots.
fn pin_name(map: &str) -> String {
    map.trim_start_matches('.').replace('.', "_")
}

/// A map of a loaded object.
pub(crate) fn find<'a>(object: &'a libbpf_rs::Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Error {
    Error::Missing {
        kind: "map",
        name: name.to_owned(),
    }
}

pub(crate) fn map_id(fd: BorrowedFd<'_>) -> Result<u32> {
    libbpf_rs::MapInfo::new(fd)
        .map(|info| info.info.id)
        .map_err(bpf("look at a map"))
}

fn pin(map: &MapHandle, path: &Path) -> Result<()> {
    let pinned = MapHandle::try_from(map).and_then(|mut map| map.pin(path));
    pinned.map_err(bpf(format!("pin map {}", path.display())))
}

/// Whether the kernel has a map with this id.
pub(crate) fn map_exists(id: u32) -> io::Result<bool> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libbpf_sys::bpf_map_get_fd_by_id(id) };
    if fd >= 0 {
        // SAFETY: a new descriptor, which no other code has.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        return Ok(true);
    }
    match -fd {
        libc::ENOENT => Ok(false),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether the kernel has the engine with this id ([`crate::Engine::id`]), wherever it is pinned.
/// The caller compares the boot: ids of another one mean nothing.
///
/// # Errors
/// The process lacks CAP_SYS_ADMIN, among others: then it is not known.
pub fn engine_exists(id: u32) -> Result<bool> {
    map_exists(id).map_err(system("look for an engine"))
}

/// The first pin that an engine has and that is not in `folder`.
pub fn first_missing_pin(folder: &Path) -> Option<PathBuf> {
    let names = SHARED.into_iter().chain([CONFIG]);
    let mut paths = names.map(|name| folder.join(pin_name(name)));
    paths.find(|path| !path.exists())
}

/// Memory of the maps that are pinned in `folder`, bytes: what becomes free when they are unpinned,
/// if no process uses them. The kernel says it of every map; segments of data are in the map of
/// segments, and are counted here. Nothing is loaded or mapped.
///
/// # Errors
/// The folder or a map in it cannot be read, or is of another version of bpfdb.
pub fn pinned_memory(folder: &Path) -> Result<u64> {
    let (_, state, _) = pinned_log(folder)?;
    let mut bytes = state.segments.value * SEGMENT_SIZE;
    for entry in fs::read_dir(folder).map_err(system(format!("read {}", folder.display())))? {
        let path = entry.map_err(system("read a folder of pins"))?.path();
        let map = MapHandle::from_pinned_path(&path);
        let map = map.map_err(bpf(format!("open map {}", path.display())))?;
        bytes += charged(map.as_fd()).unwrap_or(0);
    }
    Ok(bytes)
}

/// What the kernel says that a map takes, bytes.
fn charged(map: BorrowedFd<'_>) -> Option<u64> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd())).ok()?;
    let mut lines = about.lines();
    let bytes = lines.find_map(|line| line.strip_prefix("memlock:"))?;
    bytes.trim().parse().ok()
}

/// What the engine that is pinned in `folder` says of itself and of its rings, of which there are none
/// if it has no log; nothing of it is loaded or mapped.
pub(crate) fn pinned_log(
    folder: &Path,
) -> Result<(
    abi::bpfdb_config,
    abi::bpfdb_engine,
    Vec<abi::bpfdb_log_ring>,
)> {
    let open = |name: &str| {
        let path = folder.join(pin_name(name));
        MapHandle::from_pinned_path(&path).map_err(bpf(format!("open map {}", path.display())))
    };
    let state = open(STATE)?;
    check_version(&state)?;
    let state = plain(&read_value(&state)?)?;
    let config = read_config(&open(CONFIG)?)?;
    if config.log_ring == 0 {
        return Ok((config, state, Vec::new()));
    }
    let rings = open(LOG_STATE)?;
    let ring = |number: u32| {
        let bytes = rings
            .lookup(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("read a pinned ring"))?;
        plain(&bytes.unwrap_or_default())
    };
    let rings = (0..rings.max_entries()).map(ring).collect::<Result<_>>()?;
    Ok((config, state, rings))
}

/// A structure of `include/bpfdb/abi.h`, all of which are plain data.
fn plain<T: Copy>(bytes: &[u8]) -> Result<T> {
    if bytes.len() < size_of::<T>() {
        return Err(Error::Invalid(
            "what is pinned is of another version".into(),
        ));
    }
    // SAFETY: long enough, checked above; the caller asks for such a structure.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// The only value of a map.
fn read_value(map: &MapHandle) -> Result<Vec<u8>> {
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("read a pinned map"))?;
    Ok(bytes.unwrap_or_default())
}

fn read_config(map: &MapHandle) -> Result<abi::bpfdb_config> {
    let bytes = read_value(map)?;
    if bytes.len() < size_of::<abi::bpfdb_config>() {
        return Err(Error::Invalid(
            "the pinned configuration is of another version".into(),
        ));
    }
    // SAFETY: long enough, checked above; the structure is plain data.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Makes the constants of an adopted object a map of their own, with its id inside: as
/// long as it lives, the sessions that the object's programs open have a process that can
/// close them. The verifier knows the values of a map that is frozen.
fn constants(map: &mut libbpf_rs::OpenMapMut<'_>, config: &abi::bpfdb_config) -> Result<()> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_RDONLY_PROG,
        ..Default::default()
    };
    let len = map
        .initial_value_mut()
        .ok_or_else(|| missing(CONFIG))?
        .len();
    let own = MapHandle::create(MapType::Array, Some(CONFIG), 4, len as u32, 1, &options)
        .map_err(bpf("create the map of constants"))?;
    let holder = map_id(own.as_fd())?;
    set_config(map, &abi::bpfdb_config { holder, ..*config })?;
    let value = map.initial_value_mut().ok_or_else(|| missing(CONFIG))?;
    own.update(&0u32.to_ne_bytes(), value, MapFlags::ANY)
        .and_then(|()| own.freeze())
        .and_then(|()| map.reuse_fd(own.as_fd()))
        .map_err(bpf("fill the map of constants"))
}

/// The configuration with what the object says of the headers that it was built with.
fn as_built(object: &mut OpenObject, config: abi::bpfdb_config) -> Result<abi::bpfdb_config> {
    let mut maps = object.maps_mut();
    let mut map = maps
        .find(|map| map.name() == CONFIG)
        .ok_or_else(|| missing(CONFIG))?;
    let value = map.initial_value_mut().ok_or_else(|| missing(CONFIG))?;
    if value.len() != size_of::<abi::bpfdb_config>() {
        return Err(another_version());
    }
    let built: abi::bpfdb_config = plain(value)?;
    Ok(abi::bpfdb_config {
        abi_version: built.abi_version,
        layout: built.layout,
        ..config
    })
}

fn another_version() -> Error {
    Error::Invalid("the BPF object was built with another version of bpfdb".into())
}

fn set_config(map: &mut libbpf_rs::OpenMapMut<'_>, config: &abi::bpfdb_config) -> Result<()> {
    let value = map.initial_value_mut().ok_or_else(|| missing(CONFIG))?;
    let size = size_of::<abi::bpfdb_config>();
    if value.len() < size {
        return Err(another_version());
    }
    // SAFETY: plain data, read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(config).cast(), size) };
    value[..size].copy_from_slice(bytes);
    Ok(())
}

/// Bytes of a ring of the log with the room behind it.
pub(crate) fn ring_stride(config: &abi::bpfdb_config) -> u32 {
    config.log_ring + abi::BPFDB_LOG_PAD
}

/// Gives the maps of a new engine their sizes.
fn size(object: &mut OpenObject, config: &abi::bpfdb_config) -> Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "segments" => config.segments_max,
            "directory" => 1 << config.directory_bits,
            "slabs" => config.pages_max,
            "sessions" | "snapshots" => config.sessions,
            "snapshot_groups" => config.sessions.div_ceil(abi::BPFDB_SNAPSHOT_GROUP),
            LOG_STATE => config.log_rings,
            LOG_RINGS => {
                map.set_value_size(ring_stride(config))
                    .map_err(bpf("size the rings of the log"))?;
                config.log_rings
            }
            CONFIG => {
                set_config(&mut map, config)?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries)
            .map_err(bpf(format!("size map {name}")))?;
    }
    Ok(())
}
