//! Requests that are written by a pattern.

use bpfdb_apps::pattern::Pattern;

fn written(text: &str, numbers: &[i64]) -> String {
    let mut bytes = Vec::new();
    Pattern::new(text).write(&mut bytes, numbers);
    String::from_utf8(bytes).expect("text")
}

#[test]
fn numbers_are_put_in() {
    assert_eq!(
        written("SET key:###:## @", &[7, 123, 42]),
        "*3\r\n$3\r\nSET\r\n$10\r\nkey:007:23\r\n$2\r\n42\r\n"
    );
    assert_eq!(
        written("GET a@b ##", &[-1234567890, 5]),
        "*3\r\n$3\r\nGET\r\n$13\r\na-1234567890b\r\n$2\r\n05\r\n"
    );
}

#[test]
fn extreme_numbers() {
    assert_eq!(written("@", &[0]), "*1\r\n$1\r\n0\r\n");
    let lowest = format!("*1\r\n$20\r\n{}\r\n", i64::MIN);
    assert_eq!(written("@", &[i64::MIN]), lowest);
}

#[test]
fn without_numbers() {
    assert_eq!(written("PING", &[]), "*1\r\n$4\r\nPING\r\n");
}
