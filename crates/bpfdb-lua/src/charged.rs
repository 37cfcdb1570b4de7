//! Functions of Lua's libraries whose time grows with what they are given: each call counts as so
//! many pieces of work. A hook looks at the clock after a number of instructions, and hundreds of
//! such calls, of milliseconds each, fit between two looks.
//!
//! The function itself is called in the frame of the one that counts: so its errors name the
//! function that the script has called, and the line.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua};

use crate::call::Link;
use crate::limits::Limits;
use crate::work::{PIECE_BYTES, Work};

/// The upvalues: where the [`Work`] is, the function, and pieces of work that each call is at least.
/// The second is who owns the work.
const WORK: c_int = 1;
const FUNCTION: c_int = 3;
const LEAST: c_int = 4;

/// Makes functions of C without upvalues count: `charged(f)` in sandbox.lua, or `charged(f, least)`.
pub(crate) fn maker(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Function> {
    let work = Rc::new(RefCell::new(Work::new(link, limits.memory)));
    let address = LightUserData(Rc::as_ptr(&work).cast_mut().cast::<c_void>());
    let owner = lua.create_any_userdata(work)?;
    // SAFETY: the functions do what those of C must: they keep nothing that would have to be given
    // back when Lua leaves them by an error.
    let make = unsafe { lua.create_c_function(make)? };
    make.bind((address, owner))
}

/// Of the upvalues.
unsafe extern "C-unwind" fn make(state: *mut lua_State) -> c_int {
    // SAFETY: called with three arguments or four, which become the upvalues.
    unsafe {
        ffi::lua_settop(state, LEAST);
        ffi::lua_pushcclosure(state, charged, LEAST);
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
        let pieces = pieces(state).saturating_add(usize::try_from(least).unwrap_or(0));
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
