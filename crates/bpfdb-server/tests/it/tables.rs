//! TABLE: clients ask tables through the server. What they are told is what a map says; a client that is hostile, or gone, is
//! nobody else's business.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::thread;

use bpfdb_server::settings::{Settings, TablesBy};
use bpfdb_server::testing::{Protocol, Replies};
use bpfdb_table::{Field, Options, Writer};
use bpfdb_tests::random::Random;
use bpfdb_tests::server::{Client, Lent, TestServer, bulk, request, show, wait_until};
use tempfile::TempDir;

use super::groups::figure;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A server, and its folder of tables.
struct Asked {
    server: Lent,
    folder: TempDir,
}

fn numbers(count: u32) -> Model {
    let entry = |number: u32| (number.to_be_bytes().to_vec(), number.to_string().into());
    (0..count).map(entry).collect()
}

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

impl Asked {
    fn new(by: TablesBy) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            tables_dir: Some(folder.path().into()),
            tables_by: by,
            ..Settings::default()
        };
        let server = TestServer::lent_new(&bpfdb::Options::default(), settings);
        Self { server, folder }
    }

    /// With the table `t` of these entries, open.
    fn with(by: TablesBy, model: &Model) -> (Self, Client) {
        let asked = Self::new(by);
        asked.write("t", model, 512);
        let mut client = asked.server.client();
        assert_eq!(client.say("TABLE OPEN t"), "+OK\r\n");
        (asked, client)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, model: &Model, block_size: u32) {
        let options = Options {
            block_size,
            ..Options::default()
        };
        let mut writer = Writer::create(&self.path(name), &options).expect("created");
        for (key, value) in model {
            writer.push(key, value).expect("pushed");
        }
        writer.finish().expect("finished");
    }
}

/// What is expected of `TABLE RANGE`.
fn entries<'a>(
    protocol: Protocol,
    found: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> Vec<u8> {
    let found: Vec<_> = found.collect();
    let mut replies = Replies::new(protocol);
    replies.array(found.len());
    for (key, value) in found {
        replies.array(2);
        replies.bulk(key);
        replies.bulk(value);
    }
    replies.take()
}

fn value(protocol: Protocol, value: Option<&[u8]>) -> Vec<u8> {
    let mut replies = Replies::new(protocol);
    replies.bulk_or_null(value);
    replies.take()
}

fn random_key(random: &mut Random) -> Vec<u8> {
    let len = random.below(6);
    (0..len).map(|_| b"\0ab+-\xff"[random.below(6)]).collect()
}

fn random_value(random: &mut Random) -> Vec<u8> {
    match random.below(3) {
        0 => (random.number() as i64 >> random.below(64))
            .to_string()
            .into(),
        1 => random.number().to_le_bytes()[..random.below(9)].to_vec(),
        _ => vec![random.number() as u8; random.below(200)],
    }
}

/// One random question, and what is to be replied.
fn compare(client: &mut Client, protocol: Protocol, model: &Model, random: &mut Random) {
    let (from, to) = (random_key(random), random_key(random));
    // `-` and `+` are the ends.
    let begin = if from == b"-" {
        Vec::new()
    } else {
        from.clone()
    };
    let is_within = |key: &[u8]| key >= &begin[..] && (to == b"+" || key < &to[..]);
    let within = || model.iter().filter(|(key, _)| is_within(key));
    let field = ["0:text", "0:u8", "1:i16", "0:u64", "0:i64", "2:u32"][random.below(6)];
    let of: Field = field.parse().expect("a field");
    let fields = || within().filter_map(|(_, value)| of.read(value));
    let number = |number: Option<i128>| {
        let text = number.map(|number| number.to_string());
        value(protocol, text.as_ref().map(String::as_bytes))
    };
    let count = |count: usize| format!(":{count}\r\n").into_bytes();
    let (question, expected): (&[&[u8]], _) = match random.below(8) {
        0 => (
            &[b"GET", b"t", &from],
            value(protocol, model.get(&from).map(|value| &value[..])),
        ),
        1 => (&[b"RANGE", b"t", &from, &to], entries(protocol, within())),
        2 => (
            &[b"RANGE", b"t", &from, &to, b"limit", b"3"],
            entries(protocol, within().take(3)),
        ),
        3 => (&[b"COUNT", b"t", &from, &to], count(within().count())),
        4 => (
            &[b"count", b"t", &from, &to, b"FIELD", field.as_bytes()],
            count(fields().count()),
        ),
        5 => (
            &[b"SUM", b"t", &from, &to, b"FIELD", field.as_bytes()],
            number(Some(fields().sum())),
        ),
        6 => (
            &[b"MIN", b"t", &from, &to, b"FIELD", field.as_bytes()],
            number(fields().min()),
        ),
        _ => (
            &[b"MAX", b"t", &from, &to, b"FIELD", field.as_bytes()],
            number(fields().max()),
        ),
    };
    let words = [&[&b"TABLE"[..]], question].concat();
    let reply = client.ask(&words);
    assert_eq!(show(&reply), show(&expected), "{words:?}");
}

fn answers_are_those_of_a_map(by: TablesBy) -> (u64, u64) {
    let asked = Asked::new(by);
    let mut random = Random::new(53);
    let mut client = asked.server.client();
    for (count, block_size) in [(0, 512), (1, 512), (300, 512), (3000, 512), (3000, 4096)] {
        let model = (0..count)
            .map(|_| (random_key(&mut random), random_value(&mut random)))
            .collect();
        asked.write("t", &model, block_size);
        assert_eq!(client.say("TABLE OPEN t"), "+OK\r\n");
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            client.say(&format!("HELLO {}", protocol.version()));
            for _ in 0..150 {
                compare(&mut client, protocol, &model, &mut random);
            }
        }
        client.say("HELLO 2");
    }
    let [kernel, pool, process] = ["by_kernel", "from_pool", "by_process"]
        .map(|by| figure(&mut client, &format!("table_questions_{by}")));
    assert_eq!(figure(&mut client, "tables_open"), 1);
    assert_eq!(kernel + pool + process, 5 * 2 * 150);
    (kernel, process)
}

#[test]
fn the_kernel_answers_as_a_map_does() {
    let (kernel, process) = answers_are_those_of_a_map(TablesBy::Kernel);
    assert!(kernel > 0, "chains have run");
    assert_eq!(process, 0);
}

#[test]
fn the_process_answers_as_a_map_does() {
    let (kernel, process) = answers_are_those_of_a_map(TablesBy::Process);
    assert_eq!((kernel, process), (0, 5 * 2 * 150));
}

/// A machine without io_uring: for this thread, and for those that it starts.
fn forbid_io_uring() {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        // The number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program is one of four statements, which the kernel copies.
    let outcome = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn without_io_uring_the_process_answers() {
    let alone = thread::spawn(|| {
        forbid_io_uring();
        let (asked, mut client) = Asked::with(TablesBy::Auto, &numbers(100));
        assert_eq!(client.say("TABLE COUNT t - +"), ":100\r\n");
        assert_eq!(figure(&mut client, "table_questions_by_process"), 1);
        let list = client.say("TABLE LIST");
        assert!(
            list.contains("process") && list.contains("io_uring"),
            "{list}"
        );
        client.say("CONFIG SET tables-by kernel");
        let refused = client.say("TABLE OPEN t");
        assert!(
            refused.starts_with("-ERR no chains in the kernel: "),
            "{refused}"
        );
        // The one that was open is, still.
        assert_eq!(client.say("TABLE COUNT t - +"), ":100\r\n");
        drop(asked);
    });
    alone.join().expect("it has ended well");
}

#[test]
fn only_files_of_the_folder_can_be_named() {
    let asked = Asked::new(TablesBy::Auto);
    let outside = tempfile::tempdir().expect("a folder");
    let hidden = outside.path().join("hidden");
    asked.write("t", &numbers(10), 512);
    fs::rename(asked.path("t"), &hidden).expect("moved");
    symlink(&hidden, asked.path("link")).expect("made");
    symlink(outside.path(), asked.path("folder")).expect("made");
    fs::write(asked.path("text"), vec![b'x'; 5000]).expect("written");
    let mut client = asked.server.client();
    let hidden = hidden.to_str().expect("text");
    let up = format!(
        "../{}/hidden",
        outside.path().file_name().expect("a name").display()
    );
    for name in [
        hidden,
        &up,
        "folder/hidden",
        "..",
        ".",
        "/",
        "",
        "a\0b",
        "a\r\nb",
    ] {
        let reply = client.ask(&[b"TABLE", b"OPEN", name.as_bytes()]);
        let expected = "-ERR a table is the name of a file in the folder of tables, not a path\r\n";
        assert_eq!(text(&reply), expected, "{name:?}");
    }
    for (name, start) in [
        ("link", "-TABLE_UNAVAILABLE cannot open link: "),
        ("folder", "-TABLE_UNAVAILABLE cannot open folder: "),
        ("text", "-ERR text: not a table"),
        ("none", "-ERR there is no table none"),
    ] {
        let reply = client.say(&format!("TABLE OPEN {name}"));
        assert!(reply.starts_with(start), "{name}: {reply}");
        let reply = client.say(&format!("TABLE GET {name} k"));
        let expected = format!("-ERR the table {name} is not open: TABLE OPEN it\r\n");
        assert_eq!(reply, expected);
    }
    assert_eq!(client.say("TABLE LIST"), "*0\r\n");
}

#[test]
fn a_server_without_a_folder_opens_nothing() {
    let server = TestServer::shared();
    let mut client = server.client();
    let reply = client.say("TABLE OPEN t");
    assert_eq!(
        reply,
        "-ERR this server has no folder of tables: see the setting tables-dir\r\n"
    );
}

#[test]
fn a_damaged_block_is_an_error_of_what_needs_it() {
    for by in [TablesBy::Kernel, TablesBy::Process] {
        let (asked, mut client) = Asked::with(by, &numbers(1000));
        let file = OpenOptions::new()
            .write(true)
            .open(asked.path("t"))
            .expect("opened");
        // A byte of the second leaf.
        file.write_all_at(b"\xff", 2 * 512 + 100).expect("written");
        let count = client.say("TABLE COUNT t - +");
        let expected = "-TABLE_DAMAGED t: damaged at byte 1024: ";
        assert!(count.starts_with(expected), "{count}");
        let range = client.say("TABLE RANGE t - +");
        assert!(range.starts_with(expected), "{range}");
        let mut damaged = 0;
        // In one message, so that they are asked together.
        let mut clients: Vec<Client> = (0..20).map(|_| asked.server.client()).collect();
        for number in 0..1000_u32 {
            let client = &mut clients[number as usize % 20];
            client.send(&request(&[b"TABLE", b"GET", b"t", &number.to_be_bytes()]));
        }
        for number in 0..1000_u32 {
            let reply = clients[number as usize % 20].reply();
            match reply.starts_with(expected.as_bytes()) {
                true => damaged += 1,
                false => assert_eq!(reply, bulk(number.to_string().as_bytes())),
            }
        }
        assert!((1..60).contains(&damaged), "{damaged} keys of one leaf");
        // Cut: there is no end.
        file.set_len(700).expect("cut");
        let opened = client.say("TABLE OPEN t");
        assert!(
            opened.starts_with("-TABLE_DAMAGED t: damaged at byte "),
            "{opened}"
        );
    }
}

#[test]
fn a_new_file_of_the_name_is_another_table_when_it_is_opened() {
    let (asked, mut client) = Asked::with(TablesBy::Auto, &numbers(10));
    asked.write("new", &numbers(20), 512);
    fs::rename(asked.path("new"), asked.path("t")).expect("moved");
    assert_eq!(client.say("TABLE COUNT t - +"), ":10\r\n");
    assert_eq!(client.say("TABLE OPEN t"), "+OK\r\n");
    assert_eq!(client.say("TABLE COUNT t - +"), ":20\r\n");
    fs::write(asked.path("t"), b"nothing").expect("written");
    assert!(
        client
            .say("TABLE OPEN t")
            .starts_with("-ERR t: not a table")
    );
    assert_eq!(client.say("TABLE CLOSE t"), "+OK\r\n");
    assert!(
        client
            .say("TABLE COUNT t - +")
            .starts_with("-ERR the table t is not open")
    );
    assert!(
        client
            .say("TABLE CLOSE t")
            .starts_with("-ERR the table t is not open")
    );
    assert_eq!(figure(&mut client, "tables_open"), 0);
}

#[test]
fn as_many_are_open_as_may_be() {
    let asked = Asked::new(TablesBy::Process);
    let mut client = asked.server.client();
    for number in 0..17 {
        asked.write(&format!("t{number}"), &numbers(1), 512);
    }
    for number in 0..16 {
        assert_eq!(client.say(&format!("TABLE OPEN t{number}")), "+OK\r\n");
    }
    let refused = client.say("TABLE OPEN t16");
    assert_eq!(
        refused,
        "-ERR 16 tables are open, and no more may be: TABLE CLOSE one\r\n"
    );
    assert_eq!(client.say("TABLE OPEN t3"), "+OK\r\n");
    assert_eq!(client.say("TABLE CLOSE t0"), "+OK\r\n");
    assert_eq!(client.say("TABLE OPEN t16"), "+OK\r\n");
    assert_eq!(figure(&mut client, "tables_open"), 16);
}

#[test]
fn a_range_is_bounded_and_can_be_gone_on_with() {
    let model = numbers(25_000);
    let (asked, mut client) = Asked::with(TablesBy::Auto, &model);
    let reply = client.say("TABLE RANGE t - +");
    assert_eq!(
        reply,
        "-ERR the range has more than 10000 entries: say LIMIT, and go on behind the last key\r\n"
    );
    assert_eq!(
        client.say("TABLE RANGE t - + LIMIT 10001"),
        "-ERR LIMIT is 10000 at most\r\n"
    );
    assert_eq!(client.say("TABLE RANGE t - + LIMIT 0"), "*0\r\n");
    let all: Vec<_> = model.iter().collect();
    let mut from = b"-".to_vec();
    for part in all.chunks(10_000) {
        let reply = client.ask(&[b"TABLE", b"RANGE", b"t", &from, b"+", b"LIMIT", b"10000"]);
        assert!(reply == entries(Protocol::Resp2, part.iter().copied()));
        from = part.last().expect("one").0.clone();
        from.push(0);
    }
    // A range of just as many.
    let to = 10_000_u32.to_be_bytes();
    let reply = client.ask(&[b"TABLE", b"RANGE", b"t", b"-", &to]);
    assert!(reply == entries(Protocol::Resp2, all[..10_000].iter().copied()));
    // Nine mebibytes.
    let large = (0..300_u32).map(|number| (number.to_be_bytes().to_vec(), vec![1; 30_000]));
    let large: Model = large.collect();
    asked.write("large", &large, 65_536);
    assert_eq!(client.say("TABLE OPEN large"), "+OK\r\n");
    let reply = client.say("TABLE RANGE large - +");
    assert_eq!(
        reply,
        "-ERR the reply has more than 8 MiB: say a lower LIMIT\r\n"
    );
    let reply = client.ask(&[b"TABLE", b"RANGE", b"large", b"-", b"+", b"LIMIT", b"200"]);
    assert!(reply == entries(Protocol::Resp2, large.iter().take(200)));
}

#[test]
fn what_means_nothing_is_refused() {
    let (_asked, mut client) = Asked::with(TablesBy::Process, &numbers(10));
    for (question, expected) in [
        (
            "SUM t - +",
            "-ERR wrong number of arguments for 'table|sum' command",
        ),
        (
            "SUM t - + FIELD 0",
            "-ERR \"0\" is no field: OFFSET:TYPE, such as 8:u32",
        ),
        ("SUM t - + FIELD 0:f64", "-ERR \"f64\" is no type: u8, "),
        ("SUM t - + FELD 0:u8", "-ERR syntax error"),
        ("COUNT t - + FIELD", "-ERR syntax error"),
        ("RANGE t - + LIMIT", "-ERR syntax error"),
        (
            "RANGE t - + LIMIT -1",
            "-ERR value is out of range, must be positive",
        ),
        (
            "RANGE t -",
            "-ERR wrong number of arguments for 'table|range' command",
        ),
        (
            "GET t",
            "-ERR wrong number of arguments for 'table|get' command",
        ),
        ("DROP t", "-ERR unknown subcommand 'DROP'. Try TABLE HELP."),
    ] {
        let reply = client.say(&format!("TABLE {question}"));
        assert!(reply.starts_with(expected), "{question}: {reply}");
    }
    // However much is said, little is repeated.
    for field in [vec![1; 8 << 20], [&b"0:"[..], &[b'u'; 8 << 20]].concat()] {
        let reply = client.ask(&[b"TABLE", b"COUNT", b"t", b"-", b"+", b"FIELD", &field]);
        let expected = "-ERR a field has 128 bytes at most: OFFSET:TYPE, such as 8:u32\r\n";
        assert_eq!(text(&reply[..reply.len().min(500)]), expected);
    }
    // No block and no script waits for a table.
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    let refused = client.say("TABLE GET t k");
    assert_eq!(refused, "-ERR Command not allowed inside a transaction\r\n");
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    let script = client.ask(&[
        b"EVAL",
        b"return redis.call('TABLE', 'GET', 't', 'k')",
        b"0",
    ]);
    assert!(
        text(&script).contains("This Redis command is not allowed from script"),
        "{}",
        show(&script)
    );
    // It is in a transaction of the client's: that has nothing to do with it.
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert_eq!(client.say("SET k 1"), "+OK\r\n");
    assert_eq!(client.say("TABLE COUNT t - +"), ":10\r\n");
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
}

/// Longer than any key of a table can be.
#[test]
fn long_keys_have_their_place_among_others() {
    let [longest, least] = [vec![b'k'; 512], vec![b'a'; 3]];
    let model = Model::from([(longest.clone(), b"1".to_vec()), (least, b"2".to_vec())]);
    let asked = Asked::new(TablesBy::Auto);
    asked.write("t", &model, 4096);
    let mut client = asked.server.client();
    assert_eq!(client.say("TABLE OPEN t"), "+OK\r\n");
    let longer = vec![b'k'; 1 << 20];
    let get = |client: &mut Client, key: &[u8]| text(&client.ask(&[b"TABLE", b"GET", b"t", key]));
    assert_eq!(get(&mut client, &longest), "$1\r\n1\r\n");
    assert_eq!(get(&mut client, &longer), "$-1\r\n");
    for (from, to, count) in [
        (&b"-"[..], &longer[..], 2),
        (&longer, b"+", 0),
        (&longest, &longer, 1),
        (&longest, b"+", 1),
        (b"-", &longest, 1),
    ] {
        let reply = client.ask(&[b"TABLE", b"COUNT", b"t", from, to]);
        assert_eq!(text(&reply), format!(":{count}\r\n"));
    }
}

#[test]
fn replies_keep_their_order() {
    let (_asked, mut client) = Asked::with(TablesBy::Auto, &numbers(1000));
    let mut message = Vec::new();
    for number in 0..200_u32 {
        message.extend(request(&[b"SET", b"k", number.to_string().as_bytes()]));
        message.extend(request(&[b"TABLE", b"GET", b"t", &number.to_be_bytes()]));
        message.extend(request(&[b"GET", b"k"]));
        message.extend(request(&[
            b"TABLE",
            b"COUNT",
            b"t",
            b"-",
            &number.to_be_bytes(),
        ]));
    }
    client.send(&message);
    for number in 0..200 {
        let value = bulk(number.to_string().as_bytes());
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(client.reply(), value);
        assert_eq!(client.reply(), value);
        assert_eq!(text(&client.reply()), format!(":{number}\r\n"));
    }
}

#[test]
fn many_ask_at_the_same_time() {
    const CLIENTS: u64 = 12;
    let model = &numbers(5000);
    let (asked, mut client) = Asked::with(TablesBy::Auto, model);
    thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let mut client = asked.server.client();
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..100 {
                    compare(&mut client, Protocol::Resp2, model, &mut random);
                    let number = random.below(6000) as u32;
                    let reply = client.ask(&[b"TABLE", b"GET", b"t", &number.to_be_bytes()]);
                    let found = model.get(&number.to_be_bytes()[..]);
                    assert_eq!(reply, value(Protocol::Resp2, found.map(Vec::as_slice)));
                }
            });
        }
        // Opening it anew, again and again, is seen by nobody.
        let mut client = asked.server.client();
        scope.spawn(move || {
            for _ in 0..5 {
                assert_eq!(client.say("TABLE OPEN t"), "+OK\r\n");
            }
        });
    });
    let answered = ["by_kernel", "from_pool", "by_process"]
        .map(|by| figure(&mut client, &format!("table_questions_{by}")));
    assert_eq!(answered.iter().sum::<u64>(), CLIENTS * 200);
}

#[test]
fn clients_that_vanish_leave_nothing() {
    let (asked, mut client) = Asked::with(TablesBy::Auto, &numbers(50_000));
    for round in 0..40 {
        let mut gone = asked.server.client();
        let question: &[&[u8]] = match round % 4 {
            0 => &[b"TABLE", b"COUNT", b"t", b"-", b"+"],
            1 => &[b"TABLE", b"RANGE", b"t", b"-", b"+", b"LIMIT", b"10000"],
            2 => &[b"TABLE", b"GET", b"t", b"k"],
            _ => &[b"TABLE", b"OPEN", b"t"],
        };
        gone.send(&request(question).repeat(3));
    }
    wait_until("nobody is left", || {
        figure(&mut client, "connected_clients") == 1
    });
    assert_eq!(client.say("TABLE COUNT t - +"), ":50000\r\n");
    // One that is closed while it waits.
    let mut killed = asked.server.client();
    let id = killed.say("CLIENT ID");
    killed.send(&request(&[b"TABLE", b"COUNT", b"t", b"-", b"+"]).repeat(500));
    client.say(&format!("CLIENT KILL ID {}", id[1..].trim()));
    assert!(killed.is_closed());
    assert_eq!(client.say("TABLE COUNT t - +"), ":50000\r\n");
}

/// The server ends, whatever is asked.
#[test]
fn a_server_ends_while_it_is_asked() {
    let (asked, _) = Asked::with(TablesBy::Auto, &numbers(50_000));
    let mut clients: Vec<Client> = (0..10).map(|_| asked.server.client()).collect();
    for client in &mut clients {
        client
            .send(&request(&[b"TABLE", b"SUM", b"t", b"-", b"+", b"FIELD", b"0:text"]).repeat(20));
    }
    // Another one takes its place.
    drop(asked);
    for client in &mut clients {
        assert!(client.is_closed());
    }
}
