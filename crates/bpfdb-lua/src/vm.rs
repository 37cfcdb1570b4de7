//! One state of Lua, and what it has compiled.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use mlua::{Function, HookTriggers, Lua, Table, Value, VmState};

use crate::call::{Call, Failure, Link};
use crate::compile::{self, Problem};
use crate::library::{Libraries, Registered, Source};
use crate::limits::Limits;
use crate::random::Random;
use crate::reply::{FromLua, Reply, Unfit, until_zero};
use crate::sandbox::{self, Sandbox};
use crate::sha1::Sha1;
use crate::work::Work;

/// Compiled scripts that are kept; then all are forgotten, and compiled again when they are
/// called. Redis 7.4 keeps as many that came by EVAL.
const SCRIPTS_MAX: usize = 500;

/// A state of Lua. It runs one call at a time; several states run calls side by side.
#[derive(Debug)]
pub struct Vm {
    lua: Lua,
    sandbox: Sandbox,
    link: Rc<Link>,
    limits: Limits,
    scripts: HashMap<Sha1, Function>,
    libraries: Libraries,
}

impl Vm {
    /// A state with random numbers of its own.
    ///
    /// # Errors
    /// The memory is not enough for the libraries alone.
    pub fn new(limits: Limits) -> Result<Self, Failure> {
        Self::sharing(limits, &Rc::default())
    }

    /// A state whose scripts draw from these random numbers, as those of other states do.
    ///
    /// # Errors
    /// As above.
    pub fn sharing(limits: Limits, random: &Rc<Random>) -> Result<Self, Failure> {
        let link = Rc::new(Link::new(random));
        let made = sandbox::create(&limits, &link).and_then(|made| {
            set_hook(&made.0, &link, Limits::INSTRUCTIONS_BETWEEN_LOOKS).map(|()| made)
        });
        let (lua, sandbox) = made.map_err(|error| failure(&error, &link))?;
        Ok(Self {
            lua,
            sandbox,
            link,
            limits,
            scripts: HashMap::new(),
            libraries: Libraries::default(),
        })
    }

    /// Is a call of it on its way?
    pub fn is_running(&self) -> bool {
        self.link.is_running()
    }

    /// Functions of the libraries that it has loaded. It has room for some thousands.
    pub fn registered(&self) -> usize {
        self.libraries.registered()
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Bytes that it takes when what is not needed is removed, if these are more than so many: what
    /// compiling leaves behind, say. Not while a call is on its way.
    pub fn memory_collected(&self, most: usize) -> usize {
        self.collect(most);
        self.memory()
    }

    fn collect(&self, most: usize) {
        if self.lua.used_memory() > most {
            // Finalizers that fail are those of the script.
            let _ = self.lua.gc_collect();
        }
    }

    /// A call that met the limit has left its garbage behind: the next one shall have its place.
    fn make_room(&self) {
        self.collect(self.limits.memory / 2);
    }

    /// Compiles a script, unless that was done.
    ///
    /// # Errors
    /// What is wrong with its text, with the line.
    pub fn compile(&mut self, name: Sha1, text: &[u8]) -> Result<(), String> {
        if self.scripts.contains_key(&name) {
            return Ok(());
        }
        if self.scripts.len() >= SCRIPTS_MAX {
            self.scripts.clear();
        }
        self.make_room();
        let text = without_shebang(text);
        let function = compile::compile(&self.lua, &self.link, text, c"@user_script")
            .map_err(|problem| problem.text())?;
        self.scripts.insert(name, function);
        Ok(())
    }

    /// A call of a script that was compiled. `None` if it was not, or was forgotten.
    pub fn call_script(
        &mut self,
        name: Sha1,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Option<Call> {
        let script = self.scripts.get(&name)?.clone();
        let run = self.sandbox.run_script.clone();
        let invocation = self.invocation(keys, arguments);
        self.call(move || invocation.run(&run, script, &name.to_string()))
    }

    /// A call that loads a library and does nothing else. After its end
    /// [`functions`](Self::functions) has what the library has registered. `None`: no memory.
    pub fn load_library(&mut self, library: Source) -> Option<Call> {
        let loading = self.loading(library);
        self.call(move || loading.run().map(|()| Reply::Nil))
    }

    /// What a library has registered, if it is loaded.
    pub fn functions(&self, library: Sha1) -> Option<Vec<Registered>> {
        self.libraries.functions(library)
    }

    /// A call of a function of a library, which is loaded first if it has to be. `None`: no
    /// memory.
    pub fn call_function(
        &mut self,
        library: Source,
        function: &[u8],
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Option<Call> {
        let (libraries, sha1) = (self.libraries.clone(), library.sha1);
        let loading = self.loading(library);
        let invocation = self.invocation(keys, arguments);
        let run = self.sandbox.run_function.clone();
        let function = function.to_vec();
        self.call(move || {
            if !libraries.has(sha1) {
                loading.run()?;
            }
            let name = String::from_utf8_lossy(&function).into_owned();
            match libraries.function(sha1, &function) {
                Some(found) => invocation.run(&run, found, &name),
                None => Err(Failure::Raised(b"ERR Function not found".to_vec())),
            }
        })
    }

    fn call(&self, run: impl FnOnce() -> Result<Reply, Failure> + 'static) -> Option<Call> {
        self.make_room();
        // Of another call that was stopped there may be one that stops at each instruction.
        set_hook(&self.lua, &self.link, Limits::INSTRUCTIONS_BETWEEN_LOOKS).ok()?;
        Some(Call::new(Rc::clone(&self.link), self.limits.slice, run))
    }

    fn invocation(&self, keys: Vec<Vec<u8>>, arguments: Vec<Vec<u8>>) -> Invocation {
        Invocation {
            lua: self.lua.clone(),
            link: Rc::clone(&self.link),
            keys,
            arguments,
            bytes_left: self.limits.memory,
        }
    }

    fn loading(&self, library: Source) -> Loading {
        Loading {
            lua: self.lua.clone(),
            link: Rc::clone(&self.link),
            libraries: self.libraries.clone(),
            load: self.sandbox.load_library.clone(),
            library,
        }
    }
}

/// What a call is made with.
struct Invocation {
    lua: Lua,
    link: Rc<Link>,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
    bytes_left: usize,
}

impl Invocation {
    /// Calls `run(f, keys, arguments)`, a function of the sandbox.
    fn run(self, run: &Function, f: Function, name: &str) -> Result<Reply, Failure> {
        let lua = &self.lua;
        let mut work = Work::new(&self.link, self.bytes_left);
        let called = strings(lua, self.keys, &mut work)
            .and_then(|keys| Ok((keys, strings(lua, self.arguments, &mut work)?)))
            .and_then(|(keys, arguments)| run.call((f, keys, arguments)));
        let called = called.map_err(|error| failure(&error, &self.link));
        let (ok, value): (bool, Value) = called?;
        conclude(&self.link, ok, &value, name, self.bytes_left)
    }
}

/// What loading a library takes.
struct Loading {
    lua: Lua,
    link: Rc<Link>,
    libraries: Libraries,
    load: Function,
    library: Source,
}

impl Loading {
    /// Compiles the text, and runs it.
    fn run(&self) -> Result<(), Failure> {
        let text = without_shebang(&self.library.text);
        let chunk = compile::compile(&self.lua, &self.link, text, c"@user_function");
        let chunk = chunk.map_err(|problem| match problem {
            Problem::Memory => Failure::Memory,
            Problem::Stopped => Failure::Stopped,
            other => Failure::Raised(
                format!("ERR Error compiling function: {}", other.text()).into_bytes(),
            ),
        })?;
        let called = self.load.call(chunk);
        let (ok, value): (bool, Value) = called.map_err(|error| failure(&error, &self.link))?;
        if self.link.stops() {
            return Err(Failure::Stopped);
        }
        if !ok {
            return Err(match &value {
                Value::String(text) if *text == "not enough memory" => Failure::Memory,
                Value::Table(table) => Failure::Raised(
                    [
                        b"ERR Error registering functions: ",
                        &*text_in(table, "err"),
                    ]
                    .concat(),
                ),
                _ => Failure::Raised(b"ERR Error registering functions: unknown error".to_vec()),
            });
        }
        let Value::Table(all) = value else {
            return Err(Failure::Raised(b"ERR No functions registered".to_vec()));
        };
        (self.libraries.add(self.library.sha1, &all)).map_err(|error| failure(&error, &self.link))
    }
}

fn strings(lua: &Lua, all: Vec<Vec<u8>>, work: &mut Work) -> mlua::Result<Table> {
    // One after the other: of values that are held outside of Lua there may be some thousands.
    let table = lua.create_table_with_capacity(all.len(), 0)?;
    for (place, bytes) in all.into_iter().enumerate() {
        work.bytes(bytes.len())?;
        table.raw_set(place + 1, lua.create_string(bytes)?)?;
    }
    Ok(table)
}

/// Looks that are so far from each other are too few.
const LATE: Duration = Duration::from_millis(1);

/// Looks at the clock now and then. When the call is to end, raises an error, from then on at
/// each instruction: a script may have caught the first one.
///
/// A coroutine counts its own instructions from its beginning on; so making one is work that is
/// counted, too (sandbox.lua). How many lie between two looks is each coroutine's own as well, and
/// cannot be asked. So every one learns it when it looks itself: that the call is to end, whatever
/// others have learned; and how often to look, if the state's size has changed, or if the last look was
/// long ago.
fn set_hook(lua: &Lua, link: &Rc<Link>, every: u32) -> mlua::Result<()> {
    let inner = Rc::clone(link);
    let triggers = HookTriggers::new().every_nth_instruction(every);
    lua.set_global_hook(triggers, move |lua, _| {
        let look = inner.look_timing();
        if look.stops {
            set_hook(lua, &inner, 1)?;
            return Err(mlua::Error::runtime("the script was stopped"));
        }
        let wanted = match look.is_careful {
            true => 1,
            false => Limits::between_looks(lua.used_memory()),
        };
        if wanted != every || look.since > LATE {
            set_hook(lua, &inner, wanted)?;
        }
        Ok(VmState::Continue)
    })
}

/// Is it an error as a command replied it to the script, or what was made of one? The mark is Redis's.
fn is_of_command(value: &Value) -> bool {
    let mark = match value {
        Value::Table(table) => table.raw_get("ignore_error_stats_update"),
        _ => return false,
    };
    matches!(mark, Ok(Value::Boolean(true)))
}

/// What follows from the end of a script.
fn conclude(
    link: &Rc<Link>,
    ok: bool,
    value: &Value,
    name: &str,
    bytes_left: usize,
) -> Result<Reply, Failure> {
    if link.stops() {
        return Err(Failure::Stopped);
    }
    link.passes_error_on.set(is_of_command(value));
    if !ok {
        return Err(match value {
            // What Lua raises itself when there is nothing left to explain it with.
            Value::String(text) if *text == "not enough memory" => Failure::Memory,
            Value::String(text) => Failure::Raised([b"ERR ", &text.as_bytes()[..]].concat()),
            _ => Failure::Raised(explained(value, name)),
        });
    }
    let mut from = FromLua {
        resp3: link.resp3.get(),
        bytes_left,
        work: Work::new(link, bytes_left),
    };
    from.reply(value).map_err(|unfit| match unfit {
        Unfit::TooDeep => Failure::Raised(b"ERR reached lua stack limit".to_vec()),
        Unfit::TooLong => Failure::Raised(b"ERR the script's reply is too long".to_vec()),
        Unfit::Stopped => Failure::Stopped,
    })
}

/// The text of an error as Redis has it: with the script, and where in it.
fn explained(value: &Value, name: &str) -> Vec<u8> {
    let Value::Table(table) = value else {
        return b"ERR unknown error".to_vec();
    };
    let mut all = text_in(table, "err");
    let source = text_in(table, "source");
    let line = table.raw_get::<Option<i64>>("line");
    if let (false, Ok(Some(line))) = (source.is_empty(), line) {
        all.extend(format!(" script: {name}, on ").into_bytes());
        all.extend(source);
        all.extend(format!(":{line}.").into_bytes());
    }
    all
}

fn text_in(table: &Table, field: &str) -> Vec<u8> {
    match table.raw_get(field) {
        Ok(Value::String(text)) => until_zero(&text.as_bytes()).to_vec(),
        _ => Vec::new(),
    }
}

/// An error that did not come by way of the sandbox.
fn failure(error: &mlua::Error, link: &Link) -> Failure {
    match error {
        _ if link.stops() => Failure::Stopped,
        mlua::Error::MemoryError(_) => Failure::Memory,
        other => Failure::Raised(format!("ERR {other}").into_bytes()),
    }
}

/// The first line may say which language it is; the others keep their numbers.
fn without_shebang(text: &[u8]) -> &[u8] {
    if !text.starts_with(b"#!") {
        return text;
    }
    let end = text.iter().position(|&byte| byte == b'\n');
    &text[end.unwrap_or(text.len())..]
}
