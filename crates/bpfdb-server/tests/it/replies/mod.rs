//! What is replied to what: tables in `tests/replies/*.txt`, compared on every path on which a
//! request is answered, in transactions too, and with Redis.
//!
//! | path                       | the requests                                                 |
//! |----------------------------|--------------------------------------------------------------|
//! | TCP                        | one by one; a pipeline; in MULTI … EXEC; in BEGIN … COMMIT   |
//! | a client's own `send()`    | the same                                                     |
//! | the Unix socket            | the same, by the daemon only                                 |
//! | redis-server               | the same, but for BEGIN                                      |
//!
//! What is one connection's is a pipeline, too. A section is run in transactions if all of it is one connection's and it has none itself. What
//! is refused stands between them: a refusal ends a block.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod script;
mod shown;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;

use bpfdb_server::settings::{LocalClients, Settings};
use bpfdb_tests::server as common;
use common::{Client, Redis, Reply, TestServer, cgroup, request, wait_until};
use script::{Ask, Script, Section, Step};
use shown::Shown;

/// These begin or end a transaction, change a connection or look at all keys.
const ALONE: [&str; 18] = [
    "multi",
    "exec",
    "discard",
    "watch",
    "unwatch",
    "begin",
    "commit",
    "rollback",
    "hello",
    "reset",
    "quit",
    "client",
    "select",
    "flushall",
    "flushdb",
    "keys",
    "scan",
    "randomkey",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    OneByOne,
    /// All in one message.
    Pipeline,
    Multi,
    Begin,
}

/// A server, and the way there.
struct Place<'a> {
    name: &'static str,
    connect: &'a dyn Fn() -> Client,
    is_redis: bool,
    /// How many requests were answered in their own `send()`, where they are.
    local: Option<&'a dyn Fn() -> u64>,
}

/// What came of some scripts.
#[derive(Default)]
struct Outcome {
    compared: usize,
    /// Each with the place in its file.
    differences: Vec<String>,
}

impl Place<'_> {
    fn run(&self, script: &Script, how: How, outcome: &mut Outcome) {
        for section in &script.sections {
            if self.is_redis && section.is_unlike_redis {
                continue;
            }
            let talk = Talk {
                place: self,
                file: &script.name,
                how,
                outcome: &mut *outcome,
            };
            match how {
                How::OneByOne => talk.one_by_one(section),
                How::Pipeline if is_of_one(section) => talk.pipeline(section),
                How::Multi | How::Begin if goes_together(section) => talk.together(section),
                _ => continue,
            }
            self.empty();
        }
    }

    /// Waits until the transactions of connections that are gone are over, too.
    fn empty(&self) {
        let mut client = (self.connect)();
        wait_until("all keys are gone", || client.say("FLUSHALL") == "+OK\r\n");
    }
}

/// All of it is said by one connection, without a pause.
fn is_of_one(section: &Section) -> bool {
    let fits = |step: &Step| matches!(step, Step::Ask(ask) if ask.connection.is_empty());
    section.steps.iter().all(fits)
}

fn goes_together(section: &Section) -> bool {
    let fits = |ask: &Ask| {
        let name = String::from_utf8_lossy(&ask.words[0]).to_ascii_lowercase();
        !ALONE.contains(&&*name)
    };
    !section.is_for_commands_alone && is_of_one(section) && section.asked().all(fits)
}

/// One script at one place.
struct Talk<'a> {
    place: &'a Place<'a>,
    file: &'a str,
    how: How,
    outcome: &'a mut Outcome,
}

impl Talk<'_> {
    fn one_by_one(mut self, section: &Section) {
        let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
        let counted = self.place.local.filter(|_| section.is_the_kernels);
        let before = counted.map(|local| {
            let client = clients.entry("").or_insert_with(|| (self.place.connect)());
            wait_until("requests are answered in send()", || {
                let before = local();
                client.say("PING");
                local() > before
            });
            local()
        });
        for step in &section.steps {
            match step {
                Step::Wait(time) => thread::sleep(*time),
                Step::Ask(ask) => {
                    let connect = || (self.place.connect)();
                    let client = clients.entry(&ask.connection).or_insert_with(connect);
                    let reply = said(client, &request(&ask.words()));
                    self.compare(ask, reply.as_ref());
                }
            }
        }
        if let (Some(local), Some(before)) = (counted, before) {
            let (answered, asked) = (local() - before, section.asked().count());
            if answered != asked as u64 {
                let title = &section.title;
                let text = format!("{title}: the kernel answered {answered} of {asked} requests");
                self.outcome
                    .differences
                    .push(format!("{}: {text}", self.file));
            }
        }
    }

    fn pipeline(mut self, section: &Section) {
        let mut client = (self.place.connect)();
        let requests = section.asked().flat_map(|ask| request(&ask.words()));
        let mut bytes: Vec<u8> = requests.collect();
        for ask in section.asked() {
            let reply = said(&mut client, &std::mem::take(&mut bytes));
            self.compare(ask, reply.as_ref());
        }
    }

    fn together(mut self, section: &Section) {
        let mut client = (self.place.connect)();
        let asked: Vec<&Ask> = section.asked().collect();
        for group in asked.chunk_by(|a, b| !a.reply.is_error() && !b.reply.is_error()) {
            match self.how {
                _ if group[0].reply.is_error() => {
                    let reply = said(&mut client, &request(&group[0].words()));
                    self.compare(group[0], reply.as_ref());
                }
                How::Begin => {
                    self.expect(group[0], &mut client, &request(&[b"BEGIN"]));
                    for ask in group {
                        let reply = said(&mut client, &request(&ask.words()));
                        self.compare(ask, reply.as_ref());
                    }
                    self.expect(group[0], &mut client, &request(&[b"COMMIT"]));
                }
                _ => self.block(group, &mut client),
            }
        }
    }

    /// MULTI … EXEC in one message.
    fn block(&mut self, group: &[&Ask], client: &mut Client) {
        let mut bytes = request(&[b"MULTI"]);
        group
            .iter()
            .for_each(|ask| bytes.extend(request(&ask.words())));
        bytes.extend(request(&[b"EXEC"]));
        self.expect(group[0], client, &bytes);
        for ask in group {
            let reply = said(client, b"");
            if !reply.as_ref().is_some_and(|reply| reply.is("QUEUED")) {
                self.differs(ask, reply.as_ref(), "+QUEUED");
            }
        }
        let result = said(client, b"");
        let items = result.as_ref().map_or(&[][..], |result| &result.items[..]);
        if items.len() == group.len() {
            for (ask, reply) in group.iter().zip(items) {
                self.compare(ask, Some(reply));
            }
        } else {
            let expected = format!("[{} replies of EXEC]", group.len());
            self.differs(group[0], result.as_ref(), &expected);
        }
    }

    /// What begins or ends a transaction.
    fn expect(&mut self, ask: &Ask, client: &mut Client, bytes: &[u8]) {
        let reply = said(client, bytes);
        if !reply.as_ref().is_some_and(|reply| reply.is("OK")) {
            self.differs(ask, reply.as_ref(), "+OK of the transaction around it");
        }
    }

    fn compare(&mut self, ask: &Ask, reply: Option<&Reply>) {
        if self.place.is_redis && ask.is_unlike_redis {
            return;
        }
        self.outcome.compared += 1;
        if !reply.is_some_and(|reply| ask.reply.matches(reply)) {
            self.differs(ask, reply, &ask.reply_text);
        }
    }

    fn differs(&mut self, ask: &Ask, reply: Option<&Reply>, expected: &str) {
        let (file, line, request) = (self.file, ask.line, &ask.request_text);
        let (place, how) = (self.place.name, self.how);
        let reply = reply.map_or("(closed)".to_owned(), shown::show);
        self.outcome.differences.push(format!(
            "{file}:{line}: {request}\n  expected {expected}\n  replied  {reply}\n  ({place}, {how:?})"
        ));
    }
}

/// Sends the bytes; the next reply, unless the connection ends.
fn said(client: &mut Client, bytes: &[u8]) -> Option<Reply> {
    // Whether it could be sent is seen at the reply.
    let _ = client.stream.write_all(bytes);
    let reply = client.try_reply().ok()?;
    Reply::parse(&reply).map(|(reply, _)| reply)
}

fn scripts() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replies");
    let entries = fs::read_dir(folder).expect("the folder of scripts");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let scripts = paths.iter().map(|path| {
        let name = path.file_name().expect("a file").to_string_lossy();
        let text = fs::read_to_string(path).expect("a script");
        Script::parse(&format!("tests/replies/{name}"), &text)
            .unwrap_or_else(|error| panic!("{error}"))
    });
    scripts.collect()
}

/// Runs all scripts in these ways.
fn check(place: &Place<'_>, ways: &[How]) {
    let scripts = scripts();
    for &how in ways {
        let mut outcome = Outcome::default();
        for script in &scripts {
            place.run(script, how, &mut outcome);
        }
        let differences = &outcome.differences;
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        assert!(outcome.compared > 100, "{how:?}: {}", outcome.compared);
    }
}

fn told(local_clients: LocalClients) -> Settings {
    Settings {
        bind: Ipv4Addr::LOCALHOST.into(),
        local_clients,
        ..Settings::default()
    }
}

/// Redis has all but the last.
const ALL: [How; 4] = [How::OneByOne, How::Pipeline, How::Multi, How::Begin];

/// Of a server that answers in the kernel: requests that it has, and those of them in send().
fn counted(server: &TestServer) -> (u64, u64) {
    let counters = server.engine.counters().expect("figures");
    let counters = counters.redis();
    (counters.requests_by_kernel(), counters.net.requests_local)
}

#[test]
fn over_tcp() {
    let server = TestServer::lent_as_told(&bpfdb::Options::default(), told(LocalClients::Off));
    let before = counted(&server);
    let place = Place {
        name: "TCP",
        connect: &|| server.client(),
        is_redis: false,
        local: None,
    };
    check(&place, &ALL);
    let after = counted(&server);
    assert!(after.0 > before.0 || !common::kernel_answers());
    assert_eq!(after.1, before.1);
}

#[test]
fn in_their_own_send() {
    let settings = told(LocalClients::In(cgroup::own()));
    let server = TestServer::lent_as_told(&bpfdb::Options::default(), settings);
    // Some sections say which requests the kernel answers.
    server.loader.wait();
    let before = counted(&server);
    let local: &dyn Fn() -> u64 = &|| counted(&server).1;
    let place = Place {
        name: "in send()",
        connect: &|| server.client(),
        is_redis: false,
        local: common::kernel_answers().then_some(local),
    };
    check(&place, &ALL);
    assert!(counted(&server).1 > before.1 || !common::kernel_answers());
}

#[test]
fn over_the_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let settings = Settings {
        unix_socket: Some(path.clone()),
        ..told(LocalClients::Off)
    };
    let server = TestServer::start_as_told(&bpfdb::Options::default(), settings);
    let place = Place {
        name: "Unix socket",
        connect: &|| Client::connect_unix(&path),
        is_redis: false,
        local: None,
    };
    check(&place, &ALL);
    assert_eq!(counted(&server), (0, 0));
}

#[test]
fn on_redis() {
    let redis = Redis::start();
    let place = Place {
        name: "redis-server",
        connect: &|| Client::connect(redis.address),
        is_redis: true,
        local: None,
    };
    check(&place, &ALL[..3]);
}

// ---- The runner itself ---------------------------------------------------------------

/// Lines 4, 5, 8 and 11 are wrong; 11 is said to be unlike Redis.
const WRONG: &str = r#"
== section
SET a 1          -> +OK
GET a            -> "2"
MGET a b
    -> ["1", "no"]
INCR a           -> :2
GET              -> -ERR another text
other: GET a     -> "2"
STRLEN a         -> :1
STRLEN b         -> :7
    unlike Redis: to see that this is not compared there
== section
GET a            -> nil
TTL a            -> :<-3..-1>
"#;

#[test]
fn a_wrong_reply_is_told_with_its_line() {
    let redis = Redis::start();
    let mut place = Place {
        name: "redis-server",
        connect: &|| Client::connect(redis.address),
        is_redis: true,
        local: None,
    };
    let lines = |outcome: Outcome| -> Vec<String> {
        let start = |text: &String| text.split(": ").next().expect("a place").to_owned();
        outcome.differences.iter().map(start).collect()
    };
    let script = Script::parse("wrong.txt", WRONG).expect("a script");
    let mut outcome = Outcome::default();
    place.run(&script, How::OneByOne, &mut outcome);
    assert_eq!(outcome.compared, 9);
    let first =
        "wrong.txt:4: GET a\n  expected \"2\"\n  replied  \"1\"\n  (redis-server, OneByOne)";
    assert_eq!(outcome.differences[0], first);
    assert_eq!(
        lines(outcome),
        ["wrong.txt:4", "wrong.txt:5", "wrong.txt:8"]
    );

    // The same where it is not Redis that replies, and in a block.
    place.is_redis = false;
    let mut outcome = Outcome::default();
    place.run(&script, How::OneByOne, &mut outcome);
    assert_eq!(lines(outcome).last().expect("one"), "wrong.txt:11");
    let one = WRONG.replace("other: ", "");
    let script = Script::parse("wrong.txt", &one).expect("a script");
    for how in [How::Pipeline, How::Multi] {
        let mut outcome = Outcome::default();
        place.run(&script, how, &mut outcome);
        let all = ["wrong.txt:4", "wrong.txt:5", "wrong.txt:8", "wrong.txt:11"];
        assert_eq!(lines(outcome), all, "{how:?}");
    }
}

#[test]
fn mistakes_in_scripts_are_told_with_their_line() {
    for (text, expected) in [
        ("", "x.txt: nothing in it"),
        ("GET a -> nil", "x.txt:1: no section"),
        ("    -> nil", "line 1: belongs to none"),
        ("== s\n\nGET a", "x.txt:3: no reply"),
        ("== s\n-> nil", "x.txt:2: no request"),
        ("== s\nGET a ->", "x.txt:2: no reply: "),
        ("== s\nGET a -> nil nil", "x.txt:2: behind the reply:  nil"),
        ("== s\nGET \"a -> nil", "x.txt:2: no end of \"a -> nil"),
        ("== s\nGET <any> -> [nil", "x.txt:2: no , before "),
        ("== s\nGET a -> {\"a\"}", "x.txt:2: a name without a value"),
        ("== s\nGET a -> :<1-2>", "x.txt:2: no range: 1-2>"),
        (
            "== s\nGET a -> nil\n    unlike Redis:",
            "x.txt:2: no reason",
        ),
        ("== s\nunlike Redis: ", "x.txt:2: no reason"),
        ("== s\nwait long ms", "x.txt:2: no number: long"),
    ] {
        let error = Script::parse("x.txt", text).expect_err(text);
        assert_eq!(error, expected, "{text:?}");
    }
}

/// As it came, as it is shown.
const REPLIES: [(&str, &str); 18] = [
    ("+OK\r\n", "+OK"),
    ("-ERR a, b\r\n", "-ERR a, b"),
    (":-5\r\n", ":-5"),
    ("$-1\r\n", "nil"),
    ("*-1\r\n", "*nil"),
    ("_\r\n", "null"),
    ("$0\r\n\r\n", r#""""#),
    ("$5\r\na\r\n\"\\\r\n", r#""a\r\n\"\\""#),
    ("$3\r\n\0\u{7f}'\r\n", r#""\x00\x7f'""#),
    ("*0\r\n", "[]"),
    ("*2\r\n:1\r\n*1\r\n$1\r\na\r\n", r#"[:1, ["a"]]"#),
    ("*2\r\n-ERR a, b\r\n+OK\r\n", r#"[-"ERR a, b", +OK]"#),
    ("%1\r\n$1\r\na\r\n,1.5\r\n", r#"{"a": ,1.5}"#),
    ("~1\r\n#t\r\n", "~[#t]"),
    (">2\r\n+a\r\n(123\r\n", ">[+a, (123]"),
    ("=7\r\ntxt:a b\r\n", r#"="txt:a b""#),
    ("!5\r\nERR x\r\n", r#"!"ERR x""#),
    ("+\"\r\n", r#"+"\"""#),
];

#[test]
fn replies_come_back() {
    for (bytes, text) in REPLIES {
        let (reply, _) = Reply::parse(bytes.as_bytes()).expect(text);
        assert_eq!(shown::show(&reply), text);
        let shown = Shown::parse(text).expect(text);
        for (other, _) in REPLIES {
            let (reply, _) = Reply::parse(other.as_bytes()).expect(text);
            assert_eq!(shown.matches(&reply), other == bytes, "{text}, {other:?}");
        }
    }
}

#[test]
fn patterns_match_what_they_should() {
    for (pattern, bytes, expected) in [
        ("<any>", "*1\r\n:5\r\n", true),
        (":<1..5>", ":5\r\n", true),
        (":<1..5>", ":6\r\n", false),
        (":<1..5>", "$1\r\n5\r\n", false),
        ("-ERR <any>", "-ERR \r\n", true),
        ("-ERR <any>", "+ERR x\r\n", false),
        (r#""a<any>b<any>c""#, "$5\r\naxbyc\r\n", true),
        (r#""a<any>b<any>c""#, "$4\r\naxyc\r\n", false),
        (r#""ab<any>bc""#, "$3\r\nabc\r\n", false),
        (r#""a"*3"#, "$3\r\naaa\r\n", true),
        ("[:1, <any>]", "*2\r\n:1\r\n$-1\r\n", true),
        ("[:1, <any>]", "*1\r\n:1\r\n", false),
    ] {
        let (reply, _) = Reply::parse(bytes.as_bytes()).expect(bytes);
        let shown = Shown::parse(pattern).expect(pattern);
        assert_eq!(shown.matches(&reply), expected, "{pattern}, {bytes:?}");
    }
}
