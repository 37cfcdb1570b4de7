//! `bpfdb export` and `bpfdb query` as a user runs them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common;
use crate::copies::{Served, alone};

const BINARY: &str = env!("CARGO_BIN_EXE_bpfdb");

fn bpfdb(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments).output().expect("bpfdb runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = bpfdb(arguments);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    text(&output.stdout)
}

/// The question to each that can answer it.
fn ask(table: &str, question: &[&str]) -> String {
    let [kernel, process] = ["kernel", "process"].map(|by| {
        let arguments = [&["query", "--by", by, table], question].concat();
        succeeds(&arguments)
    });
    assert_eq!(kernel, process, "{question:?}");
    kernel
}

fn name(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_server_is_exported_and_asked() {
    let folder = alone();
    let served = Served::start();
    let mut client = served.client();
    for number in 0..3000 {
        client.say(&format!("SET user:{number:05} {number}"));
    }
    client.say("SET other x");
    client.say("HSET user:hash a 1");
    client.say("SELECT 3");
    client.say("SET user:three 3");
    let path = folder.join("users.table");
    let table = name(&path);
    let export = ["export", table, "--port", &served.port, "--prefix", "user:"];
    let output = bpfdb(&[&export[..], &["--block-size", "512"]].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("3000 entries in "), "{said}");
    assert!(
        said.contains("; 1 keys that are no strings left out"),
        "{said}"
    );
    assert_eq!(ask(table, &["get", "user:00017"]), "17\n");
    let range = ["range", "user:00002", "user:00005"];
    assert_eq!(
        ask(table, &range),
        "user:00002\t2\nuser:00003\t3\nuser:00004\t4\n"
    );
    let limited = ["range", "-", "+", "--limit", "1"];
    assert_eq!(ask(table, &limited), "user:00000\t0\n");
    assert_eq!(ask(table, &["count", "-", "+"]), "3000\n");
    let whole = ["-", "+", "--field", "0:text"];
    for (what, number) in [("sum", "4498500\n"), ("min", "0\n"), ("max", "2999\n")] {
        assert_eq!(ask(table, &[&[what], &whole[..]].concat()), number);
    }
    let none = ["min", "user:00002", "user:00002", "--field", "0:text"];
    assert_eq!(ask(table, &none), "none\n");
    let absent = bpfdb(&["query", table, "get", "other"]);
    assert_eq!(
        (absent.status.code(), text(&absent.stdout)),
        (Some(1), String::new())
    );
    // The same of a copy, of another database.
    let copy = folder.join("copy");
    succeeds(&["dump", "--port", &served.port, "--output", name(&copy)]);
    succeeds(&["export", table, "--copy", name(&copy), "--database", "3"]);
    assert_eq!(ask(table, &["range", "-", "+"]), "user:three\t3\n");
}

/// The server answers as `bpfdb query` does. Its tables lie in its data directory, which is whole with them.
#[test]
fn a_server_answers_from_the_tables_of_its_data_directory() {
    common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = common::Served::start_in(&data, 0, &[]);
    for number in 0..100 {
        server.ask(&["SET", &format!("user:{number:03}"), &format!("-{number}0")]);
    }
    let opened = || server.ask(&["TABLE", "OPEN", "users"]);
    assert!(opened().contains("there is no table users"), "{}", opened());
    fs::create_dir(data.join("tables")).expect("made");
    let path = data.join("tables/users");
    let (table, port) = (name(&path), server.port.to_string());
    let output = bpfdb(&["export", table, "--port", &port]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(opened().contains("OK"));
    let field = "1:text";
    for what in ["sum", "min", "max", "count"] {
        let question = [what, "user:003", "user:090", "--field", field];
        let printed = ask(table, &question);
        let reply = server.ask(&[
            "TABLE", what, "users", "user:003", "user:090", "FIELD", field,
        ]);
        assert!(
            reply.contains(printed.trim()),
            "{what}: {reply}, not {printed}"
        );
    }
    assert_eq!(ask(table, &["count", "-", "+"]), "100\n");
    // Another export in its place, under the server.
    server.ask(&["SET", "user:100", "1"]);
    let output = bpfdb(&["export", table, "--port", &port]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let count = || server.ask(&["TABLE", "COUNT", "users", "-", "+"]);
    assert!(count().contains("100"), "{}", count());
    assert!(opened().contains("OK"));
    assert!(count().contains("101"), "{}", count());
    server.stop();
    succeeds(&["check", "--dir", name(&data)]);
    let server = common::Served::start_in(&data, 0, &[]);
    assert!(server.ask(&["GET", "user:100"]).contains('1'));
    assert!(server.ask(&["TABLE", "OPEN", "users"]).contains("OK"));
    assert!(
        server
            .ask(&["TABLE", "GET", "users", "user:007"])
            .contains("-70")
    );
}

#[test]
fn tables_are_made_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, path) = (folder.path().join("file"), folder.path().join("table"));
    let table = name(&path);
    let csv = "id,price,count,name\nb,-5,7,\"x, y\"\na,300,9,z\n";
    fs::write(&file, csv).expect("written");
    let values = "price:i64,count:u16,name";
    succeeds(&["export", table, "--csv", name(&file), "--values", values]);
    assert_eq!(ask(table, &["sum", "-", "+", "--field", "0:i64"]), "295\n");
    assert_eq!(ask(table, &["min", "-", "+", "--field", "0:i64"]), "-5\n");
    assert_eq!(ask(table, &["max", "-", "+", "--field", "8:u16"]), "9\n");
    let row = ask(table, &["range", "b", "+"]);
    assert_eq!(
        row,
        "b\t\\xfb\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x07\\x00x, y\n"
    );
    let lines = "{\"key\":\"k\",\"value\":17}\n{\"key\":\"a\",\"value\":\"text\"}\n";
    fs::write(&file, lines).expect("written");
    succeeds(&["export", table, "--jsonl", name(&file)]);
    assert_eq!(ask(table, &["range", "-", "+"]), "a\ttext\nk\t17\n");
    for (form, input, told) in [
        (
            "--csv",
            "id,price\na,1\nb,x\n",
            "line 3: \"x\" of price is no number of its type",
        ),
        (
            "--csv",
            "id,cost\na,1\n",
            "line 1: there is no column \"price\"",
        ),
        ("--csv", "id,price\na,1\na,2\n", "the key \"a\" comes twice"),
        (
            "--jsonl",
            "{\"key\":\"a\",\"price\":1}\n[]\n",
            "line 2: invalid type",
        ),
        (
            "--jsonl",
            "{\"key\":\"a\"}\n",
            "line 1: there is no field \"price\"",
        ),
    ] {
        fs::write(&file, input).expect("written");
        let output = bpfdb(&["export", table, form, name(&file), "--values", "price:u8"]);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(told),
            "{input:?}: {said}"
        );
        assert_eq!(ask(table, &["get", "k"]), "17\n", "the old table is there");
    }
}

#[test]
fn what_is_no_table_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "no table").expect("written");
    let output = bpfdb(&["query", name(&file), "get", "k"]);
    let said = text(&output.stderr);
    assert_eq!(said, format!("bpfdb: {}: not a table\n", file.display()));
}

/// A user without capabilities may read a file, and load no program.
#[test]
fn without_rights_the_process_reads_and_one_line_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, path) = (folder.path().join("file"), folder.path().join("table"));
    let table = name(&path);
    fs::write(&file, "key,value\na,1\nb,2\n").expect("written");
    succeeds(&["export", table, "--csv", name(&file)]);
    for (path, mode) in [(folder.path(), 0o755), (&path, 0o644)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
    }
    let ask = |by| {
        let mut command = Command::new(BINARY);
        command.args(["query", "--by", by, table, "count", "-", "+"]);
        command.uid(65534).gid(65534).output().expect("bpfdb runs")
    };
    let output = ask("auto");
    assert_eq!(text(&output.stdout), "2\n");
    let said = text(&output.stderr);
    let is_right = said.starts_with("bpfdb: no chains in the kernel: cannot load the program: ")
        && said.ends_with("; this process reads the table\n");
    assert!(is_right && said.lines().count() == 1, "{said}");
    let output = ask("kernel");
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(1), String::new())
    );
    assert!(
        said.starts_with("bpfdb: the kernel does not read the table: "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}
