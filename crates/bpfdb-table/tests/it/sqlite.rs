//! The same questions to SQLite, if its program is installed.

use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

use bpfdb_table::{Bounds, ChainOptions, Chains, Reader};
use bpfdb_tests::random::Random;

use crate::common::{Folder, Model, build, options};

/// The lines that SQLite prints; `None`: it is not installed.
fn ask(text: &str) -> Option<Vec<String>> {
    let mut child = Command::new("sqlite3")
        .args(["-batch", "-nullvalue", "none", ":memory:"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(String::from).collect())
}

#[test]
fn tables_answer_as_sqlite_does() {
    let mut random = Random::new(8);
    let mut model = Model::new();
    let mut text = String::from("create table t(k text primary key, v integer);\nbegin;\n");
    while model.len() < 2000 {
        let key = format!("user:{}", random.below(100_000));
        let value = (random.number() as i64 >> (20 + random.below(44))).to_string();
        if model
            .insert(key.clone().into_bytes(), value.clone().into_bytes())
            .is_none()
        {
            writeln!(text, "insert into t values('{key}', {value});").expect("text");
        } else {
            let value = String::from_utf8(model[key.as_bytes()].clone()).expect("text");
            writeln!(text, "update t set v = {value} where k = '{key}';").expect("text");
        }
    }
    text += "commit;\n";
    let folder = Folder::new();
    let table = build(&folder.path(), &model, &options(512, 4));
    let mut reader = Reader::new(&table);
    // Eight blocks.
    let options = ChainOptions {
        pool: 4096,
        ..ChainOptions::default()
    };
    let mut chains = Chains::start(&table, &options).expect("chains run");
    let mut expected = Vec::new();
    for _ in 0..200 {
        let [from, to] = [(); 2].map(|()| format!("user:{}", random.below(100_000)));
        let present = model.keys().nth(random.below(model.len())).expect("a key");
        let from = match random.one_in(2) {
            true => String::from_utf8(present.clone()).expect("text"),
            false => from,
        };
        let within = format!("from t where k >= '{from}' and k < '{to}';");
        writeln!(text, "select count(*), sum(v), min(v), max(v) {within}").expect("text");
        let bounds = Bounds {
            from: from.as_bytes(),
            to: Some(to.as_bytes()),
        };
        let field = Some("0:text".parse().expect("a field"));
        let all = reader.aggregate(&bounds, field).expect("read");
        assert_eq!(chains.aggregate(&bounds, field).expect("read"), all);
        let shown = |number: Option<i128>| number.map_or("none".into(), |n| n.to_string());
        let sum = shown(all.least.is_some().then_some(all.sum));
        let (least, greatest) = (shown(all.least), shown(all.greatest));
        expected.push(format!("{}|{sum}|{least}|{greatest}", all.entries));
        writeln!(text, "select max(v) from t where k = '{from}';").expect("text");
        let value = chains.get(from.as_bytes()).expect("read");
        assert_eq!(value, reader.get(from.as_bytes()).expect("read"));
        let value = value.map(|value| String::from_utf8(value).expect("text"));
        expected.push(value.unwrap_or_else(|| "none".into()));
    }
    let Some(lines) = ask(&text) else {
        eprintln!("sqlite3 is not installed: not compared");
        return;
    };
    assert_eq!(lines, expected);
}
