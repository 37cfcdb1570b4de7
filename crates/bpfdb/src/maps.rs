//! The engine's maps: created with the engine, shared by every object.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};

use crate::abi;
use crate::error::{Error, Result, bpf, system};
use crate::layout;
use crate::mapped::Mapped;
use crate::options::Options;

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

/// Descriptors of the shared maps, and the configuration.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(crate) config: abi::bpfdb_config,
    fds: BTreeMap<String, OwnedFd>,
    config_fd: OwnedFd,
}

impl Maps {
    pub(crate) fn fd(&self, name: &str) -> BorrowedFd<'_> {
        self.fds[name].as_fd()
    }

    pub(crate) fn handle(&self, name: &str) -> Result<MapHandle> {
        MapHandle::from_map_id(map_id(self.fd(name))?).map_err(bpf(format!("open map {name}")))
    }

    /// The first `entries` values of a map, as memory.
    pub(crate) fn mapped<T>(&self, name: &str, entries: u32) -> Result<Mapped<T>> {
        Mapped::new(self.fd(name), entries as usize, size_of::<T>())
            .map_err(system(format!("map {name}")))
    }

    /// The maps of an object that was loaded to create them.
    pub(crate) fn of(object: &libbpf_rs::Object, config: abi::bpfdb_config) -> Result<Self> {
        let mut fds = BTreeMap::new();
        let mut config_fd = None;

        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            let keep = || {
                map.as_fd()
                    .try_clone_to_owned()
                    .map_err(system(format!("keep map {name}")))
            };
            if name == CONFIG {
                config_fd = Some(keep()?);
            } else if SHARED.contains(&name.as_str()) {
                let fd = keep()?;
                fds.insert(name, fd);
            }
        }
        for name in SHARED {
            if !fds.contains_key(name) {
                return Err(missing(name));
            }
        }
        Ok(Self {
            config,
            fds,
            config_fd: config_fd.ok_or_else(|| missing(CONFIG))?,
        })
    }

    /// Lets an object use these maps in the place of its own.
    pub(crate) fn share_with(&self, object: &mut OpenObject) -> Result<()> {
        layout::check(object)?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == CONFIG {
                constants(&mut map, &self.config)?;
            } else if name == IO {
                map.set_max_entries(self.config.user_sessions)
                    .map_err(bpf("size the io buffers"))?;
            } else if let Some(fd) = self.fds.get(&name) {
                map.reuse_fd(fd.as_fd())
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
        // What somebody left who was ended in the middle of this.
        for name in SHARED {
            remove(&folder.join(pin_name(name)))?;
        }
        for (name, fd) in &self.fds {
            pin_fd(fd.as_fd(), &folder.join(pin_name(name)))?;
        }
        // Last: it says that all are there.
        pin_fd(self.config_fd.as_fd(), &folder.join(pin_name(CONFIG)))
    }

    /// Are these the maps that are pinned in `folder`? False if the pins are gone, or are those of
    /// another engine.
    pub(crate) fn are_those_of(&self, folder: &Path) -> Result<bool> {
        let path = folder.join(pin_name(STATE));
        if !path.exists() {
            return Ok(false);
        }
        let pinned = MapHandle::from_pinned_path(&path)
            .map_err(bpf(format!("open map {}", path.display())))?;
        Ok(map_id(pinned.as_fd())? == map_id(self.fd(STATE))?)
    }

    pub(crate) fn are_pinned(folder: &Path) -> bool {
        folder.join(pin_name(CONFIG)).exists()
    }

    /// Opens pinned maps.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let open = |name: &str| -> Result<OwnedFd> {
            let path = folder.join(pin_name(name));
            let map = MapHandle::from_pinned_path(&path)
                .map_err(bpf(format!("open map {}", path.display())))?;
            map.as_fd()
                .try_clone_to_owned()
                .map_err(system(format!("keep map {name}")))
        };
        if !Self::are_pinned(folder) {
            return Err(Error::NotPinned {
                path: folder.to_owned(),
            });
        }
        // Another layout may have other maps, and another configuration.
        check_version(open(STATE)?.as_fd())?;
        let config_fd = open(CONFIG)?;
        let fds = SHARED
            .into_iter()
            .map(|name| Ok((name.to_owned(), open(name)?)))
            .collect::<Result<_>>()?;
        let config = read_config(config_fd.as_fd())?;
        Ok(Self {
            config,
            fds,
            config_fd,
        })
    }
}

/// Was the engine made by a bpfdb with the same structures? Asked before anything else of it is
/// opened, mapped or loaded.
fn check_version(state: BorrowedFd<'_>) -> Result<()> {
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

fn pin_fd(fd: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let mut map =
        MapHandle::from_map_id(map_id(fd)?).map_err(bpf(format!("open map {}", path.display())))?;
    map.pin(path)
        .map_err(bpf(format!("pin map {}", path.display())))
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
    check_version(state.as_fd())?;
    let state = plain(&read_value(state.as_fd())?)?;
    let config = read_config(open(CONFIG)?.as_fd())?;
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
fn read_value(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let map = MapHandle::from_map_id(map_id(fd)?).map_err(bpf("open a pinned map"))?;
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("read a pinned map"))?;
    Ok(bytes.unwrap_or_default())
}

fn read_config(fd: BorrowedFd<'_>) -> Result<abi::bpfdb_config> {
    let bytes = read_value(fd)?;
    if bytes.len() < size_of::<abi::bpfdb_config>() {
        return Err(Error::Invalid(
            "the pinned configuration is of another version".into(),
        ));
    }
    // SAFETY: long enough, checked above; the structure is plain data.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Makes the constants of an adopted object a map of their own, with its id inside: as
/// long as it lives, the sessions that the object's programs open have somebody who can
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

fn set_config(map: &mut libbpf_rs::OpenMapMut<'_>, config: &abi::bpfdb_config) -> Result<()> {
    let value = map.initial_value_mut().ok_or_else(|| missing(CONFIG))?;
    let size = size_of::<abi::bpfdb_config>();
    if value.len() < size {
        return Err(Error::Invalid(
            "the object was built with another version of bpfdb".into(),
        ));
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
pub(crate) fn size(
    object: &mut OpenObject,
    options: &Options,
    config: &abi::bpfdb_config,
) -> Result<()> {
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
            IO => options.user_sessions,
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
