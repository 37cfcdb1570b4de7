//! Lua's compiler, a few bytes at a time.
//!
//! The compiler walks lists of jumps and of names that a text can make as long as it is itself: its
//! time grows with the square of the text's length, and no hook runs meanwhile. So it is handed the
//! text in small pieces, and before each the clock is looked at. Within a call others are served;
//! outside of one, where it cannot be, a text that takes too long is refused.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, LuaString, MultiValue, Value};

use crate::call::Link;
use crate::work::Cut;

/// Bytes of a piece. Of the worst text each word may walk a list of 100,000 places, which takes some
/// 100 microseconds.
const PIECE: usize = 32;
/// Processor time for which a text may be compiled outside of a call. One of a megabyte that means no
/// harm takes up to 50 ms.
const ALONE_MAX: Duration = Duration::from_millis(250);
/// What a compiled chunk begins with: it could break Lua itself.
const BINARY: u8 = 27;

/// Why a text was not compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// What is wrong with it, with the line.
    Syntax(Vec<u8>),
    Memory,
    /// The call was stopped.
    Stopped,
    /// It would take too long.
    Slow,
}

impl Problem {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Syntax(text) => text,
            Self::Memory => b"not enough memory",
            Self::Stopped => b"the script was stopped",
            Self::Slow => b"it takes too long to compile",
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// What this thread has had.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock is there, and writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Reader<'a> {
    rest: &'a [u8],
    link: &'a Link,
    begun: (Instant, Duration),
    /// Why it has ended early.
    cut: Option<Problem>,
}

impl Reader<'_> {
    fn look(&self) -> Option<Problem> {
        if self.link.is_running() {
            return self.link.look().then_some(Problem::Stopped);
        }
        // The first clock costs less.
        let (begun, time) = self.begun;
        let is_slow = begun.elapsed() > ALONE_MAX && processor_time() - time > ALONE_MAX;
        is_slow.then_some(Problem::Slow)
    }
}

/// The next piece; none at the end.
unsafe extern "C-unwind" fn read(
    _: *mut lua_State,
    reader: *mut c_void,
    size: *mut usize,
) -> *const c_char {
    // SAFETY: lua_load() hands on what compile() gave it, which is there until it returns.
    let (reader, size) = unsafe { (&mut *reader.cast::<Reader<'_>>(), &mut *size) };
    if reader.cut.is_none() && !reader.rest.is_empty() {
        reader.cut = reader.look();
    }
    let length = match reader.cut {
        Some(_) => 0,
        None => reader.rest.len().min(PIECE),
    };
    let (piece, rest) = reader.rest.split_at(length);
    reader.rest = rest;
    *size = length;
    piece.as_ptr().cast()
}

/// The function that a text is.
pub(crate) fn compile(
    lua: &Lua,
    link: &Link,
    text: &[u8],
    name: &CStr,
) -> Result<Function, Problem> {
    if text.first() == Some(&BINARY) {
        return Err(Problem::Syntax(b"attempt to load a binary chunk".to_vec()));
    }
    let mut reader = Reader {
        rest: text,
        link,
        begun: (Instant::now(), processor_time()),
        cut: None,
    };
    let data = (&raw mut reader).cast::<c_void>();
    // SAFETY: the reader is there until lua_load() returns, which leaves one value. Errors within it
    // are its status.
    let loaded: mlua::Result<(c_int, Value)> = unsafe {
        lua.exec_raw((), |state| {
            let status = ffi::lua_load(state, read, data, name.as_ptr());
            ffi::lua_pushinteger(state, status.into());
            ffi::lua_insert(state, 1);
        })
    };
    if let Some(problem) = reader.cut {
        return Err(problem);
    }
    match loaded {
        Ok((ffi::LUA_OK, Value::Function(function))) => Ok(function),
        Ok((ffi::LUA_ERRSYNTAX, Value::String(message))) => {
            Err(Problem::Syntax(message.as_bytes().to_vec()))
        }
        _ => Err(Problem::Memory),
    }
}

/// `compile(text, name)` of the sandbox: as Lua's loadstring with two strings.
pub(crate) fn library(lua: &Lua, link: &Rc<Link>) -> mlua::Result<Function> {
    let link = Rc::clone(link);
    lua.create_function(move |lua, (text, name): (LuaString, LuaString)| {
        let (text, name) = (text.as_bytes(), name.as_bytes());
        let end = name.iter().position(|&byte| byte == 0);
        let name = CString::new(&name[..end.unwrap_or(name.len())]).unwrap_or_default();
        let values = match compile(lua, &link, &text, &name) {
            Ok(function) => vec![Value::Function(function)],
            Err(Problem::Stopped) => return Err(Cut::Stopped.into()),
            Err(problem) => vec![
                Value::Nil,
                Value::String(lua.create_string(problem.bytes())?),
            ],
        };
        Ok(MultiValue::from_vec(values))
    })
}
