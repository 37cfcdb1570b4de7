-- What a script finds around it. Runs once in a new state of Lua, with the functions of
-- sandbox.rs, and returns what that calls.
--
-- A script may read the globals and the libraries, and may not change them: it gets an empty
-- table in the place of each, which leads to the real one. These tables are new for each call.

local host = ...

local assert, error, getmetatable, ipairs, next, pairs, pcall, rawequal, rawget, rawset =
	assert, error, getmetatable, ipairs, next, pairs, pcall, rawequal, rawget, rawset
local select, setfenv, setmetatable, tonumber, tostring, type, unpack, xpcall =
	select, setfenv, setmetatable, tonumber, tostring, type, unpack, xpcall
local load, loadstring = load, loadstring
local collectgarbage, gcinfo, getinfo = collectgarbage, gcinfo, debug.getinfo
local format, concat, sort, byte, sub =
	string.format, table.concat, table.sort, string.byte, string.sub
local find, match = host.matching.find, host.matching.match

-- Makes a function one of C, so that who calls it last of all (return f()) is still known when
-- it raises an error.
local native = host.native
-- Makes one of C that calls a function of ours for some arguments, and else is one of Lua's.
local either = host.either
-- Whether the call is to end.
local stops = host.stops

local READONLY = 'Attempt to modify a readonly table'

-- ---- Tables that may only be read ------------------------------------------------

-- From the table that a script sees to the one that it stands for. Forgets those of calls
-- that have ended.
-- Values are weak too: the globals of a call name themselves, and a weak key does not free what its
-- own value leads to (Lua 5.1). The metatable of each key keeps the value.
local behind = setmetatable({}, { __mode = 'kv' })

local function refuse_write()
	error(READONLY, 2)
end

-- A metatable for the tables that stand for `real`. By the last field `table.insert` knows them.
local function reader_of(real)
	return { __index = real, __newindex = refuse_write, __metatable = false, __readonly = true }
end

local function reader(real, metatable)
	local seen = setmetatable({}, metatable)
	behind[seen] = real
	return seen
end

-- ---- Functions of Lua that would show or change what is behind --------------------

local base = {
	_VERSION = _VERSION,
	assert = assert,
	collectgarbage = function(what)
		-- Nothing of it concerns a script but how much it uses.
		return what == 'count' and collectgarbage 'count' or 0
	end,
	error = error,
	gcinfo = gcinfo,
	rawequal = rawequal,
	select = select,
	tonumber = tonumber,
	tostring = tostring,
	type = type,
	unpack = unpack,
}

local function is_reader(t)
	return behind[t] ~= nil
end

-- `f` for tables of scripts, and for what is no table; `other` for those that stand for others.
local function unless_reader(f, other, upvalue)
	return either(upvalue, f, is_reader, other)
end

-- ipairs hands out the table it goes through.
base.ipairs = unless_reader(ipairs, function(t)
	local real = behind[t]
	return function(_, i)
		local value = real[i + 1]
		if value ~= nil then
			return i + 1, value
		end
	end, t, 0
end, (ipairs {}))

-- The globals of a call that are its own; forgets those of calls that have ended.
local own_globals = setmetatable({}, { __mode = 'k' })

-- What seems to be in a table that stands for another one. The globals of a call are some of its own and those of all.
local function contents(t)
	local real = behind[t]
	if not own_globals[real] then
		return real
	end
	local all = {}
	for name, value in next, base do
		all[name] = value
	end
	for name, value in next, real do
		all[name] = value
	end
	return all
end

base.next = unless_reader(next, function(t, key)
	return next(contents(t), key)
end)

base.pairs = unless_reader(pairs, function(t)
	local all, key, value = contents(t), nil, nil
	return function()
		key, value = next(all, key)
		return key, value
	end, t, nil
end, (pairs {}))

base.rawget = unless_reader(rawget, function(t, key)
	return rawget(contents(t), key)
end)

local function readonly()
	error(READONLY, 0)
end

base.rawset = unless_reader(rawset, readonly)
base.setmetatable = unless_reader(setmetatable, readonly)

-- Of strings: a table as Redis has one, which cannot be changed either, and is as new each time.
local strings = string
local function string_metatable()
	local seen = { __index = reader(strings, reader_of(strings)) }
	return reader(seen, reader_of(seen))
end

function base.getmetatable(value)
	if type(value) == 'string' then
		return string_metatable()
	end
	local metatable = getmetatable(value)
	if metatable == false and behind[value] then
		return nil
	end
	return metatable
end

base.pcall = host.protected(pcall)

function base.xpcall(f, handler)
	return xpcall(f, function(problem)
		-- No hook looks at the clock in a handler of the error by which the call is to end.
		if stops() then
			return problem
		end
		return handler(problem)
	end)
end

-- What runs now has these globals; what it compiles gets them too.
local current

-- Bytes of the longest text. That of a script is no longer, either.
local TEXT_MAX = 2 ^ 20

local compile = host.compile

-- As C converts it: a number is a string too.
local function string_of(value)
	local kind = type(value)
	if kind == 'string' or kind == 'number' then
		return tostring(value)
	end
end

-- Texts only: a compiled chunk can break Lua itself.
local function load_text(text, name)
	if byte(text) == 27 then
		return nil, 'attempt to load a binary chunk'
	end
	if #text > TEXT_MAX then
		return nil, 'chunk is too long'
	end
	local f, problem = compile(text, name)
	if not f then
		return nil, problem
	end
	return setfenv(f, current)
end

-- Those of Lua raise errors for what is no string, and what is no function.
base.loadstring = either(nil, loadstring, function(text, name)
	return string_of(text) and (name == nil or string_of(name))
end, function(text, name)
	text = string_of(text)
	return load_text(text, string_of(name) or text)
end)

base.load = either(nil, load, function(pieces, name)
	return type(pieces) == 'function' and (name == nil or string_of(name))
end, function(pieces, name)
	local all = {}
	repeat
		local ok, piece = pcall(pieces)
		if not ok then
			return nil, piece
		end
		if piece ~= nil and not string_of(piece) then
			return nil, 'reader function must return a string'
		end
		all[#all + 1] = string_of(piece)
	until piece == nil or piece == ''
	return load_text(concat(all), string_of(name) or '=(load)')
end)

-- ---- Libraries -------------------------------------------------------------------

local libraries = {
	bit = host.bit,
	cjson = host.cjson,
	cmsgpack = host.cmsgpack,
	coroutine = coroutine,
	math = math,
	string = string,
	struct = host.struct,
	table = table,
}

-- Those of Lua look at no clock, whatever time they take.
for name, member in next, host.matching do
	string[name] = member
end
string.gfind = string.gmatch

-- Neither do those whose time grows with a table or a string.
for _, name in ipairs { 'getn', 'remove' } do
	table[name] = host.charged(table[name])
end
-- A range may be longer than the table.
table.concat = host.charged(table.concat, 0, 'concat')
table.insert = host.charged(table.insert, 0, 'insert')
for _, name in ipairs { 'byte', 'format', 'lower', 'reverse', 'sub', 'upper' } do
	string[name] = host.charged(string[name])
end
base.unpack = host.charged(unpack, 0, 'unpack')
base.tonumber = host.charged(tonumber)

-- A coroutine counts its own instructions from nothing on, and many short ones are never looked at:
-- to make one counts as much as some dozens of them.
for _, name in ipairs { 'create', 'wrap' } do
	coroutine[name] = host.charged(coroutine[name], 20)
end

-- Those of Lua call functions of C without an instruction in between.
local function gets_function(t, f)
	return type(t) == 'table' and type(f) == 'function'
end

-- It goes through all keys, of which a table that seems empty may have many.
local function gets_table(t)
	return type(t) == 'table'
end

table.maxn = either(nil, table.maxn, gets_table, function(t)
	local most = 0
	for key in next, t do
		if type(key) == 'number' and key > most then
			most = key
		end
	end
	return most
end)

table.foreach = either(nil, table.foreach, gets_function, function(t, f)
	for key, value in next, t do
		local result = f(key, value)
		if result ~= nil then
			return result
		end
	end
end)

table.foreachi = either(nil, table.foreachi, gets_function, function(t, f)
	for i = 1, #t do
		local result = f(i, rawget(t, i))
		if result ~= nil then
			return result
		end
	end
end)

-- Where in the script it is: the nearest function that is the script's.
local function place()
	for level = 3, 20 do
		local info = getinfo(level, 'Sl')
		if not info then
			return nil
		end
		if info.source == '@user_script' or info.source == '@user_function' then
			return info
		end
	end
end

-- The level of the function of C in which one of ours is called, for who calls the asking function.
local function level_of_native()
	local level = 4
	while getinfo(level, 'S').what ~= 'C' do
		level = level + 1
	end
	return level - 1
end

-- The line from which a function of ours is called, as luaL_where() has it: none, if not by Lua.
local function line_of_caller()
	local info = getinfo(level_of_native() + 1, 'Sl')
	if info and info.currentline > 0 then
		return sub(info.source, 2) .. ':' .. info.currentline .. ': '
	end
	return ''
end

-- By which name, as luaL_argerror() has it.
local function name_of_caller()
	return getinfo(level_of_native(), 'n').name or '?'
end

-- What our functions get and want, as mlua names it, in words of Lua.
local KINDS = { integer = 'number', lightuserdata = 'userdata' }
local EXPECTED = { table = 'table', Table = 'table', LuaString = 'string', String = 'string', string = 'string' }

-- What a function of ours says of an argument that it cannot take, as Lua says it.
local function of_argument(text, count)
	-- Under which name it was called, it does not know.
	local place, rest = match(text, "^bad argument #(%d+) to '[^']*' (%(.*)")
	if place then
		return format("bad argument #%s to '%s' %s", place, name_of_caller(), rest)
	end
	local number, got, wanted = match(text, '^bad argument #(%d+)[^:]*: error converting Lua (%a+) to ([%w_]+)')
	if not number or find(text, 'out of range', 1, true) then
		return text
	end
	got = tonumber(number) > count and 'no value' or KINDS[got] or got
	return format(
		"bad argument #%s to '%s' (%s expected, got %s)",
		number,
		name_of_caller(),
		EXPECTED[wanted] or 'number',
		got
	)
end

-- Errors of our functions are no texts, and say no place.
local function raised_by_us(problem, count)
	local text = tostring(problem)
	text = match(text, '^(.-)\nstack traceback:') or text
	text = match(text, '^runtime error: (.*)') or text
	text = of_argument(text, count)
	if find(text, 'not enough memory', 1, true) then
		error('not enough memory', 0)
	end
	error(line_of_caller() .. text, 0)
end

local function returned(count, ok, ...)
	if not ok then
		raised_by_us((...), count)
	end
	return ...
end

-- Counts its arguments as work: a long text is copied before the function sees it.
local charge = host.charged(select)

-- Makes a function of ours one that raises texts, as those of C do.
local function as_of_c(f)
	return native(function(...)
		charge('#', ...)
		return returned(select('#', ...), pcall(f, ...))
	end)
end

local function all_as_of_c(library)
	for name, member in next, library do
		if type(member) == 'function' then
			library[name] = as_of_c(member)
		end
	end
	return library
end

for _, library in ipairs { host.bit, host.cjson, host.cmsgpack, host.struct } do
	all_as_of_c(library)
end

-- A script may do to it what it likes.
local new_json = host.new_json
host.cjson.new = function()
	local new = all_as_of_c(new_json())
	new.new = host.cjson.new
	return new
end

string.dump = function()
	error('unable to dump given function', 2)
end

-- A comparison by Lua itself, or by a function of C, would not be interrupted: that of many elements
-- takes long.
local less_or_look = host.charged(host.less)

table.sort = either(nil, sort, function(t, less)
	local is_c = type(less) == 'function' and getinfo(less, 'S').what == 'C'
	return type(t) == 'table' and (less == nil or is_c)
end, function(t, less)
	if less == nil then
		return sort(t, less_or_look)
	end
	return sort(t, function(a, b)
		return (less(a, b))
	end)
end)

math.random = host.random
math.randomseed = as_of_c(host.randomseed)

-- ---- redis -----------------------------------------------------------------------

local redis = {
	LOG_DEBUG = 0,
	LOG_VERBOSE = 1,
	LOG_NOTICE = 2,
	LOG_WARNING = 3,
	REPL_NONE = 0,
	REPL_AOF = 1,
	REPL_SLAVE = 2,
	REPL_REPLICA = 2,
	REPL_ALL = 3,
	REDIS_VERSION = host.version,
	REDIS_VERSION_NUM = host.version_number,
}

-- Errors that say no place, as those that Redis raises itself.
local function raise(text)
	error({ err = 'ERR ' .. text }, 0)
end

local function words_of(...)
	local count = select('#', ...)
	if count == 0 then
		return nil, 'Please specify at least one argument for this redis lib call'
	end
	local words = { ... }
	for i = 1, count do
		local kind = type(words[i])
		if kind == 'number' then
			words[i] = format('%.17g', words[i])
		elseif kind ~= 'string' then
			return nil, 'Lua redis lib command arguments must be strings or integers'
		end
	end
	return words
end

local command = host.command

local function execute(...)
	local words, problem = words_of(...)
	if not words then
		return { err = 'ERR ' .. problem }, true
	end
	return command(words)
end

function redis.call(...)
	local reply, failed = execute(...)
	if failed then
		error(reply, 0)
	end
	return reply
end

function redis.pcall(...)
	return (execute(...))
end

local error_text = host.error_text

function redis.error_reply(...)
	local text = ...
	if select('#', ...) ~= 1 or type(text) ~= 'string' then
		return { err = 'ERR wrong number or type of arguments' }
	end
	return { err = error_text(text) }
end

function redis.status_reply(...)
	local text = ...
	if select('#', ...) ~= 1 or type(text) ~= 'string' then
		return { err = 'ERR wrong number or type of arguments' }
	end
	return { ok = text }
end

local sha1hex = host.sha1hex

function redis.sha1hex(...)
	if select('#', ...) ~= 1 then
		raise 'wrong number of arguments'
	end
	return sha1hex(string_of((...)) or '')
end

function redis.log(...)
	local count = select('#', ...)
	if count < 2 then
		raise 'redis.log() requires two arguments or more.'
	end
	local level = tonumber((...))
	if not level then
		raise 'First argument must be a number (log level).'
	end
	if level < redis.LOG_DEBUG or level > redis.LOG_WARNING then
		raise 'Invalid debug level.'
	end
	-- What is neither text nor number is left out.
	local parts = {}
	for i = 2, count do
		local part = string_of((select(i, ...)))
		if part then
			parts[#parts + 1] = (i > 2 and ' ' or '') .. part
		end
	end
	host.log(level, concat(parts))
end

function redis.setresp(...)
	if select('#', ...) ~= 1 then
		raise 'redis.setresp() requires one argument.'
	end
	local version = tonumber((...))
	if version ~= 2 and version ~= 3 then
		raise 'RESP version must be 2 or 3.'
	end
	host.setresp(version)
end

-- All effects of a transaction are written, and nothing else: there is nothing to choose.
function redis.set_repl(...)
	local count, flags = select('#', ...), ...
	if count ~= 1 then
		raise 'redis.set_repl() requires two arguments.'
	end
	flags = tonumber(flags)
	if not flags or flags < redis.REPL_NONE or flags > redis.REPL_ALL then
		raise 'Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.'
	end
end

function redis.replicate_commands()
	return true
end

function redis.breakpoint()
	return false
end

redis['debug'] = function() end

function redis.acl_check_cmd(...)
	local words, problem = words_of(...)
	if not words then
		raise(problem)
	end
	-- In RESP3 what is not there is nil.
	if not redis.pcall('COMMAND', 'INFO', words[1])[1] then
		raise 'Invalid command passed to redis.acl_check_cmd()'
	end
	return true
end

for name, member in next, redis do
	if type(member) == 'function' then
		redis[name] = native(member)
	end
end

libraries.redis = redis

-- ---- The environment of a call ---------------------------------------------------

local function no_such_global(_, name)
	error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

setmetatable(base, { __index = no_such_global })

local readers = {}
for name, library in next, libraries do
	readers[name] = reader_of(library)
end

local of_all = { __index = base }

-- The globals of one call, none of which it can replace. What `more` has is among them.
local function environment(more)
	local own = setmetatable({}, of_all)
	for name, library in next, libraries do
		own[name] = reader(library, readers[name])
	end
	for name, value in next, more do
		own[name] = value
	end
	own_globals[own] = true
	local globals = reader(own, reader_of(own))
	own._G = globals
	return globals
end

-- ---- A call ------------------------------------------------------------------------

local function explained(problem)
	if type(problem) ~= 'table' then
		problem = { err = 'ERR ' .. tostring(problem) }
	elseif type(rawget(problem, 'err')) ~= 'string' then
		problem = { err = 'ERR unknown error' }
	end
	local info = place()
	return {
		err = problem.err,
		source = info and info.source,
		line = info and info.currentline,
		ignore_error_stats_update = rawget(problem, 'ignore_error_stats_update'),
	}
end

-- Runs `f` with arguments: true and what it returns, or false and what went wrong.
local function run(f, ...)
	local arguments, count = { ... }, select('#', ...)
	return xpcall(function()
		return f(unpack(arguments, 1, count))
	end, explained)
end

-- Runs a compiled script.
local function run_script(script, keys, arguments)
	current = environment { KEYS = keys, ARGV = arguments }
	return run(setfenv(script, current))
end

-- ---- Libraries of functions --------------------------------------------------------

-- What the functions of a library find as globals: while it is loaded `load_globals`, then those
-- of the call. The library itself keeps one empty table that leads there, so that no call leaves
-- anything in it. Calls follow each other: all libraries share the way.
local way = { __newindex = refuse_write, __metatable = false }

-- The functions that the library that is being loaded has registered; nil: none is.
local registered
-- Bytes of their names and descriptions.
local said

local FLAGS = {
	['no-writes'] = true,
	['allow-oom'] = true,
	['allow-stale'] = true,
	['no-cluster'] = true,
	['allow-cross-slot-keys'] = true,
}

local function flags_of(value)
	if type(value) ~= 'table' then
		raise 'flags argument to redis.register_function must be a table representing function flags'
	end
	local flags = {}
	while rawget(value, #flags + 1) ~= nil do
		local flag = rawget(value, #flags + 1)
		if not FLAGS[flag] then
			raise 'unknown flag given'
		end
		flags[#flags + 1] = flag
	end
	return flags
end

local arguments_of = {}

function arguments_of.function_name(value)
	return string_of(value)
		or raise 'function_name argument given to redis.register_function must be a string'
end

function arguments_of.description(value)
	return string_of(value)
		or raise 'description argument given to redis.register_function must be a string'
end

function arguments_of.callback(value)
	return type(value) == 'function' and value
		or raise 'callback argument given to redis.register_function must be a function'
end

arguments_of.flags = flags_of

-- register_function{function_name = …, callback = …}
local function by_names(named)
	local found = {}
	for key, value in next, named do
		if not string_of(key) then
			raise 'named argument key given to redis.register_function is not a string'
		end
		local read = arguments_of[key]
		if not read then
			raise 'unknown argument given to redis.register_function'
		end
		found[key] = read(value)
	end
	if not found.function_name then
		raise 'redis.register_function must get a function name argument'
	end
	if not found.callback then
		raise 'redis.register_function must get a callback argument'
	end
	return found
end

-- register_function(name, callback)
local function by_position(name, callback)
	name = string_of(name) or raise 'first argument to redis.register_function must be a string'
	if type(callback) ~= 'function' then
		raise 'second argument to redis.register_function must be a function'
	end
	return { function_name = name, callback = callback }
end

local function read_function(...)
	local count = select('#', ...)
	if count < 1 or count > 2 then
		raise 'wrong number of arguments to redis.register_function'
	end
	if count == 2 then
		return by_position(...)
	end
	if type((...)) ~= 'table' then
		raise('calling redis.register_function with a single argument is only applicable to '
			.. 'Lua table (representing named arguments).')
	end
	return by_names((...))
end

local function register_function(...)
	if not registered then
		raise 'redis.register_function can only be called on FUNCTION LOAD command'
	end
	local new = read_function(...)
	if find(new.function_name, '^[%w_]+$') == nil then
		-- Redis says so of functions too.
		raise('Library names can only contain letters, numbers, or underscores(_) and must be at '
			.. 'least one character long')
	end
	for _, known in ipairs(registered) do
		if known.function_name == new.function_name then
			raise 'Function already exists in the library'
		end
	end
	-- They are copied out of Lua, where many of them may be one string.
	said = said + #new.function_name + #(new.description or '')
	if said > TEXT_MAX then
		raise 'names and descriptions of functions are too long'
	end
	registered[#registered + 1] = new
end

-- A library that is being loaded may register functions, and write to the log.
local load_redis = setmetatable(
	{ register_function = native(register_function), log = redis.log },
	{ __index = no_such_global }
)
for name, member in next, redis do
	if type(member) ~= 'function' and find(name, '^[LR]') and not find(name, '^REPL') then
		load_redis[name] = member
	end
end

local function load_globals()
	local seen = { redis = reader(load_redis, reader_of(load_redis)) }
	return setmetatable(seen, { __index = no_such_global })
end

-- Runs the text of a library: true and its functions, or false and what went wrong.
local function load_library(chunk)
	registered, said = {}, 0
	way.__index = load_globals()
	local ok, problem = run(setfenv(chunk, setmetatable({}, way)))
	local all = registered
	registered = nil
	return ok, ok and all or problem
end

-- What is for scripts only: functions have no debugger, and never had another replication.
local call_redis = {}
for name, member in next, redis do
	call_redis[name] = member
end
for _, name in ipairs { 'breakpoint', 'debug', 'replicate_commands' } do
	call_redis[name] = nil
end
local call_reader = reader_of(call_redis)

local function run_function(f, keys, arguments)
	current = environment { redis = reader(call_redis, call_reader) }
	way.__index = current
	return run(f, keys, arguments)
end

-- Whoever finds the way to the globals of Lua itself finds nothing.
local globals = _G
for name in next, globals do
	globals[name] = nil
end

return { run_script = run_script, load_library = load_library, run_function = run_function }
