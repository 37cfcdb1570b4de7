//! What chance chooses of a collection is in it, as often as it was asked for, and everything has its
//! turn; what SPOP takes is gone, and nothing else. Redis is asked the same, as a test of the test.

use std::collections::BTreeMap;

use bpfdb_tests::server::{Client, Redis, Reply, TestServer};

const KEY: &str = "chance";
/// On both sides of what is compact, and of the sizes at which Redis chooses in another way.
const SIZES: [usize; 5] = [1, 3, 40, 130, 700];

/// Names and what belongs to them.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

struct Kind {
    /// With a key, a name and what belongs to it.
    put: fn(name: &str, value: &str) -> Vec<String>,
    choose: &'static str,
    with_values: Option<&'static str>,
}

const KINDS: [Kind; 3] = [
    Kind {
        put: |name, _| ["SADD", KEY, name].map(String::from).to_vec(),
        choose: "SRANDMEMBER",
        with_values: None,
    },
    Kind {
        put: |name, value| ["HSET", KEY, name, value].map(String::from).to_vec(),
        choose: "HRANDFIELD",
        with_values: Some("WITHVALUES"),
    },
    Kind {
        put: |name, value| ["ZADD", KEY, value, name].map(String::from).to_vec(),
        choose: "ZRANDMEMBER",
        with_values: Some("WITHSCORES"),
    },
];

fn ask(client: &mut Client, words: &[&str]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = client.ask(&words);
    Reply::parse(&reply).expect("a whole reply").0
}

fn fill(client: &mut Client, kind: &Kind, size: usize) -> Content {
    ask(client, &["DEL", KEY]);
    let mut content = Content::new();
    for number in 0..size {
        let (name, value) = (format!("name {number}"), number.to_string());
        let words = (kind.put)(&name, &value);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(ask(client, &words).number(), Some(1), "{words:?}");
        content.insert(name.into_bytes(), value.into_bytes());
    }
    content
}

fn both(check: impl Fn(&mut Client)) {
    let redis = Redis::start();
    check(&mut Client::connect(redis.address));
    check(&mut TestServer::shared().client());
}

/// As many as were asked for, all of them there; each once, if the number is positive.
fn check_chosen(chosen: &[&Reply], content: &Content, count: i64) {
    let wanted = match usize::try_from(count) {
        Ok(count) => count.min(content.len()),
        Err(_) => count.unsigned_abs() as usize,
    };
    assert_eq!(chosen.len(), wanted, "{count} of {}", content.len());
    let mut times: BTreeMap<&[u8], usize> = BTreeMap::new();
    for name in chosen {
        assert!(content.contains_key(&name.text), "{name}");
        *times.entry(&name.text).or_default() += 1;
    }
    assert!(count < 0 || times.len() == chosen.len(), "{times:?}");
}

fn choose(client: &mut Client, kind: &Kind, content: &Content) {
    let one = ask(client, &[kind.choose, KEY]);
    check_chosen(&[&one], content, 1);
    let size = content.len() as i64;
    for count in [
        0,
        1,
        2,
        size / 2,
        size - 1,
        size,
        size + 1,
        10_000,
        -1,
        -2,
        -3 * size,
    ] {
        let number = count.to_string();
        let chosen = ask(client, &[kind.choose, KEY, &number]);
        check_chosen(&chosen.items.iter().collect::<Vec<_>>(), content, count);
        let Some(option) = kind.with_values else {
            continue;
        };
        let chosen = ask(client, &[kind.choose, KEY, &number, option]);
        let (names, values): (Vec<_>, Vec<_>) = (chosen.items.chunks_exact(2))
            .map(|pair| (&pair[0], &pair[1]))
            .unzip();
        check_chosen(&names, content, count);
        for (name, value) in names.iter().zip(values) {
            assert_eq!(content[&name.text], value.text, "{name}");
        }
    }
}

#[test]
fn what_is_chosen_is_there() {
    both(|client| {
        for kind in KINDS {
            for size in SIZES {
                let content = fill(client, &kind, size);
                choose(client, &kind, &content);
                assert_eq!(ask(client, &["EXISTS", KEY]).number(), Some(1));
            }
        }
    });
}

/// That one of five does not have its turn in 400 has a chance of 10 to the -38.
#[test]
fn everything_has_its_turn() {
    const ROUNDS: usize = 400;
    both(|client| {
        for kind in KINDS {
            let mut left = fill(client, &kind, 5);
            for _ in 0..ROUNDS {
                left.remove(&ask(client, &[kind.choose, KEY]).text);
            }
            assert!(left.is_empty(), "{}: never {left:?}", kind.choose);
        }
        let mut left = fill(client, &KINDS[0], 5);
        for _ in 0..ROUNDS {
            let popped = ask(client, &["SPOP", KEY]).text;
            ask(client, &["SADD", KEY, &String::from_utf8_lossy(&popped)]);
            left.remove(&popped);
        }
        assert!(left.is_empty(), "SPOP: never {left:?}");
    });
}

fn pop(client: &mut Client, left: &mut Content, count: Option<usize>) {
    let number = count.map(|count| count.to_string());
    let words: Vec<&str> = ["SPOP", KEY].into_iter().chain(number.as_deref()).collect();
    let reply = ask(client, &words);
    let popped = match count {
        None => vec![&reply],
        Some(_) => reply.items.iter().collect(),
    };
    assert_eq!(
        popped.len(),
        count.unwrap_or(1).min(left.len()),
        "{words:?}"
    );
    for name in popped {
        assert!(left.remove(&name.text).is_some(), "{name} is popped");
    }
    let rest = ask(client, &["SMEMBERS", KEY]);
    assert_eq!(rest.items.len(), left.len(), "{words:?}");
    assert!((rest.items.iter()).all(|name| left.contains_key(&name.text)));
}

#[test]
fn what_is_popped_is_gone() {
    both(|client| {
        for size in SIZES {
            let mut left = fill(client, &KINDS[0], size);
            for count in [Some(0), None, Some(1), Some(size / 3), None, Some(2 * size)] {
                if left.is_empty() {
                    break;
                }
                pop(client, &mut left, count);
            }
            assert!(left.is_empty());
            assert_eq!(ask(client, &["EXISTS", KEY]).number(), Some(0));
        }
    });
}
