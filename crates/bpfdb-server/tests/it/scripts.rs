//! EVAL and its kin: the same replies as Redis, one transaction each, and others served
//! meanwhile.

use bpfdb_tests::server as common;

use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::settings::is_emulated;
use common::process::ServerProcess;
use common::redis_py::{EXTEND, RELEASE};
use common::{Client, Redis, TestServer, request, show, wait_until};

pub(crate) fn eval(
    client: &mut Client,
    script: &str,
    keys: &[&str],
    arguments: &[&str],
) -> Vec<u8> {
    client.send(&eval_request(script, keys, arguments));
    client.reply()
}

fn eval_request(script: &str, keys: &[&str], arguments: &[&str]) -> Vec<u8> {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys);
    words.extend(arguments);
    request(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

/// Each with the keys a, b and the arguments 1, two.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return 'text'",
    "return {1, 2.9, 'three', {4, {ok = 'five'}}, true, false, nil, 6}",
    "return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], #KEYS, #ARGV}",
    "return redis.call('set', KEYS[1], ARGV[1])",
    "return redis.call('get', KEYS[1])",
    "return redis.call('get', 'absent')",
    "return redis.call('incrby', KEYS[1], 10)",
    "return redis.call('incr', KEYS[1]) + 0.5",
    "return {redis.call('mset', 'a', '5', 'b', 'x'), redis.call('mget', 'a', 'b', 'c')}",
    "return redis.call('incr', 'b')",
    "return redis.pcall('incr', 'b')",
    "return redis.pcall('incr', 'b').err",
    "local ok, problem = pcall(redis.call, 'incr', 'b') return {tostring(ok), problem}",
    "redis.call('get', 'a') error('stop')",
    "error({err = 'MYCODE it is so'})",
    "return {err = 'MYCODE it is so'}",
    "return {ok = 'FINE'}",
    "return redis.error_reply('MYCODE it is so')",
    "return redis.error_reply('-MYCODE it is so')",
    "return redis.error_reply('-MYCODE')",
    "return redis.error_reply('--MYCODE it')",
    "return redis.error_reply('MYCODE it\\000is')",
    "return redis.error_reply('MY\\000CODE it')",
    "return redis.error_reply('MY\\nCODE \\nit\\r\\nis\\n')",
    "return redis.error_reply('MY\\nCODE \\nit\\r\\nis\\n').err",
    "return redis.error_reply('')",
    "return redis.error_reply('-')",
    "return redis.error_reply(KEYS[1])",
    "return {err = '-MYCODE it is so'}",
    "return {err = 'MYCODE it\\000is'}",
    "error({err = 'MYCODE it\\000is'})",
    "error('it\\000is')",
    "return {ok = 'FI\\000NE'}",
    "return redis.status_reply('FINE')",
    "return redis.status_reply('FI\\000NE')",
    "return redis.status_reply('FI\\000NE').ok",
    "return {redis.status_reply('\\000'), redis.error_reply('\\000'), 1}",
    "return redis.call('nonsense')",
    "return redis.call('get')",
    "return redis.call('multi')",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('set', 'a', '1', 'ex', 'soon')",
    "return redis.call('strlen', 'b')",
    "return redis.call('exists', 'a', 'b', 'c')",
    "return redis.call('ttl', 'a')",
    "return redis.call('type', 'a')",
    "return redis.call('type', 'a').ok",
    "return redis.call('expire', 'a', 100)",
    "return redis.call('ttl', 'a') > 90",
    "return redis.call('set', 'a', 'new', 'get')",
    "return redis.call('set', 'a', 'newer', 'nx')",
    "return tonumber(redis.call('append', 'b', 'yz'))",
    "return redis.sha1hex('abc')",
    "return cjson.encode({a = {1, 2, 3}})",
    "return cjson.decode('{\"a\": [1, 2.5, null]}').a[2]",
    "return cjson.encode({'x', 'y', n = 2})",
    "return cjson.decode('{\"a\":1}\\000x').a",
    "return cjson.decode('\"a\\000b\"')",
    "return cjson.decode('[1\\000')",
    "return cjson.decode('\\000')",
    "return cjson.decode('')",
    "return cjson.decode('[+5]')[1]",
    "return cjson.decode('[+.5e1]')[1]",
    "return cjson.decode('0x1.8p1')",
    "return cjson.decode('[0x1F, -0x10, 007, 1e2, 1., -.5]')",
    "return tostring(cjson.decode('-inf')) .. tostring(cjson.decode('[Infinity]')[1])",
    "return tostring(cjson.decode('[nan]')[1])",
    "return cjson.decode('-x')",
    "return cjson.decode('- 5')",
    "return cjson.decode('+x')",
    "return cjson.decode('.5')",
    "return cjson.decode('1x')",
    "return cjson.decode('[1 -x]')",
    "return cjson.decode('[1 \"a\"]')",
    "return cjson.decode('[1, ]')",
    "return cjson.decode('[,]')",
    "return cjson.decode('{\"a\" 1}')",
    "return cjson.decode('{\"a\":}')",
    "return cjson.decode('{\"a\":1 \"b\"}')",
    "return cjson.decode('{\"a\":1,}')",
    "return cjson.decode('{1:1}')",
    "return cjson.decode('{nul:1}')",
    "return cjson.decode('{\"a\\\\q\":1}')",
    "return cjson.decode('\"a\\\\u12x4\"')",
    "return cjson.decode('\"\\\\ud83d\\\\ude00\\\\u00e9\\\\n\"')",
    "return cjson.decode('\"\\\\ud83dx\"')",
    "return cjson.decode('\"\\\\ude00\"')",
    "return cjson.decode('\"abc')",
    "return cjson.decode('truex')",
    "return cjson.decode('tru')",
    "return cjson.decode(' \\t\\n[true , false]\\r ')",
    "cjson.decode_invalid_numbers(false) return cjson.decode('[007]')",
    "cjson.decode_invalid_numbers(false) return cjson.decode('[inf]')",
    "cjson.decode_invalid_numbers(false) return cjson.decode('[-nan]')",
    "cjson.decode_invalid_numbers(true) return 1",
    "local c = cjson.new() c.encode_number_precision(3) return cjson.encode(1/3)",
    "local c = cjson.new() c.encode_number_precision(3) return c.encode(1/3)",
    "cjson.encode_number_precision(5) local c = cjson.new() cjson.encode_number_precision(14) return c.encode(1/3)",
    "return cjson.new().new().encode({1})",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2), 0)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2), 0, 1)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2), 1, 0)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2), 9, 1)}",
    "return #struct.pack('B\\000', 1)",
    "return struct.size('I\\000!')",
    "return (struct.unpack('B\\000x', '\\7'))",
    "return (struct.unpack('sc0', '3\\000abc'))",
    "return (struct.unpack('sc0', 'x\\000abc'))",
    "return (struct.unpack('Bc0', '\\3abc'))",
    "return cjson.encode({[-1] = 1})",
    "return cjson.encode({[2.5] = 'a'})",
    "return cmsgpack.pack(2^63)",
    "return cmsgpack.pack(-2^63)",
    // Errors name the function that was called, and where.
    "return table.concat({1, {}, 3})",
    "return table.concat(1)",
    "return table.insert({}, 1, 2, 3)",
    "return string.upper()",
    "return ('x'):sub({})",
    "return unpack(1)",
    "return string.format('%d', 'x')",
    "local f = string.lower return f(nil)",
    "for _, v in ipairs('x') do end",
    "for _, v in ipairs(nil) do end",
    "for k in pairs(nil) do end",
    "return pairs(7)",
    "local walk = pairs return walk('x')",
    "return next(nil)",
    "return next({}, 'absent')",
    "return rawget(1, 2)",
    "rawset({}, nil, 1)",
    "rawset('x', 1, 1)",
    "return setmetatable(1, {})",
    "setmetatable({}, 1)",
    "setmetatable(redis, {})",
    "rawset(redis, 'call', 1)",
    "return rawget(redis, 'LOG_NOTICE')",
    "return type(next(math))",
    "table.sort(nil)",
    "table.sort({1, 'a'})",
    "table.sort({{}, {}})",
    "table.sort({2, 1}, 7)",
    "table.sort({2, 1}, function(a, b) return a.x < b end)",
    "local t = {3, 1, 2} table.sort(t) return t",
    "local t = {'b', 'a'} table.sort(t, nil) return t",
    "table.foreach(nil, print)",
    "table.foreachi({}, 1)",
    "return table.foreach({7}, function(k, v) return v end)",
    "return cmsgpack.unpack(nil)",
    "return cmsgpack.unpack()",
    "return struct.unpack('I', nil)",
    "return struct.pack('I', {})",
    "return struct.pack()",
    "return bit.band('x')",
    "return bit.band()",
    "return bit.tohex({})",
    "return cjson.decode(nil)",
    "local d = cjson.decode return d(nil)",
    "return {pcall(cjson.decode, nil)}",
    "return {pcall(struct.pack, 'I', 'x')}",
    "return bit.band(cjson.null)",
    "return cmsgpack.unpack(cjson.null)",
    "return cmsgpack.unpack_limit('\\1', -1)",
    "return cmsgpack.unpack_one('\\1', -1)",
    "return cmsgpack.unpack_limit('\\1', 1, -2)",
    "return cmsgpack.unpack_limit('\\1', 'x')",
    "return loadstring(nil)",
    "return loadstring({})",
    "return loadstring('return 1', {})",
    "return loadstring('return 7')()",
    "return {loadstring('return (', 'name')}",
    "return loadstring(7)",
    "return load(nil)",
    "return load('return 1')",
    "local text = 'return 8' return load(function() local t = text text = nil return t end)()",
    "return cjson.decode({})",
    "return redis.sha1hex(nil)",
    "return redis.sha1hex({})",
    "return redis.sha1hex(12)",
    "return redis.sha1hex(true)",
    "math.randomseed(7) return {math.random(ARGV[1]), math.random('90'), math.random(2.7)}",
    "math.randomseed(8) return math.random('5', '10')",
    "return math.random(0)",
    "return math.random(2, 1)",
    "return math.random(1, 2, 3)",
    "return math.random('x')",
    "return math.random({})",
    "local draw = math.random return draw(nil)",
    "math.randomseed('x')",
    "math.randomseed(9) return {math.random(100), math.random(-5, 5), math.random(7.9)}",
    "return select(2, xpcall(function() return redis.call('incr', 'b') end, function(e) return e end)).err",
    "return select(2, xpcall(function() return redis.call('incr', 'b') end, function(e) return type(e) end))",
    "return select(2, xpcall(function() error('x') end, function(e) return e .. '!' end))",
    "return select(2, xpcall(function() local t = nil return t.x end, function(e) return e end))",
    "redis.log(redis.LOG_NOTICE, 'old', nil, 'new', 'x') return 1",
    "redis.log(redis.LOG_NOTICE, 'a', false, 'c') return 1",
    "redis.log(redis.LOG_DEBUG, nil, {}) return 1",
    "redis.log(redis.LOG_NOTICE, {}, redis.call('get', 'absent'), 1, 'x', print) return 1",
    "redis.log(redis.LOG_NOTICE) return 1",
    "redis.log('x', 'y') return 1",
    "redis.log(9, 'y') return 1",
    "return cmsgpack.unpack(cmsgpack.pack({1, 'x'}))[2]",
    "return struct.unpack('>I2', '\\1\\2')",
    "return bit.band(12, 10)",
    "return tostring(10/3)",
    "return x",
    "x = 1",
    "this is no Lua",
    "local a = 1\nlocal b = = 2\nreturn a",
    "return (",
    "return string.rep('x', 40)",
    "redis.setresp(3) return redis.call('get', 'absent') == nil",
    "return redis.call('echo', 'a\\r\\nb')",
    "return {err = 'two\\r\\nlines'}",
    "#!lua flags=no-writes\nreturn redis.call('set', 'a', 'no')",
    "#!lua flags=no-writes\nreturn redis.call('get', 'a')",
    "#!lua flags=what\nreturn 1",
    "#!js\nreturn 1",
    "redis.log(redis.LOG_DEBUG, 'a line') return 1",
    "return redis.call('del', 'a', 'b')",
    "return {double = 3.5}",
    "return {{double = 0.1}, {double = 1e300}, {double = 1e17}, {double = -0}, {double = 5e-324}}",
    "return {{double = 0/0}, {double = -(0/0)}, {double = 1/0}, {double = -1/0}}",
    "return {big_number = '12345678901234567890'}",
    "return {big_number = 'a\\r\\n+OK\\255\\000b'}",
    "return {big_number = '7', map = {a = 1}, set = {a = true}}",
    "return {verbatim_string = {format = 'txt', string = 'a\\nb'}, map = {a = 1}}",
    "return {verbatim_string = {format = 'long one', string = 'x'}}",
    "return {verbatim_string = {format = 't', string = 'x'}}",
    "return {verbatim_string = {string = 'x'}}",
    "return {verbatim_string = 'x'}",
    "return select('#', pcall(function() end))",
    "return select('#', pcall(function() return nil, nil end))",
    "local t = {} table.insert(t, pcall(function() end)) return #t",
    "return {select('#', pcall(error, {})), select('#', pcall(error, {err = 7})), select('#', pcall(error, 'x'))}",
    "return select(2, pcall(error, {err = 7}))",
    "return {pcall(error, 'x', 2)}",
    "return {pcall(error, 'x', 1)}",
    "return {pcall(error, 'x')}",
    "local function f() error('deep', 2) end return {pcall(function() f() end)}",
    "return type(select(2, pcall(error, setmetatable({}, {__index = function() return 'made' end}))))",
    "return {pcall(nil)}",
    "redis.call('SET','a','v') local f, e = load(function() error('x') end) return tostring(f)",
    "local f, e = load(function() error({}) end) return tostring(f) .. type(e)",
    "local p, i = {'return ', 5}, 0 return load(function() i = i + 1 return p[i] end)()",
    "return {load(function() return {} end)}",
    "return tostring(load(function() return true end))",
    "return {map = {a = 1}}",
    "return {set = {a = true}}",
    "return redis.call('hello')",
    "return select(2, pcall(redis.call, 'set', {}))",
];

#[test]
fn scripts_do_what_they_do_in_redis() {
    let (server, redis) = (TestServer::shared(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    let mut different = Vec::new();
    for protocol in ["2", "3"] {
        for client in &mut clients {
            client.say(&format!("hello {protocol}"));
            client.say("flushall");
        }
        for script in SCRIPTS {
            let [ours, theirs] = clients
                .each_mut()
                .map(|client| eval(client, script, &["a", "b"], &["1", "two"]));
            if ours != theirs {
                let (ours, theirs) = (show(&ours), show(&theirs));
                different.push(format!("RESP{protocol}: {script}\n  {ours}\n  {theirs}"));
            }
        }
        for client in &mut clients {
            client.say("hello 2");
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Unlike in Redis: what a script did before it failed is undone.
#[test]
fn a_script_that_fails_leaves_nothing() {
    let server = TestServer::shared();
    let mut client = server.client();
    for script in [
        "redis.call('set', 'half', '1') error('stop')",
        "redis.call('set', 'half', '1') redis.call('incr', 'half') local t = nil return t.x",
        "redis.call('set', 'half', 'x') redis.call('incr', 'half')",
    ] {
        assert!(
            eval(&mut client, script, &[], &[]).starts_with(b"-"),
            "{script}"
        );
        assert_eq!(client.say("exists half"), ":0\r\n", "{script}");
    }
    // An error that it returns, or has caught, is a reply as any other.
    let script = "redis.call('set', 'kept', 'x') return redis.pcall('incr', 'kept')";
    assert!(eval(&mut client, script, &[], &[]).starts_with(b"-"));
    assert_eq!(client.say("get kept"), "$1\r\nx\r\n");
}

#[test]
fn scripts_are_serializable() {
    const CLIENTS: usize = 4;
    const CALLS: usize = 300;
    let server = TestServer::shared();
    // Two keys that stay equal, and a sum.
    let script = "local a, b = redis.call('get', KEYS[1]), redis.call('get', KEYS[2])
        if a ~= b then return redis.error_reply('TORN ' .. tostring(a) .. ' ' .. tostring(b)) end
        redis.call('incr', KEYS[1]) redis.call('incr', KEYS[2]) return 1";
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..CALLS {
                    let reply = eval(&mut client, script, &["pair-a", "pair-b"], &[]);
                    assert_eq!(reply, b":1\r\n", "{}", show(&reply));
                }
            });
        }
        // In the kernel, between them: no more than commands of its own.
        scope.spawn(|| {
            let mut client = server.client();
            for i in 1..=CALLS {
                assert_eq!(client.say("incr pair-c"), format!(":{i}\r\n"));
            }
        });
    });
    let mut client = server.client();
    let sum = (CLIENTS * CALLS).to_string();
    assert_eq!(
        client.say("get pair-a"),
        format!("${}\r\n{sum}\r\n", sum.len())
    );
}

/// A script that never ends holds up nobody, and is stopped.
#[test]
fn others_are_served_while_a_script_runs() {
    let server = TestServer::shared();
    for script in [
        "while true do end",
        "while true do redis.call('set', 'busy', 'x') end",
        "while true do pcall(redis.call, 'incr', 'nonsense-x') end",
        "while true do local s = ('x'):rep(1e6) end",
        "local function f(d) if d > 0 then for i = 1, 10 do coroutine.wrap(f)(d - 1) end end end f(12)",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do pcall(table.sort, t, rawequal) end",
        // A command that takes long is left within.
        "local s = ('ab'):rep(5000) redis.call('mset', 'a', s, 'b', s) while true do redis.call('lcs', 'a', 'b') end",
    ] {
        let mut endless = server.client();
        endless.send(&eval_request(script, &[], &[]));
        let mut other = server.client();
        thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        for i in 0..50 {
            assert_eq!(other.say(&format!("set other{i} v")), "+OK\r\n");
            assert_eq!(other.say("echo served"), "$6\r\nserved\r\n");
        }
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(other.say("script kill"), "+OK\r\n");
        let reply = show(&endless.reply());
        assert!(reply.contains("SCRIPT KILL"), "{script}: {reply}");
        assert_eq!(other.say("exists busy"), ":0\r\n");
        assert_eq!(endless.say("echo alive"), "$5\r\nalive\r\n");
        wait_until("nothing runs", || {
            other.say("script kill").starts_with("-NOTBUSY")
        });
    }
}

/// What clients may take in all is bounded (`maxmemory-clients`), also by scripts in blocks.
#[test]
fn memory_of_a_script_in_a_block_is_its_clients() {
    let server = TestServer::shared();
    let (mut client, mut other) = (server.client(), server.client());
    let id = client.say("client id");
    let id = id.trim_start_matches(':').trim();
    let script = "local s = ('x'):rep(3e7) while true do end";
    client.say("multi");
    client.ask(&[b"eval", script.as_bytes(), b"0"]);
    client.send(&request(&[b"exec"]));
    let memory = |other: &mut Client| {
        let list = other.say(&format!("client list id {id}"));
        let mut fields = list.split_whitespace();
        let field = fields.find_map(|field| field.strip_prefix("tot-mem="));
        field.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    };
    wait_until("it is counted", || memory(&mut other) > 30_000_000_u64);
    assert_eq!(other.say("script kill"), "+OK\r\n");
    client.reply();
    wait_until("it is given back", || memory(&mut other) < 10_000_000);
}

/// Memory bombs of a client's: each is an error, leaves nothing, and others are served meanwhile and
/// afterwards. The process stays below what the script and the state of Lua may take.
#[test]
fn a_script_that_takes_all_memory_ends() {
    const MOST: u64 = 512 << 20;
    // Whose memory is that of no other test.
    let server = ServerProcess::start(16);
    let (mut client, mut other) = (server.client(), server.client());
    let before = server.resident();
    for bomb in [
        "local t = {} while true do t[#t + 1] = string.rep('x', 2 ^ 20) .. #t end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2 ^ 31)",
        "local function f(...) return f(1, ...) end return f()",
        "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
    ] {
        let text = format!("redis.call('set', 'k', 'v') {bomb}");
        client.send(&request(&[b"EVAL", text.as_bytes(), b"0"]));
        assert_eq!(other.say("echo hello"), "$5\r\nhello\r\n");
        let reply = show(&client.reply());
        assert!(reply.starts_with('-'), "{bomb}: {reply}");
        assert_eq!(client.say("exists k"), ":0\r\n", "{bomb}");
        let more = server.resident().saturating_sub(before);
        assert!(more < MOST, "{bomb}: {more} bytes more");
    }
}

#[test]
fn a_script_is_stopped_at_the_limit() {
    let server = TestServer::shared();
    let mut client = server.client();
    assert_eq!(client.say("config set busy-reply-threshold 200"), "+OK\r\n");
    let begun = Instant::now();
    let reply = eval(
        &mut client,
        "redis.call('set', 'k', 'v') while true do end",
        &[],
        &[],
    );
    assert!(
        show(&reply).contains("busy-reply-threshold"),
        "{}",
        show(&reply)
    );
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(client.say("exists k"), ":0\r\n");
    // Nothing looks at the clock in the handler of an error by which a script ends.
    for handled in [
        "xpcall(function() while true do end end, function() while true do end end)",
        "xpcall(error, function() while true do end end)",
    ] {
        let reply = show(&eval(&mut client, handled, &[], &[]));
        assert!(reply.contains("busy-reply-threshold"), "{reply}");
    }
    // Between MULTI and EXEC too.
    client.say("multi");
    assert_eq!(
        eval(&mut client, "while true do end", &[], &[]),
        b"+QUEUED\r\n"
    );
    assert!(client.say("exec").contains("busy-reply-threshold"));
}

#[test]
fn a_script_is_part_of_the_clients_transaction() {
    let server = TestServer::shared();
    let mut client = server.client();
    let incr = "return redis.call('incr', KEYS[1])";
    assert_eq!(client.say("begin"), "+OK\r\n");
    assert_eq!(eval(&mut client, incr, &["part"], &[]), b":1\r\n");
    assert_eq!(eval(&mut client, incr, &["part"], &[]), b":2\r\n");
    assert_eq!(client.say("rollback"), "+OK\r\n");
    assert_eq!(client.say("exists part"), ":0\r\n");
    client.say("multi");
    for _ in 0..2 {
        assert_eq!(eval(&mut client, incr, &["part"], &[]), b"+QUEUED\r\n");
    }
    assert_eq!(client.say("exec"), "*2\r\n:1\r\n:2\r\n");
}

/// A script that only reads may look at all keys: it sees one snapshot.
#[test]
fn a_script_that_reads_sees_a_snapshot() {
    let server = TestServer::start(&bpfdb::Options {
        max_locks: 1000,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    client.say("mset snap1 a snap2 b");
    let keys = "local all = redis.call('keys', 'snap*') return #all";
    assert_eq!(eval(&mut client, keys, &[], &[]), b":2\r\n");
    // It is in nobody's way, and nobody in its.
    let mut other = server.client();
    other.say("begin");
    other.say("set snap3 c");
    assert_eq!(eval(&mut client, keys, &[], &[]), b":2\r\n");
    other.say("rollback");
    other.say("begin");
    other.say("keys *");
    assert_eq!(eval(&mut client, keys, &[], &[]), b":2\r\n");
    other.say("rollback");
    // One that reads more keys than a transaction has locks, too.
    let many = "local n = 0 for i = 1, 3000 do n = n + redis.call('exists', 'snap' .. i) end ";
    let counts = format!("{many} return n");
    assert_eq!(eval(&mut client, &counts, &[], &[]), b":2\r\n");
    let writes = format!("{many} redis.call('set', 'snap3', 'c') return n");
    let reply = show(&eval(&mut client, &writes, &[], &[]));
    assert!(reply.contains("too many locks"), "{reply}");
    assert_eq!(client.say("exists snap3"), ":0\r\n");
}

/// The scripts of redis-py's lock, as they are.
#[test]
fn locks_of_redis_py() {
    let (server, redis) = (TestServer::shared(), Redis::start());
    for mut client in [server.client(), Client::connect(redis.address)] {
        assert_eq!(client.say("set lock mine nx px 10000"), "+OK\r\n");
        assert_eq!(eval(&mut client, RELEASE, &["lock"], &["other"]), b":0\r\n");
        assert_eq!(
            eval(&mut client, EXTEND, &["lock"], &["mine", "5000", "0"]),
            b":1\r\n"
        );
        let left = client.say("pttl lock");
        let left: u64 = left
            .trim_start_matches(':')
            .trim_end()
            .parse()
            .expect("a number");
        assert!((14_000..=15_000).contains(&left), "{left}");
        assert_eq!(eval(&mut client, RELEASE, &["lock"], &["mine"]), b":1\r\n");
        assert_eq!(eval(&mut client, RELEASE, &["lock"], &["mine"]), b":0\r\n");
        assert_eq!(
            eval(&mut client, EXTEND, &["lock"], &["mine", "5000", "0"]),
            b":0\r\n"
        );
    }
}

#[test]
fn a_client_that_goes_away_takes_its_script_along() {
    let server = TestServer::shared();
    let mut gone = server.client();
    gone.send(&eval_request(
        "redis.call('set', 'gone', '1') while true do end",
        &[],
        &[],
    ));
    thread::sleep(Duration::from_millis(50));
    drop(gone);
    let mut client = server.client();
    wait_until("the key is free", || client.say("set gone 2") == "+OK\r\n");
    wait_until("nothing runs", || {
        client.say("script kill").starts_with("-NOTBUSY")
    });
}

/// It is not executed again and again, each time up to where memory ends.
#[test]
fn a_script_that_needs_more_memory_than_there_is_ends() {
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 128 << 20,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let script = "for i = 1, 1000 do redis.call('SET', 'm' .. i, string.rep('x', 1000000)) end";
    let enough = "CONFIG SET busy-reply-threshold 60000";
    assert_eq!(client.say(enough), "+OK\r\n");
    let begun = Instant::now();
    let reply = eval(&mut client, script, &[], &[]);
    // Or that more is being added, which it is not for a script of this size.
    assert!(
        reply[0] == b'-' && show(&reply).contains("memory"),
        "{}",
        show(&reply)
    );
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(8) || is_emulated(), "{took:?}");
    assert_eq!(
        eval(&mut client, "return redis.call('DBSIZE')", &[], &[]),
        b":0\r\n"
    );
}
