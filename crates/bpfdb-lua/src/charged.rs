//! Functions of Lua's libraries whose time grows with what they are given: each call counts as so
//! many pieces of work. A hook looks at the clock after a number of instructions, and hundreds of
//! such calls, of milliseconds each, fit between two looks.
//!
//! The function itself is called in the frame of the one that counts: so its errors name the
//! function that the script has called, and the line.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua};

use crate::call::Link;
use crate::limits::Limits;
use crate::work::{PIECE_BYTES, Work};

/// The upvalues: where the [`Work`] is, the function, pieces of work that each call is at least, and
/// a [`Range`] or nil. The second is the owner of the work.
const WORK: c_int = 1;
const FUNCTION: c_int = 3;
const LEAST: c_int = 4;
const RANGE: c_int = 5;

/// A range among the arguments: Lua's own function goes through it, whatever its length, and without
/// a look at the clock.
#[derive(Clone, Copy, Debug)]
enum Range {
    /// `unpack(t, first, last)`. Lua 5.1 computes its length in an `int` and takes one that has
    /// overflowed for none (CVE-2025-46817): it would write behind its stack.
    Unpack,
    /// `table.concat(t, separator, first, last)`. It ends at the first element that is not there.
    Concat,
    /// `table.insert(t, place, value)`, which moves all from the place on, though it may lie far
    /// before the first.
    Insert,
}

/// Elements that `unpack` returns at most: `LUAI_MAXCSTACK`, the room that a function may ask for.
const UNPACK_MAX: i64 = 8000;
/// Places before the first element that `table.insert` may go through: a millisecond or two.
const INSERT_MAX: i64 = 100_000;

impl Range {
    /// As sandbox.lua names it.
    ///
    /// # Safety
    /// Called by Lua.
    unsafe fn of(state: *mut lua_State, place: c_int) -> Option<Self> {
        // SAFETY: a string has bytes up to a zero.
        unsafe {
            if ffi::lua_type(state, place) != ffi::LUA_TSTRING {
                return None;
            }
            match CStr::from_ptr(ffi::lua_tostring(state, place)).to_bytes() {
                b"unpack" => Some(Self::Unpack),
                b"concat" => Some(Self::Concat),
                b"insert" => Some(Self::Insert),
                _ => None,
            }
        }
    }

    /// Its elements; or why there are too many, in Lua's words where it has some. What is not of the
    /// right types the function itself complains of.
    ///
    /// # Safety
    /// Called by Lua.
    unsafe fn len(self, state: *mut lua_State) -> Result<usize, &'static CStr> {
        // SAFETY: any number may be the place of an argument, and tables have a length.
        unsafe {
            if ffi::lua_type(state, 1) != ffi::LUA_TTABLE {
                return Ok(0);
            }
            let size = ffi::lua_objlen(state, 1) as i64;
            // An `int`, as the functions read it.
            let integer = |place, otherwise| match ffi::lua_isnoneornil(state, place) {
                0 => i64::from(ffi::lua_tointeger(state, place) as c_int),
                _ => otherwise,
            };
            let (first, last) = match self {
                Self::Unpack => (integer(2, 1), integer(3, size)),
                Self::Concat => (integer(3, 1), integer(4, size)),
                Self::Insert if ffi::lua_gettop(state) == 3 => (integer(2, 1), size),
                Self::Insert => return Ok(0),
            };
            match self {
                Self::Unpack if last - first >= UNPACK_MAX => Err(c"too many results to unpack"),
                Self::Insert if first < -INSERT_MAX => Err(c"position out of bounds"),
                _ => Ok(usize::try_from(last - first + 1).unwrap_or(0)),
            }
        }
    }
}

/// Makes functions of C without upvalues count: `charged(f)` in sandbox.lua, `charged(f, least)`, or
/// `charged(f, least, range)`.
pub(crate) fn maker(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Function> {
    let work = Rc::new(RefCell::new(Work::new(link, limits.memory)));
    let address = LightUserData(Rc::as_ptr(&work).cast_mut().cast::<c_void>());
    let owner = lua.create_any_userdata(work)?;
    // SAFETY: the functions do what those of C must: they keep nothing that would have to be given
    // back when Lua leaves them by an error.
    let make = unsafe { lua.create_c_function(make)? };
    make.bind((address, owner))
}

/// As in sandbox.lua.
const READONLY: &CStr = c"Attempt to modify a readonly table";

/// Is the first argument one of the empty tables of sandbox.lua that stand for others? Lua's own
/// function would write into it.
///
/// # Safety
/// Called by Lua, with room for a value beside the arguments.
unsafe fn stands_for_another(state: *mut lua_State) -> bool {
    // SAFETY: as above; what was pushed is taken away.
    unsafe {
        let is_marked = ffi::luaL_getmetafield(state, 1, c"__readonly".as_ptr()) != 0;
        if is_marked {
            ffi::lua_settop(state, -2);
        }
        is_marked
    }
}

/// Of the upvalues.
unsafe extern "C-unwind" fn make(state: *mut lua_State) -> c_int {
    // SAFETY: called with three arguments or more, which become the upvalues.
    unsafe {
        ffi::lua_settop(state, RANGE);
        ffi::lua_pushcclosure(state, charged, RANGE);
    }
    1
}

unsafe extern "C-unwind" fn charged(state: *mut lua_State) -> c_int {
    // SAFETY: make() gave the upvalues. The owner is one of them, so the work is there. Nothing is
    // borrowed when Lua leaves the function.
    unsafe {
        let work: *const RefCell<Work> =
            ffi::lua_touserdata(state, ffi::lua_upvalueindex(WORK)).cast();
        let least = ffi::lua_tointeger(state, ffi::lua_upvalueindex(LEAST));
        let mut pieces = pieces(state).saturating_add(usize::try_from(least).unwrap_or(0));
        if let Some(range) = Range::of(state, ffi::lua_upvalueindex(RANGE)) {
            if matches!(range, Range::Insert) && stands_for_another(state) {
                // In Redis it says no line.
                ffi::lua_pushstring(state, READONLY.as_ptr());
                ffi::lua_error(state);
            }
            match range.len(state) {
                Ok(len) => pieces = pieces.saturating_add(len),
                Err(problem) => {
                    ffi::luaL_error(state, c"%s".as_ptr(), problem.as_ptr());
                }
            }
        }
        let outcome = (*work).borrow_mut().pieces(pieces, 0);
        if let Err(cut) = outcome {
            ffi::luaL_error(state, c"%s".as_ptr(), cut.text().as_ptr());
        }
        match ffi::lua_tocfunction(state, ffi::lua_upvalueindex(FUNCTION)) {
            Some(function) => function(state),
            None => 0,
        }
    }
}

/// Elements of tables and bytes of strings among the arguments.
///
/// # Safety
/// Called by Lua.
unsafe fn pieces(state: *mut lua_State) -> usize {
    // SAFETY: these are the places of the arguments.
    unsafe {
        let arguments = 1..=ffi::lua_gettop(state);
        let each = arguments.map(|place| match ffi::lua_type(state, place) {
            ffi::LUA_TSTRING => ffi::lua_objlen(state, place) / PIECE_BYTES,
            ffi::LUA_TTABLE => ffi::lua_objlen(state, place),
            _ => 0,
        });
        each.fold(1, usize::saturating_add)
    }
}
