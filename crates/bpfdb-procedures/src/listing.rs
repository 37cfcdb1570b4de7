//! Generated instructions as text, beside the lines of Lua that they come from.
//!
//! ```text
//!   12 |   local n = redis.call('GET', KEYS[1])
//!      |        7: r3 = *(u64 *)(r6 +120)
//!      |        8: call rt_key
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::code::{Code, Instruction};

/// All lines of the text of which there is code, in the order of the code.
pub(crate) fn of(code: &Code, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let source: Vec<&str> = text.lines().collect();
    let calls: HashMap<usize, &str> = code.calls.iter().copied().collect();
    let starts: HashMap<usize, u32> = code.lines.iter().copied().collect();
    let mut listing = String::new();
    let mut at = 0;
    while let Some(instruction) = code.instructions.get(at) {
        if let Some(&line) = starts.get(&at) {
            let words = source.get(line as usize - 1).copied().unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(listing, "{line:>5} | {words}");
        }
        let next = code.instructions.get(at + 1);
        let words = match calls.get(&at) {
            Some(function) => format!("call {function}"),
            None => one(instruction, next, at),
        };
        let _ = writeln!(listing, "      | {at:>8}: {words}");
        at += if instruction.is_wide() { 2 } else { 1 };
    }
    listing
}

/// An instruction in the words of bpftool, nearly.
fn one(instruction: &Instruction, next: Option<&Instruction>, at: usize) -> String {
    let &Instruction {
        code,
        dst,
        src,
        off,
        imm,
    } = instruction;
    let by_register = code & 0x08 != 0;
    let operand = match by_register {
        true => format!("r{src}"),
        false => imm.to_string(),
    };
    let target = at as i64 + 1 + i64::from(off);
    match code & 0x07 {
        0x00 => {
            let high = next.map_or(0, |next| next.imm);
            let value = i64::from(high) << 32 | i64::from(imm as u32);
            format!("r{dst} = {value} ll")
        }
        0x01 => format!("r{dst} = *({} *)(r{src} {off:+})", width(code)),
        0x02 => format!("*({} *)(r{dst} {off:+}) = {imm}", width(code)),
        0x03 => format!("*({} *)(r{dst} {off:+}) = r{src}", width(code)),
        0x07 => format!("r{dst} {} {operand}", operation(code, off)),
        _ => match code {
            0x05 => format!("goto {target}"),
            0x95 => "exit".into(),
            0xe5 => format!("may_goto {target}"),
            _ => {
                let register = if code & 0x07 == 0x06 { 'w' } else { 'r' };
                let comparison = comparison(code);
                format!("if {register}{dst} {comparison} {operand} goto {target}")
            }
        },
    }
}

fn width(code: u8) -> &'static str {
    match code & 0x18 {
        0x00 => "u32",
        0x08 => "u16",
        0x10 => "u8",
        _ => "u64",
    }
}

fn operation(code: u8, off: i16) -> &'static str {
    match (code & 0xf0, off) {
        (0x00, _) => "+=",
        (0x10, _) => "-=",
        (0x20, _) => "*=",
        (0x30, 0) => "/=",
        (0x30, _) => "s/=",
        (0x50, _) => "&=",
        (0x60, _) => "<<=",
        (0x70, _) => ">>=",
        (0x90, 0) => "%=",
        (0x90, _) => "s%=",
        (0xa0, _) => "^=",
        (0xc0, _) => "s>>=",
        _ => "=",
    }
}

fn comparison(code: u8) -> &'static str {
    match code & 0xf0 {
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x50 => "!=",
        0x60 => "s>",
        0x70 => "s>=",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        _ => "s<=",
    }
}
