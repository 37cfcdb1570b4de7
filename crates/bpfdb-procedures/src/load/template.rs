//! The program that clang made and libbpf relocated, by functions.
//!
//! libbpf loads it once, with the maps of the engine that it is for. What it handed to the
//! kernel is kept: instructions, where functions begin, and the type information that is in
//! the kernel already. So a generated function is put into its place without a compiler, a
//! linker or an ELF file at run time. (bpfilter builds its programs from such stubs, too.)

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{AsRawLibbpf, Object, OpenProgramMut, Program};

use super::info::info;
use crate::code::Instruction;
use crate::error::{Error, Result};

/// A function of the template.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Of its type, in the template's BTF.
    type_id: u32,
    pub(crate) instructions: Vec<Instruction>,
    /// Which of them name other functions, and which.
    pub(crate) references: Vec<(usize, usize)>,
    /// Source line information: places count from the function's begin.
    pub(crate) lines: Vec<libbpf_sys::bpf_line_info>,
}

impl Function {
    pub(crate) fn info(&self, at: usize) -> libbpf_sys::bpf_func_info {
        libbpf_sys::bpf_func_info {
            insn_off: at as u32,
            type_id: self.type_id,
        }
    }
}

/// What a program is, for the kernel: one and what it enters by a tail call have to agree in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) program_type: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
}

/// Flags of a program that those agree in which it enters.
const SHARED_FLAGS: u32 = libbpf_sys::BPF_F_XDP_HAS_FRAGS;

impl Caller {
    fn of(program: &Program<'_>) -> Self {
        let raw = program.as_libbpf_object().as_ptr();
        // SAFETY: the program lives as long as its object.
        unsafe {
            Self {
                program_type: libbpf_sys::bpf_program__type(raw),
                attach_type: libbpf_sys::bpf_program__expected_attach_type(raw),
                flags: libbpf_sys::bpf_program__flags(raw),
            }
        }
    }
}

/// Makes a program of a template, which is not loaded yet, one that `caller`, which is, can enter
/// by a tail call.
///
/// # Errors
/// [`Error::Sleeps`], [`Error::Caller`] if there is no such program.
pub(crate) fn as_called_from(program: &OpenProgramMut<'_>, caller: &Program<'_>) -> Result<()> {
    let own = Caller::of(caller);
    if own.flags & libbpf_sys::BPF_F_SLEEPABLE != 0 {
        return Err(Error::Sleeps);
    }
    if info(caller.as_fd())?.attach_btf_id != 0 {
        return Err(Error::Caller);
    }
    let raw = program.as_libbpf_object().as_ptr();
    // SAFETY: the program lives as long as its object, and was not loaded.
    unsafe {
        libbpf_sys::bpf_program__set_type(raw, own.program_type);
        libbpf_sys::bpf_program__set_expected_attach_type(raw, own.attach_type);
        libbpf_sys::bpf_program__set_flags(raw, own.flags & SHARED_FLAGS);
    }
    Ok(())
}

/// A program whose function `body` is to be replaced.
#[derive(Debug)]
pub struct Template {
    pub(crate) functions: Vec<Function>,
    pub(crate) caller: Caller,
    btf: OwnedFd,
    /// Instructions name maps by descriptors: those of the object, which is kept.
    _object: Object,
}

fn damaged(what: impl Into<String>) -> Error {
    Error::Template(what.into())
}

impl Template {
    /// Takes the program `name` of an object that was loaded.
    ///
    /// # Errors
    /// [`Error::Template`] if the object is not what it should be.
    pub fn new(object: Object, name: &str) -> Result<Self> {
        let program = object
            .progs()
            .find(|program| program.name() == name)
            .ok_or_else(|| damaged(format!("no program {name}")))?;
        let instructions: Vec<Instruction> = program.insns().iter().map(of_raw).collect();
        let raw = program.as_libbpf_object().as_ptr();
        // SAFETY: the program lives as long as the object; libbpf gives an array and its length.
        let (functions, lines) = unsafe {
            (
                slice(
                    libbpf_sys::bpf_program__func_info(raw),
                    libbpf_sys::bpf_program__func_info_cnt(raw),
                ),
                slice(
                    libbpf_sys::bpf_program__line_info(raw),
                    libbpf_sys::bpf_program__line_info_cnt(raw),
                ),
            )
        };
        let caller = Caller::of(&program);
        let functions = divide(&object, &instructions, &functions, &lines)?;
        Ok(Self {
            functions,
            caller,
            btf: btf_of(&object)?,
            _object: object,
        })
    }

    pub(crate) fn function(&self, name: &str) -> Result<usize> {
        self.functions
            .iter()
            .position(|function| function.name == name)
            .ok_or_else(|| damaged(format!("no function {name}")))
    }

    pub(crate) fn btf_fd(&self) -> i32 {
        self.btf.as_raw_fd()
    }
}

/// # Safety
/// `first` points to so many elements, or there are none.
unsafe fn slice<T: Clone>(first: *const T, count: u32) -> Vec<T> {
    if first.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(first, count as usize) }.to_vec()
}

fn of_raw(raw: &libbpf_sys::bpf_insn) -> Instruction {
    Instruction {
        code: raw.code,
        dst: raw.dst_reg(),
        src: raw.src_reg(),
        off: raw.off,
        imm: raw.imm,
    }
}

/// The functions of the program, in its order.
fn divide(
    object: &Object,
    instructions: &[Instruction],
    infos: &[libbpf_sys::bpf_func_info],
    lines: &[libbpf_sys::bpf_line_info],
) -> Result<Vec<Function>> {
    let starts: Vec<usize> = infos.iter().map(|info| info.insn_off as usize).collect();
    let numbers: HashMap<usize, usize> = starts
        .iter()
        .enumerate()
        .map(|(number, &start)| (start, number))
        .collect();
    infos
        .iter()
        .enumerate()
        .map(|(number, info)| {
            let start = starts[number];
            let end = starts
                .get(number + 1)
                .copied()
                .unwrap_or(instructions.len());
            let own = instructions
                .get(start..end)
                .ok_or_else(|| damaged("functions overlap"))?;
            Ok(Function {
                name: name_of(object, info.type_id)?,
                type_id: info.type_id,
                instructions: own.to_vec(),
                references: references(own, start, &numbers)?,
                lines: lines
                    .iter()
                    .filter(|line| (start..end).contains(&(line.insn_off as usize)))
                    .map(|line| libbpf_sys::bpf_line_info {
                        insn_off: line.insn_off - start as u32,
                        ..*line
                    })
                    .collect(),
            })
        })
        .collect()
}

/// Which instructions of a function that begins at `start` name others.
fn references(
    own: &[Instruction],
    start: usize,
    numbers: &HashMap<usize, usize>,
) -> Result<Vec<(usize, usize)>> {
    own.iter()
        .enumerate()
        .filter(|(_, instruction)| instruction.refers())
        .map(|(at, instruction)| {
            let target = (start + at) as i64 + 1 + i64::from(instruction.imm);
            let number = usize::try_from(target)
                .ok()
                .and_then(|target| numbers.get(&target))
                .ok_or_else(|| damaged("a call into the midst of a function"))?;
            Ok((at, *number))
        })
        .collect()
}

fn name_of(object: &Object, type_id: u32) -> Result<String> {
    // SAFETY: the object lives, and libbpf answers NULL to an id that it does not know.
    unsafe {
        let btf = libbpf_sys::bpf_object__btf(object.as_libbpf_object().as_ptr());
        let kind = libbpf_sys::btf__type_by_id(btf, type_id);
        if kind.is_null() {
            return Err(damaged("a function without a type"));
        }
        let name = libbpf_sys::btf__name_by_offset(btf, (*kind).name_off);
        Ok(CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Another descriptor for the type information that libbpf has loaded.
fn btf_of(object: &Object) -> Result<OwnedFd> {
    // SAFETY: the object lives.
    let fd = unsafe { libbpf_sys::bpf_object__btf_fd(object.as_libbpf_object().as_ptr()) };
    if fd < 0 {
        return Err(damaged("no type information in the kernel"));
    }
    // SAFETY: the descriptor is the object's, which lives.
    unsafe { BorrowedFd::borrow_raw(fd) }
        .try_clone_to_owned()
        .map_err(|error| Error::System {
            what: "keep the type information of the template",
            error,
        })
}
