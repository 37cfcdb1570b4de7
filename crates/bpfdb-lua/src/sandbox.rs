//! The functions of Rust behind `sandbox.lua`, and what that gives back.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, LuaOptions, StdLib, Table};

use crate::call::{Answer, Link, Step};
use crate::limits::Limits;
use crate::reply;
use crate::sha1::Sha1;
use crate::work::Work;
use crate::{answer, bit, charged, compile, json, matching, msgpack, native, pack};

/// The version of Redis whose scripts are understood.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: u32 = 0x0007_000f;

/// Bytes of which the sum is a piece of work.
const SUMMED: usize = 8;

/// What `sandbox.lua` returns.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// `run_script(f, keys, arguments)`: true and a value, or false and a table that explains.
    pub(crate) run_script: Function,
    /// `load_library(chunk)`: true and an array of functions, or false and the same table.
    pub(crate) load_library: Function,
    /// `run_function(f, keys, arguments)`: as `run_script`.
    pub(crate) run_function: Function,
}

/// A new state of Lua, and what is called in it.
pub(crate) fn create(limits: &Limits, link: &Rc<Link>) -> mlua::Result<(Lua, Sandbox)> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let options = LuaOptions::new().catch_rust_panics(false);
    // SAFETY: the library `debug` may break Lua's rules; only sandbox.lua has it, which asks it
    // for lines.
    let lua = unsafe { Lua::unsafe_new_with(libraries | StdLib::DEBUG, options) };
    let host = host(&lua, limits, link)?;
    let made: Table = lua
        .load(include_str!("sandbox.lua"))
        .set_name("=sandbox")
        .call(host)?;
    let sandbox = Sandbox {
        run_script: made.get("run_script")?,
        load_library: made.get("load_library")?,
        run_function: made.get("run_function")?,
    };
    lua.set_memory_limit(limits.memory)?;
    Ok((lua, sandbox))
}

/// What sandbox.lua is given.
fn host(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.set("version", VERSION)?;
    host.set("version_number", VERSION_NUMBER)?;
    host.set("bit", bit::library(lua)?)?;
    host.set("cjson", json::library(lua, limits, link)?)?;
    host.set("new_json", json::new(lua, limits, link)?)?;
    host.set("cmsgpack", msgpack::library(lua, limits, link)?)?;
    host.set("matching", matching::library(lua, limits, link)?)?;
    host.set("struct", pack::library(lua, limits, link)?)?;
    let work = RefCell::new(Work::new(link, limits.memory));
    let sha1hex = move |_: &Lua, text: mlua::LuaString| {
        let text = text.as_bytes();
        work.borrow_mut().pieces(text.len() / SUMMED, 0)?;
        Ok(Sha1::of(&text).to_string())
    };
    host.set("sha1hex", lua.create_function(sha1hex)?)?;
    let stops = Rc::clone(link);
    host.set(
        "stops",
        lua.create_function(move |_, ()| Ok(stops.stops()))?,
    )?;
    host.set("compile", compile::library(lua, link)?)?;
    host.set("charged", charged::maker(lua, limits, link)?)?;
    let error_text =
        |lua: &Lua, text: mlua::LuaString| lua.create_string(reply::error_text(&text.as_bytes()));
    host.set("error_text", lua.create_function(error_text)?)?;
    native::add(lua, &host, link)?;
    add_seed(lua, &host, link)?;
    add_calls(lua, &host, limits, link)?;
    Ok(host)
}

/// Bytes that a word of a command takes, beside those of its text.
const WORD_BYTES: usize = size_of::<Vec<u8>>();
/// Bytes of the longest line of redis.log(), as in Redis.
const LINE_MAX: usize = 1023;

/// The words of a command, of at most so many bytes.
fn words_of(table: &Table, most: usize) -> mlua::Result<Vec<Vec<u8>>> {
    let mut bytes = 0;
    let mut words = Vec::new();
    for word in table.sequence_values::<mlua::LuaString>() {
        let word = word?;
        let word = word.as_bytes();
        bytes += word.len() + WORD_BYTES;
        if bytes > most {
            return Err(mlua::Error::runtime("not enough memory"));
        }
        words.push(word.to_vec());
    }
    Ok(words)
}

/// `command(words)`: the reply, and whether it is an error.
fn add_calls(lua: &Lua, host: &Table, limits: &Limits, link: &Rc<Link>) -> mlua::Result<()> {
    let inner = Rc::clone(link);
    let most = limits.memory;
    let command = move |lua: &Lua, words: Table| {
        let words = words_of(&words, most)?;
        let resp3 = inner.resp3.get();
        let bytes = match inner.leave(Step::Command { words, resp3 }) {
            Answer::Reply(bytes) => bytes,
            Answer::GoOn => Vec::new(),
        };
        answer::read(lua, &bytes, resp3, Work::new(&inner, most))
    };
    host.set("command", lua.create_function(command)?)?;
    let inner = Rc::clone(link);
    let setresp = move |_: &Lua, version: u8| {
        inner.resp3.set(version == 3);
        Ok(())
    };
    host.set("setresp", lua.create_function(setresp)?)?;
    let inner = Rc::clone(link);
    let log = move |_: &Lua, (level, text): (f64, mlua::LuaString)| {
        let text = text.as_bytes();
        let text = text[..text.len().min(LINE_MAX)].to_vec();
        inner.log(level as u8, text);
        Ok(())
    };
    host.set("log", lua.create_function(log)?)
}

/// Seeds the pseudo-random numbers of this call: the same ones follow in each call.
fn add_seed(lua: &Lua, host: &Table, link: &Rc<Link>) -> mlua::Result<()> {
    let inner = Rc::clone(link);
    let seed = move |_: &Lua, seed: f64| {
        inner.seed(crate::number::truncate(seed) as u32);
        Ok(())
    };
    host.set("randomseed", lua.create_function(seed)?)
}
