//! Every reply is compared with that of redis-server.

use std::collections::BTreeSet;

use super::common::{Client, Redis};
use super::{alone, ask, bulk};

const HEAD: &str = "#!lua name=lib\n";

/// Texts of libraries; after each all libraries are deleted.
const TEXTS: &[&str] = &[
    "return 1",
    "#!lua",
    "#!lua\n",
    "#!\n",
    "#!lua name=\n",
    "#!js name=a\n",
    "#!lua name=a b=c\n",
    "#!lua name=a name=b\n",
    "#!lua name=a-b\n",
    "#!lua name='a\n",
    "#!lua name=lib",
    "#!lua name=lib\n",
    "#!lua name=lib\nreturn (",
    "#!lua name=lib\nreturn 1",
    "#!lua  name=sp \nredis.register_function('sp', function() end)",
    "#!lua name=\"quo\"\nredis.register_function('quo', function() end)",
    "#!LUA NAME=upper\r\nredis.register_function('up', function() end)",
];

/// The same behind a first line.
const BODIES: &[&str] = &[
    "redis.register_function('f', function() return 1 end)",
    "redis.register_function('f', 1)",
    "redis.register_function('f-3', function() end)",
    "redis.register_function('', function() end)",
    "redis.register_function()",
    "redis.register_function('a')",
    "redis.register_function('a', 1, 2)",
    "redis.register_function(1, function() end)",
    "redis.register_function({}, function() end)",
    "redis.register_function{}",
    "redis.register_function{function_name='a'}",
    "redis.register_function{function_name=1, callback=function() end}",
    "redis.register_function{function_name={}, callback=function() end}",
    "redis.register_function{callback=function() end}",
    "redis.register_function{function_name='a', callback=1}",
    "redis.register_function{function_name='a', callback=function() end, description=1}",
    "redis.register_function{function_name='a', callback=function() end, description={}}",
    "redis.register_function{function_name='a', callback=function() end, flags=1}",
    "redis.register_function{function_name='a', callback=function() end, flags={'x'}}",
    "redis.register_function{function_name='a', callback=function() end, flags={1}}",
    "redis.register_function{function_name='a', callback=function() end, nope=1}",
    "redis.register_function{function_name='a', callback=function() end, [1]=1}",
    "redis.register_function{function_name='a', callback=function() end, [{}]=1}",
    "redis.register_function('a', function() end) redis.register_function('a', function() end)",
    "redis.register_function{function_name='a', callback=function() end, description='about', flags={'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'}}",
    "redis.register_function{function_name='a', callback=function() end, description='', flags={}}",
    "redis.call('set', 'a', 'b')",
    "local x = redis.nope",
    "x = 1",
    "redis.x = 1",
    "local x = y",
    "local x = math.floor(1)",
    "local x = tostring(1)",
    "redis.log(redis.LOG_WARNING, 'x')",
    "redis.log(1)",
    "redis.log('a', 'x')",
    "redis.log(99, 'x')",
    "error('boom')",
    "local t = nil; t.x = 1",
    "local r = _G.redis",
    "redis.setresp(3)",
    "redis.error_reply('a')",
    "while true do end",
];

fn same(clients: &mut [Client; 2], words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    same_bytes(clients, &words)
}

fn same_bytes(clients: &mut [Client; 2], words: &[&[u8]]) -> String {
    let told = |reply: Vec<u8>| reply.escape_ascii().to_string();
    let [ours, theirs] = clients.each_mut().map(|client| told(client.ask(words)));
    assert_eq!(ours, theirs, "{}", words.join(&b' ').escape_ascii());
    ours
}

#[test]
fn libraries_are_loaded_and_refused_as_in_redis() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    for protocol in ["2", "3"] {
        for client in &mut clients {
            client.say(&format!("hello {protocol}"));
        }
        let bodies = BODIES.iter().map(|body| [HEAD, body].concat());
        for text in TEXTS.iter().map(|&text| text.to_owned()).chain(bodies) {
            same(&mut clients, &["FUNCTION", "LOAD", &text]);
            same(&mut clients, &["FUNCTION", "LIST", "WITHCODE"]);
            same(&mut clients, &["FUNCTION", "FLUSH"]);
        }
    }
}

const CALLED: &str = "#!lua name=called
local kept = redis
redis.register_function('writes', function(keys, args) return redis.call('set', keys[1], args[1]) end)
redis.register_function{function_name='reads', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}
redis.register_function{function_name='lies', callback=function(keys) return redis.call('set', keys[1], 1) end, flags={'no-writes'}}
redis.register_function('words', function(keys, args) return {#keys, #args, keys[1], args[1]} end)
redis.register_function('fails', function() error('x') end)
redis.register_function('fails_so', function() error({err='MY x'}) end)
redis.register_function('keys', function() return KEYS end)
redis.register_function('global', function() x = 1 end)
redis.register_function('kept', function() return kept.call('get', 'x') end)
redis.register_function('nonsense', function() return redis.call('nonsense') end)
redis.register_function('caught', function() return redis.pcall('nonsense') end)
redis.register_function('double', function() redis.setresp(3) return {double=1.5} end)
redis.register_function('map', function() return {map={a=1}} end)
redis.register_function('inner', function() return redis.call('fcall', 'reads', 0) end)
redis.register_function('status', function() return redis.status_reply('FINE') end)
redis.register_function('libraries', function() return {type(math), type(cjson), type(bit), type(struct), type(cmsgpack), type(table), type(string), type(coroutine)} end)
redis.register_function('none', function() return redis.register_function end)
";

#[test]
fn functions_reply_as_in_redis() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    for protocol in ["2", "3"] {
        for client in &mut clients {
            client.say(&format!("hello {protocol}"));
            client.say("del k");
        }
        same(&mut clients, &["FUNCTION", "LOAD", "REPLACE", CALLED]);
        for name in [
            "reads",
            "writes",
            "READS",
            "lies",
            "words",
            "fails",
            "fails_so",
            "keys",
            "global",
            "kept",
            "nonsense",
            "caught",
            "double",
            "map",
            "inner",
            "status",
            "libraries",
            "none",
            "absent",
        ] {
            for command in ["FCALL", "FCALL_RO"] {
                same(&mut clients, &[command, name, "1", "k", "a"]);
            }
        }
        same(&mut clients, &["FUNCTION", "STATS"]);
    }
}

#[test]
fn requests_are_refused_as_in_redis() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    let one = "#!lua name=one\nredis.register_function('f', function() return 1 end)";
    let two = "#!lua name=two\nredis.register_function('f', function() return 1 end)";
    same(&mut clients, &["FUNCTION", "LOAD", one]);
    for text in [one, two] {
        same(&mut clients, &["FUNCTION", "LOAD", text]);
        same(&mut clients, &["FUNCTION", "LOAD", "REPLACE", text]);
    }
    for request in [
        "FUNCTION",
        "FUNCTION NOPE",
        "FUNCTION LOAD",
        "FUNCTION LOAD a b c",
        "FUNCTION LOAD NOPE x",
        "FUNCTION LIST LIBRARYNAME",
        "FUNCTION LIST LIBRARYNAME a LIBRARYNAME b",
        "FUNCTION LIST WITHCODE WITHCODE",
        "FUNCTION LIST X",
        "FUNCTION LIST LIBRARYNAME o*",
        "FUNCTION LIST LIBRARYNAME O*",
        "FUNCTION LIST withcode libraryname [n-p]ne",
        "FUNCTION DELETE",
        "FUNCTION DELETE nope",
        "FUNCTION DELETE ONE",
        "FUNCTION STATS x",
        "FUNCTION KILL",
        "FUNCTION FLUSH X",
        "FUNCTION FLUSH SYNC x",
        "FUNCTION DUMP x",
        "FUNCTION RESTORE",
        "FUNCTION RESTORE x",
        "FUNCTION RESTORE x y",
        "FUNCTION RESTORE x y z",
        "FCALL",
        "FCALL f",
        "FCALL f 0",
        "FCALL F 0",
        "FCALL f x",
        "FCALL f 1",
        "FCALL f -1",
        "FCALL nope x",
        "FCALL_RO f 0",
        "FCALL_RO f x",
        "FUNCTION DELETE one",
        "FUNCTION DELETE one",
        "FCALL f 0",
        "FUNCTION FLUSH ASYNC",
        "FUNCTION DUMP",
        "FUNCTION STATS",
    ] {
        let words: Vec<&str> = request.split(' ').collect();
        same(&mut clients, &words);
    }
}

/// Bytes of a payload with version and checksum, without any library of Redis's or ours.
fn sealed(content: &[u8]) -> Vec<u8> {
    let mut payload = [content, &10_u16.to_le_bytes()].concat();
    let mut sum = 0_u64;
    for byte in &payload {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1
                ^ if sum & 1 == 1 {
                    0x95ac_9329_ac4b_c9b5
                } else {
                    0
                };
        }
    }
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

fn payload(texts: &[&str]) -> Vec<u8> {
    let mut content = Vec::new();
    for text in texts {
        content.extend_from_slice(&[0xf5, 0x40 | (text.len() >> 8) as u8, text.len() as u8]);
        content.extend_from_slice(text.as_bytes());
    }
    sealed(&content)
}

#[test]
fn payloads_are_restored_and_refused_as_in_redis() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    let one = "#!lua name=one\nredis.register_function('f', function() return 1 end)";
    let one_more = "#!lua name=one\nredis.register_function('h', function() return 1 end)";
    let two = "#!lua name=two\nredis.register_function('g', function() return 2 end)";
    let thief = "#!lua name=thief\nredis.register_function('f', function() return 3 end)";
    let bad = "#!lua name=bad\nx = 1";
    for (texts, policy) in [
        (&[one][..], "APPEND"),
        (&[one], "APPEND"),
        (&[one_more], "append"),
        (&[one_more], "REPLACE"),
        (&[one], "REPLACE"),
        (&[thief], "REPLACE"),
        (&[thief], "APPEND"),
        (&[two, thief], "APPEND"),
        (&[two, one, one], "REPLACE"),
        (&[two, bad], "FLUSH"),
        (&[two, "nothing"], "FLUSH"),
        (&[two], "FLUSH"),
        (&[thief], "APPEND"),
        (&[], "APPEND"),
        (&[], "FLUSH"),
    ] {
        let payload = payload(texts);
        same_bytes(
            &mut clients,
            &[b"FUNCTION", b"RESTORE", &payload, policy.as_bytes()],
        );
        for function in ["f", "g", "h"] {
            same(&mut clients, &["FCALL", function, "0"]);
        }
        same(&mut clients, &["FUNCTION", "STATS"]);
    }
    for content in [&[0, 1, b'a'][..], &[0xf5, 0xff]] {
        same_bytes(&mut clients, &[b"FUNCTION", b"RESTORE", &sealed(content)]);
    }
}

/// A payload of Redis, with texts that it has compressed, here; ours there; and back.
#[test]
fn payloads_go_both_ways() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    for i in 0..20 {
        let comment = "-- the same again and again ".repeat(i * 20);
        let text = format!(
            "#!lua name=l{i}\n{comment}\nredis.register_function('f{i}', function() return {i} end)"
        );
        for client in &mut clients {
            assert!(ask(client, &["FUNCTION", "LOAD", &text]).starts_with('$'));
        }
    }
    let [ours, theirs] = clients
        .each_mut()
        .map(|client| bulk(&client.ask(&[b"FUNCTION", b"DUMP"])));
    assert!(theirs.len() < ours.len() / 2, "Redis compresses");
    for (number, payload) in [(0, &theirs), (1, &ours), (0, &ours)] {
        let client = &mut clients[number];
        assert_eq!(client.say("function flush"), "+OK\r\n");
        assert_eq!(client.ask(&[b"FUNCTION", b"RESTORE", payload]), b"+OK\r\n");
        for i in 0..20 {
            assert_eq!(client.say(&format!("fcall f{i} 0")), format!(":{i}\r\n"));
        }
    }
    assert_eq!(bulk(&clients[0].ask(&[b"FUNCTION", b"DUMP"])), ours);
}

#[test]
fn commands_are_described_as_in_redis() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    for name in [
        "eval",
        "eval_ro",
        "evalsha",
        "evalsha_ro",
        "fcall",
        "fcall_ro",
    ] {
        same(&mut clients, &["COMMAND", "INFO", name]);
    }
    for name in [
        "load", "list", "stats", "kill", "restore", "delete", "dump", "flush", "help",
    ] {
        same(
            &mut clients,
            &["COMMAND", "INFO", &format!("function|{name}")],
        );
    }
    for request in [
        "EVAL x 2 a b c",
        "EVAL x 0 a",
        "EVAL x z a",
        "EVAL x 5 a",
        "EVAL x -1 a",
        "EVAL x",
        "EVALSHA x 1 a b",
        "FCALL x 2 a b",
        "FCALL_RO x 2 a b",
        "FUNCTION LIST",
    ] {
        for command in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let words: Vec<&str> = ["COMMAND", command]
                .into_iter()
                .chain(request.split(' '))
                .collect();
            same(&mut clients, &words);
        }
    }
}

/// Names and types of all that a script finds, and what strings can do.
const WALK: &str = "
local names, seen = {}, {}
local function walk(path, t)
  if seen[t] then return end
  seen[t] = true
  for name, value in pairs(t) do
    name = path .. tostring(name)
    names[#names + 1] = name .. ':' .. type(value)
    if type(value) == 'table' then walk(name .. '.', value) end
  end
end
walk('', _G)
for name in pairs(getmetatable('').__index) do names[#names + 1] = 'strings:' .. name end
return table.concat(names, ' ')
";

/// Nothing is there that Redis does not give to scripts and functions, and what is missing is no loss:
/// what Redis's own wrapper of a script left behind.
#[test]
fn scripts_find_what_they_find_in_redis() {
    let (server, redis) = (alone(), Redis::start());
    let mut clients = [server.client(), Client::connect(redis.address)];
    let library = format!("{HEAD}redis.register_function('walk', function(KEYS, ARGV) {WALK} end)");
    same(&mut clients, &["FUNCTION", "LOAD", &library]);
    for words in [["EVAL", WALK, "0"], ["FCALL", "walk", "0"]] {
        let [ours, theirs] = clients.each_mut().map(|client| {
            let words = words.map(str::as_bytes);
            let names = String::from_utf8(bulk(&client.ask(&words))).expect("names");
            names.split(' ').map(String::from).collect::<BTreeSet<_>>()
        });
        assert!(ours.len() > 100, "{ours:?}");
        let only_ours: Vec<_> = ours.difference(&theirs).collect();
        assert!(only_ours.is_empty(), "{}: {only_ours:?}", words[0]);
        let only_theirs: Vec<_> = theirs.difference(&ours).collect();
        let expected: &[&str] = match words[0] {
            "EVAL" => &["__redis__err__handler:function"],
            _ => &[],
        };
        assert_eq!(only_theirs, expected, "{}", words[0]);
    }
}
