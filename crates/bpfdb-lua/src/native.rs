//! Functions of C around those of sandbox.lua and of Lua: what they raise names the line of the
//! script that has called them, as `luaL_where()` has it, and no line of the sandbox.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua, Table, Value};

use crate::call::Link;

/// Adds them to what sandbox.lua is given.
pub(crate) fn add(lua: &Lua, host: &Table, link: &Rc<Link>) -> mlua::Result<()> {
    // SAFETY: the functions do what those of C must: they keep nothing that would have to be given
    // back when Lua leaves them by an error.
    unsafe {
        host.set("native", lua.create_c_function(native)?)?;
        host.set("either", lua.create_c_function(make_either)?)?;
        host.set("less", lua.create_c_function(less)?)?;
        host.set("protected", lua.create_c_function(make_protected)?)?;
    }
    host.set("random", random_of(lua, link)?)
}

/// What Lua calls the type of this.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// `native(f)`: a function of C that calls `f`.
unsafe extern "C-unwind" fn native(state: *mut lua_State) -> c_int {
    unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
        // SAFETY: the one upvalue is a function.
        unsafe { call_upvalue(state, 1) }
    }
    // SAFETY: the one argument becomes the upvalue.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::lua_pushcclosure(state, call, 1);
    }
    1
}

/// Calls the function that is this upvalue with all arguments, and returns what it does.
///
/// # Safety
/// Called by Lua, with room for 20 values beside the arguments.
unsafe fn call_upvalue(state: *mut lua_State, number: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(number));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}

/// The upvalues of `either`. The first one is that of the function of C itself, if it has one.
const FUNCTION: c_int = 2;
const TEST: c_int = 3;
const OTHER: c_int = 4;

/// `either(upvalue, f, test, other)`: a function that does what `other` does if `test` says so of the
/// first two arguments, and else what `f` does, which is one of C: that runs in the frame of this
/// one.
unsafe extern "C-unwind" fn make_either(state: *mut lua_State) -> c_int {
    // SAFETY: the four arguments become the upvalues.
    unsafe {
        ffi::lua_settop(state, OTHER);
        ffi::lua_pushcclosure(state, either, OTHER);
    }
    1
}

unsafe extern "C-unwind" fn either(state: *mut lua_State) -> c_int {
    // SAFETY: make_either() gave the upvalues. Lua gives room for 20 values beside the arguments.
    unsafe {
        let count = ffi::lua_gettop(state);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(TEST));
        for argument in 1..=2 {
            if argument <= count {
                ffi::lua_pushvalue(state, argument);
            } else {
                ffi::lua_pushnil(state);
            }
        }
        ffi::lua_call(state, 2, 1);
        let is_other = ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_settop(state, count);
        if is_other {
            return call_upvalue(state, OTHER);
        }
        match ffi::lua_tocfunction(state, ffi::lua_upvalueindex(FUNCTION)) {
            Some(function) => function(state),
            None => 0,
        }
    }
}

/// `protected(pcall)`: a `pcall` as that of Redis, which runs in the frame of this one.
unsafe extern "C-unwind" fn make_protected(state: *mut lua_State) -> c_int {
    // SAFETY: the one argument becomes the upvalue.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::lua_pushcclosure(state, protected, 1);
    }
    1
}

/// An error that a command raised is a table; a script has always been given its text. Any other table
/// is given with what stands in the place of the text behind it.
unsafe extern "C-unwind" fn protected(state: *mut lua_State) -> c_int {
    // SAFETY: make_protected() gave the upvalue. There is room: of an error two values are left.
    unsafe {
        let Some(pcall) = ffi::lua_tocfunction(state, ffi::lua_upvalueindex(1)) else {
            return 0;
        };
        let count = pcall(state);
        let is_table = || ffi::lua_type(state, -1) == ffi::LUA_TTABLE;
        if ffi::lua_toboolean(state, -count) != 0 || !is_table() {
            return count;
        }
        ffi::lua_getfield(state, -1, c"err".as_ptr());
        if ffi::lua_isstring(state, -1) == 0 {
            return count + 1;
        }
        ffi::lua_replace(state, -2);
        count
    }
}

/// `less(a, b)`: as `table.sort` compares. What cannot be compared is no error of a line.
unsafe extern "C-unwind" fn less(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe {
        ffi::lua_settop(state, 2);
        let is_less = ffi::lua_lessthan(state, 1, 2);
        ffi::lua_pushboolean(state, is_less);
    }
    1
}

/// `math.random`, with the numbers of Redis.
fn random_of(lua: &Lua, link: &Rc<Link>) -> mlua::Result<Function> {
    unsafe extern "C-unwind" fn make(state: *mut lua_State) -> c_int {
        // SAFETY: the two arguments become the upvalues: where the link is, and its owner.
        unsafe { ffi::lua_pushcclosure(state, random, 2) };
        1
    }
    let address = LightUserData(Rc::as_ptr(link).cast_mut().cast::<c_void>());
    let owner = lua.create_any_userdata(Rc::clone(link))?;
    // SAFETY: as those above.
    unsafe { lua.create_c_function(make)? }.call((address, owner))
}

unsafe extern "C-unwind" fn random(state: *mut lua_State) -> c_int {
    const MOST: u32 = (1 << 31) - 1;
    const EMPTY: &std::ffi::CStr = c"interval is empty";
    // SAFETY: called by Lua; the owner is an upvalue, so the link is there. Only numbers are kept
    // when Lua leaves this by an error.
    unsafe {
        let link: *const Link = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast();
        let drawn = f64::from((*link).draw() % MOST) / f64::from(MOST);
        let whole = |place| f64::from(ffi::luaL_checkinteger(state, place) as i32);
        let number = match ffi::lua_gettop(state) {
            0 => drawn,
            1 => {
                let high = whole(1);
                if high < 1.0 {
                    return ffi::luaL_argerror(state, 1, EMPTY.as_ptr());
                }
                (drawn * high).floor() + 1.0
            }
            2 => {
                let (low, high) = (whole(1), whole(2));
                if low > high {
                    return ffi::luaL_argerror(state, 2, EMPTY.as_ptr());
                }
                (drawn * (high - low + 1.0)).floor() + low
            }
            _ => return ffi::luaL_error(state, c"wrong number of arguments".as_ptr()),
        };
        ffi::lua_pushnumber(state, number);
    }
    1
}
