//! Running a program that is not attached anywhere: `BPF_PROG_RUN`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::error::{Result, bpf, system};

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    name: String,
}

impl Program {
    pub(crate) fn of(program: &libbpf_rs::Program<'_>) -> Result<Self> {
        let name = program.name().to_string_lossy().into_owned();
        let fd = program
            .as_fd()
            .try_clone_to_owned()
            .map_err(system(format!("keep program {name}")))?;
        Ok(Self { fd, name })
    }

    /// A program that another process, or library, has loaded.
    pub fn of_descriptor(fd: OwnedFd, name: impl Into<String>) -> Self {
        Self {
            fd,
            name: name.into(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the program with `arguments` as its context; its return value.
    pub fn run(&self, arguments: &[u64]) -> Result<u32> {
        self.run_raw(arguments)
            .map_err(system(format!("run program {}", self.name)))
    }

    pub(crate) fn run_raw(&self, arguments: &[u64]) -> io::Result<u32> {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        if !arguments.is_empty() {
            options.ctx_in = arguments.as_ptr().cast();
            options.ctx_size_in = size_of_val(arguments) as u32;
        }
        // SAFETY: options point to memory that outlives the call.
        let result =
            unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd.as_raw_fd(), &mut options) };
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        Ok(options.retval)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The program `name` of a loaded object.
pub fn find(object: &libbpf_rs::Object, name: &str) -> Result<Program> {
    let program = object
        .progs()
        .find(|program| program.name() == name)
        .ok_or_else(|| crate::Error::Missing {
            kind: "program",
            name: name.to_owned(),
        })?;
    Program::of(&program)
}

/// Opens an embedded or file object for [`Engine::adopt`](crate::Engine::adopt).
pub fn open_object(bytes: &[u8], name: &str) -> Result<libbpf_rs::OpenObject> {
    libbpf_rs::ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(bpf(format!("open the BPF object {name}")))
}

pub(crate) fn load(object: libbpf_rs::OpenObject, what: &str) -> Result<libbpf_rs::Object> {
    object.load().map_err(bpf(format!("load {what}")))
}
