//! `bit`: operations on the 32 bits of a number, as LuaBitOp defines them.

use mlua::{Lua, Table, Variadic};

/// A number's lowest 32 bits, of the nearest integer.
fn bits(value: f64) -> u32 {
    // Adding this leaves the nearest integer in the lower bits of a double.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    (value + ROUNDER).to_bits() as u32
}

/// Numbers are signed.
fn number(bits: u32) -> f64 {
    f64::from(bits as i32)
}

pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let unary = |name: &str, f: fn(u32) -> u32| {
        table.set(
            name,
            lua.create_function(move |_, a: f64| Ok(number(f(bits(a)))))?,
        )
    };
    unary("tobit", |a| a)?;
    unary("bnot", |a| !a)?;
    unary("bswap", u32::swap_bytes)?;
    let folding = |name: &str, f: fn(u32, u32) -> u32| {
        let fold = move |_: &Lua, (first, others): (f64, Variadic<f64>)| {
            Ok(number(others.iter().map(|&b| bits(b)).fold(bits(first), f)))
        };
        table.set(name, lua.create_function(fold)?)
    };
    folding("band", |a, b| a & b)?;
    folding("bor", |a, b| a | b)?;
    folding("bxor", |a, b| a ^ b)?;
    let shift = |name: &str, f: fn(u32, u32) -> u32| {
        let shift = move |_: &Lua, (a, n): (f64, f64)| Ok(number(f(bits(a), bits(n) & 31)));
        table.set(name, lua.create_function(shift)?)
    };
    shift("lshift", |a, n| a << n)?;
    shift("rshift", |a, n| a >> n)?;
    shift("arshift", |a, n| ((a as i32) >> n) as u32)?;
    shift("rol", u32::rotate_left)?;
    shift("ror", u32::rotate_right)?;
    table.set(
        "tohex",
        lua.create_function(|_, (a, n): (f64, Option<f64>)| Ok(hex(bits(a), n)))?,
    )?;
    Ok(table)
}

/// That many of the lower digits; negative: in capitals.
fn hex(value: u32, digits: Option<f64>) -> String {
    let wanted = digits.map_or(8, |digits| bits(digits) as i32);
    let count = wanted.unsigned_abs().min(8) as usize;
    let all = if wanted < 0 {
        format!("{value:08X}")
    } else {
        format!("{value:08x}")
    };
    all[8 - count..].to_owned()
}
