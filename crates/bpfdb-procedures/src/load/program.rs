//! The template with one function replaced: assembled, verified, loaded.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::raw::c_char;

use super::info::info;
use super::template::Template;
use crate::code::{Code, Instruction};
use crate::error::{Error, Result};

/// The function of the template that the generated one replaces.
const BODY: &str = "body";
/// Name in the kernel, at most 15 bytes.
const NAME: &str = "bpfdb_procedure";
/// Bytes of the verifier's log, and how much of its end an error shows.
const LOG_BYTES: usize = 16 << 20;
const LOG_SHOWN: usize = 2000;

/// A program in the kernel; it goes with its last user.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    /// Instructions that the verifier processed.
    pub verified: u32,
    /// Bytes of machine code.
    pub machine_code: u32,
    /// Instructions of the generated function.
    pub generated: u32,
}

impl Program {
    /// Has the kernel verify and load the template with `code` as its body.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TooMuch`] if the verifier does not accept it.
    pub fn load(template: &Template, code: &Code) -> Result<Self> {
        let assembled = Assembled::of(template, code)?;
        let mut none = Vec::new();
        // The log takes longer than everything else: it is asked for when there is need.
        let fd = match assembled.load(template, &mut none) {
            Ok(fd) => fd,
            Err(_) => assembled.load_explained(template)?,
        };
        let info = info(fd.as_fd())?;
        Ok(Self {
            fd,
            verified: info.verified_insns,
            machine_code: info.jited_prog_len,
            generated: code.instructions.len() as u32,
        })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the kernel is given.
struct Assembled {
    instructions: Vec<libbpf_sys::bpf_insn>,
    functions: Vec<libbpf_sys::bpf_func_info>,
    lines: Vec<libbpf_sys::bpf_line_info>,
}

impl Assembled {
    /// Puts the functions that are reached one behind the other.
    fn of(template: &Template, code: &Code) -> Result<Self> {
        let body = template.function(BODY)?;
        let calls = code
            .calls
            .iter()
            .map(|&(at, name)| Ok((at, template.function(name)?)))
            .collect::<Result<Vec<_>>>()?;
        let references = |function: usize| match function == body {
            true => &calls,
            false => &template.functions[function].references,
        };
        let instructions = |function: usize| match function == body {
            true => &code.instructions,
            false => &template.functions[function].instructions,
        };
        // The kernel moves whatever lies behind each instruction that it replaces by several, which
        // the generated function has few of: it comes first of those that are called.
        let mut order = reached(references);
        order.sort_by_key(|&function| (function != 0, function != body, function));
        let mut starts = HashMap::new();
        let mut end = 0;
        for &function in &order {
            starts.insert(function, end);
            end += instructions(function).len();
        }
        let mut all = Self {
            instructions: Vec::with_capacity(end),
            functions: Vec::new(),
            lines: Vec::new(),
        };
        for function in order {
            let start = starts[&function];
            let mut own = instructions(function).clone();
            for &(at, target) in references(function) {
                own[at].imm = (starts[&target] as i64 - (start + at) as i64 - 1) as i32;
            }
            all.add(template, function, start, &own, function == body);
        }
        Ok(all)
    }

    fn add(
        &mut self,
        template: &Template,
        function: usize,
        start: usize,
        own: &[Instruction],
        is_body: bool,
    ) {
        let function = &template.functions[function];
        self.functions.push(function.info(start));
        // Of the body one line, which the verifier wants for a function's first instruction.
        let lines = match is_body {
            true => &function.lines[..function.lines.len().min(1)],
            false => &function.lines[..],
        };
        self.lines
            .extend(lines.iter().map(|line| libbpf_sys::bpf_line_info {
                insn_off: line.insn_off + start as u32,
                ..*line
            }));
        self.instructions.extend(own.iter().map(raw));
    }

    /// `log`: room for what the verifier says, or none.
    fn load(&self, template: &Template, log: &mut Vec<u8>) -> io::Result<OwnedFd> {
        let name = CString::new(NAME).expect("it has no zero");
        let license = c"Dual MIT/GPL";
        let mut options = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
            expected_attach_type: template.caller.attach_type,
            prog_flags: template.caller.flags,
            prog_btf_fd: template.btf_fd() as u32,
            func_info: self.functions.as_ptr().cast(),
            func_info_cnt: self.functions.len() as u32,
            func_info_rec_size: size_of::<libbpf_sys::bpf_func_info>() as u32,
            line_info: self.lines.as_ptr().cast(),
            line_info_cnt: self.lines.len() as u32,
            line_info_rec_size: size_of::<libbpf_sys::bpf_line_info>() as u32,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: match log.is_empty() {
                true => std::ptr::null_mut(),
                false => log.as_mut_ptr().cast::<c_char>(),
            },
            ..Default::default()
        };
        // SAFETY: all pointers lead to memory that lives until the call is over.
        let fd = unsafe {
            libbpf_sys::bpf_prog_load(
                template.caller.program_type,
                name.as_ptr(),
                license.as_ptr(),
                self.instructions.as_ptr(),
                self.instructions.len() as libbpf_sys::size_t,
                &raw mut options,
            )
        };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: a new descriptor that is not shared.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Once more, with a log. What was refused for a reason that has passed is loaded now.
    fn load_explained(&self, template: &Template) -> Result<OwnedFd> {
        let mut log = vec![0; LOG_BYTES];
        self.load(template, &mut log).map_err(|error| {
            let len = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let shown = &log[len.saturating_sub(LOG_SHOWN)..len];
            Error::refused(error, &String::from_utf8_lossy(shown))
        })
    }
}

/// The functions that the first one reaches.
fn reached<'a>(references: impl Fn(usize) -> &'a Vec<(usize, usize)>) -> Vec<usize> {
    let mut all = vec![0];
    let mut next = 0;
    while next < all.len() {
        for &(_, target) in references(all[next]) {
            if !all.contains(&target) {
                all.push(target);
            }
        }
        next += 1;
    }
    all
}

fn raw(instruction: &Instruction) -> libbpf_sys::bpf_insn {
    let mut raw = libbpf_sys::bpf_insn {
        code: instruction.code,
        off: instruction.off,
        imm: instruction.imm,
        ..Default::default()
    };
    raw.set_dst_reg(instruction.dst);
    raw.set_src_reg(instruction.src);
    raw
}
