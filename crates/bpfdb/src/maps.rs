//! The engine's maps: created with the engine, shared by every object.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject};

use crate::abi;
use crate::error::{Error, Result, bpf, system};
use crate::mapped::Mapped;
use crate::options::Options;

/// Name of the map of global data, and of the constants.
pub(crate) const STATE: &str = ".data.bpfdb";
const CONFIG: &str = ".rodata.bpfdb";

/// Maps that every object shares with the engine, by name.
pub(crate) const SHARED: [&str; 11] = [
    "segments",
    "directory",
    "slabs",
    "sessions",
    "snapshots",
    "snapshot_groups",
    "removals",
    "counters",
    "io",
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
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == CONFIG {
                set_config(&mut map, &self.config)?;
            } else if let Some(fd) = self.fds.get(&name) {
                map.reuse_fd(fd.as_fd())
                    .map_err(bpf(format!("share map {name}")))?;
            }
        }
        Ok(())
    }

    /// Pins the maps in `folder` of a bpf file system, which it creates.
    pub(crate) fn pin(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)
            .map_err(system(format!("create folder {}", folder.display())))?;
        for (name, fd) in &self.fds {
            pin_fd(fd.as_fd(), &folder.join(pin_name(name)))?;
        }
        // Last: it says that all are there.
        pin_fd(self.config_fd.as_fd(), &folder.join(pin_name(CONFIG)))
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

fn map_id(fd: BorrowedFd<'_>) -> Result<u32> {
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

fn read_config(fd: BorrowedFd<'_>) -> Result<abi::bpfdb_config> {
    let map = MapHandle::from_map_id(map_id(fd)?).map_err(bpf("open the configuration"))?;
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("read the configuration"))?
        .unwrap_or_default();
    if bytes.len() < size_of::<abi::bpfdb_config>() {
        return Err(Error::Invalid(
            "the pinned configuration is of another version".into(),
        ));
    }
    // SAFETY: long enough, checked above; the structure is plain data.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
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
            "io" => options.user_sessions,
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
