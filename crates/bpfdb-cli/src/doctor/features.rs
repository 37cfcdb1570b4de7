//! Program types, map types and flags that the kernel must know. It is asked
//! by trying, never by its version.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use libbpf_sys as sys;

use super::Check;
use crate::output;

const PROGRAMS: [(&str, sys::bpf_prog_type); 5] = [
    ("raw tracepoint programs", sys::BPF_PROG_TYPE_RAW_TRACEPOINT),
    ("sk_skb programs", sys::BPF_PROG_TYPE_SK_SKB),
    ("sk_msg programs", sys::BPF_PROG_TYPE_SK_MSG),
    ("sockops programs", sys::BPF_PROG_TYPE_SOCK_OPS),
    ("cgroup programs", sys::BPF_PROG_TYPE_CGROUP_SKB),
];

const MAPS: [(&str, sys::bpf_map_type); 7] = [
    ("array maps", sys::BPF_MAP_TYPE_ARRAY),
    ("per-CPU array maps", sys::BPF_MAP_TYPE_PERCPU_ARRAY),
    ("array-of-maps maps", sys::BPF_MAP_TYPE_ARRAY_OF_MAPS),
    ("program array maps", sys::BPF_MAP_TYPE_PROG_ARRAY),
    ("socket maps", sys::BPF_MAP_TYPE_SOCKMAP),
    ("socket hash maps", sys::BPF_MAP_TYPE_SOCKHASH),
    ("ring buffers", sys::BPF_MAP_TYPE_RINGBUF),
];

const CONFIG: &str = "boot a kernel with CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS, \
    CONFIG_CGROUP_BPF and CONFIG_INET, as distributions have them";

pub(super) fn checks() -> Vec<Check> {
    // The probes are noisy.
    output::silence_libbpf();
    let programs = PROGRAMS.iter().map(|&(name, kind)| {
        // SAFETY: libbpf takes no options here.
        verdict(name, unsafe {
            sys::libbpf_probe_bpf_prog_type(kind, ptr::null())
        })
    });
    let maps = MAPS.iter().map(|&(name, kind)| {
        // SAFETY: libbpf takes no options here.
        verdict(name, unsafe {
            sys::libbpf_probe_bpf_map_type(kind, ptr::null())
        })
    });
    programs.chain(maps).chain([mmapable()]).collect()
}

/// Without permission every answer would be "no".
pub(super) fn unknown() -> Check {
    Check::note(
        "kernel features",
        "not known",
        "without permission nothing can be tried",
    )
}

/// libbpf answers 1 for yes, 0 for no, or a negative error number.
fn verdict(name: &str, answer: i32) -> Check {
    match answer {
        1 => Check::ok(name, "supported"),
        0 => Check::missing(name, "not supported", CONFIG),
        error => {
            let error = io::Error::from_raw_os_error(-error);
            Check::missing(name, format!("not known ({error})"), CONFIG)
        }
    }
}

fn mmapable() -> Check {
    let name = "maps shared by mmap";
    match create_array(sys::BPF_F_MMAPABLE) {
        Ok(()) => Check::ok(name, "supported"),
        Err(error) => Check::missing(name, error.to_string(), CONFIG),
    }
}

/// Creates a small array map, and closes it again.
pub(super) fn create_array(flags: u32) -> io::Result<()> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as _,
        map_flags: flags,
        ..Default::default()
    };
    // SAFETY: the name is a C string, the options live until the call returns.
    let fd = unsafe {
        sys::bpf_map_create(
            sys::BPF_MAP_TYPE_ARRAY,
            c"bpfdb_doctor".as_ptr(),
            4,
            64,
            1,
            &options,
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call above made this descriptor, and it is not shared.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn answers_of_libbpf() {
        assert_eq!(verdict("x", 1).state, State::Ok);
        assert_eq!(verdict("x", 0).state, State::Missing);
        let refused = verdict("x", -libc::EPERM);
        assert_eq!(refused.state, State::Missing);
        assert!(refused.found.contains("not permitted"));
    }
}
