//! Random programs called from inside a process, beside FCALL: replies and data.

use bpfdb::{Engine, Options, Session};
use bpfdb_procedures::NotReady;
use bpfdb_procedures::inside::{CallError, Compiler, Failure, Library, Reply as Own};

use super::common::{Client, Reply};
use super::same::{Case, each, in_time, library, prepare};
use super::{ask, is, load, server, shown};

/// Functions in all.
const PROGRAMS: u64 = 50;
const PROGRAMS_LONG: u64 = 2000;
const KEYS: [&str; 4] = ["k1", "k2", "k3", "9"];

/// What lies in a reply, whatever its form.
fn of_server(reply: &Reply) -> Own {
    let text = || reply.text.clone();
    match reply.marker {
        _ if reply.is_nil => Own::Nil,
        b':' => Own::Integer(reply.number().expect("a number")),
        b'+' => Own::Status(text()),
        b'-' => Own::Error(text()),
        b'*' => Own::List(reply.items.iter().map(of_server).collect()),
        _ => Own::Text(text()),
    }
}

/// The keys as [`prepare`] leaves them on the server.
fn prepare_own(session: &mut Session, client: &mut Client) {
    for key in KEYS {
        session.delete(key.as_bytes()).expect("it is deleted");
    }
    for key in ["k1", "k2"] {
        let value = ask(client, &["GET", key]).text;
        let time = ask(client, &["PEXPIRETIME", key]).number();
        let time = time.and_then(|time| u64::try_from(time).ok());
        session
            .set_entry(key.as_bytes(), &value, time)
            .expect("it is set");
    }
}

fn values(client: &mut Client) -> Vec<Option<Vec<u8>>> {
    let all = ask(client, &["MGET", "k1", "k2", "k3", "9"]).items;
    let value = |reply: Reply| (!reply.is_nil).then_some(reply.text);
    all.into_iter().map(value).collect()
}

/// One call on both sides; false if the kernel gave it up, which the server has undone and given
/// to its interpreter.
fn compare(client: &mut Client, session: &mut Session, library: &Library, case: Case) -> bool {
    let name = format!("f{}", case.seed);
    let arguments = case.arguments();

    prepare(client, case);
    prepare_own(session, client);
    let before = KEYS.map(|key| session.get(key.as_bytes()).expect("it is read"));
    let as_bytes = |words: &[&'static str]| words.iter().map(|word| word.as_bytes()).collect();
    let keys: Vec<&[u8]> = as_bytes(&KEYS[..3]);
    let words: Vec<&[u8]> = arguments.iter().map(|word| word.as_bytes()).collect();
    let own = library.call(session, &name, &keys, &words);
    let after = KEYS.map(|key| session.get(key.as_bytes()).expect("it is read"));
    let own = match own {
        Ok(own) => own,
        Err(CallError::Failed(Failure::GivenUp(_))) => {
            assert_eq!(before, after, "{}", case.told());
            return false;
        }
        Err(CallError::NotReady(NotReady::NotCompiled { .. })) => {
            let shown = shown(client, &name);
            assert!(!is(&shown, "path", "kernel"), "{shown}: {}", case.told());
            return false;
        }
        Err(error) => panic!("{error}: {}", case.told()),
    };
    let request = case.words();
    let request: Vec<&str> = request.iter().map(String::as_str).collect();
    let reply = ask(client, &request);
    assert_eq!(own, of_server(&reply), "{}", case.told());
    assert_eq!(after.to_vec(), values(client), "data after {}", case.told());
    true
}

fn programs_mean_the_same(programs: u64) {
    let server = server();
    let mut client = server.client();
    let engine = Engine::create(&Options::default()).expect("the engine starts");
    let mut session = engine.session().expect("a session");
    let compiler = Compiler::new(&engine).expect("a template");
    let mut compared = 0;
    for number in 0..programs / each() {
        let first = number * each();
        let text = library(first);
        load(&mut client, &text);
        let own = compiler.library(text.as_bytes()).expect("it is compiled");
        let seeds = first..first + each();
        let cases = seeds.map(|seed| Case {
            seed,
            round: seed % 3,
        });
        let same = cases.filter(|&case| compare(&mut client, &mut session, &own, case));
        compared += same.count() as u64;
    }
    println!("{compared} of {programs} calls had a reply");
    assert!(compared * 2 > programs, "{compared}");
}

#[test]
fn from_inside_random_programs_mean_the_same() {
    programs_mean_the_same(in_time(PROGRAMS));
}

#[test]
#[ignore = "takes minutes"]
fn soak_random_programs_from_inside() {
    programs_mean_the_same(PROGRAMS_LONG);
}
