//! Words of scripts come back as what they stand for.

use bpfdb_model::Op;
use bpfdb_tests::words::{from_word, op_from_text, op_to_text, to_word};

#[test]
fn words_come_back() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    for bytes in [
        &b""[..],
        b"x",
        b"a\0",
        b"kkkk",
        b"a b*c\\\n",
        &[0; 17],
        &all_bytes,
    ] {
        let word = to_word(bytes);
        assert!(!word.contains(char::is_whitespace), "{word}");
        assert_eq!(from_word(&word).unwrap(), bytes, "{word}");
    }
    assert_eq!(to_word(&[b'k'; 512]), "k*512");
}

#[test]
fn operators_come_back() {
    let (key, value) = (b"k\0".to_vec(), b"v".to_vec());
    let ops = [
        Op::Begin,
        Op::BeginReadOnly,
        Op::Get(key.clone()),
        Op::GetForUpdate(key.clone()),
        Op::Set(key.clone(), value.clone()),
        Op::SetFor(key.clone(), value, 10),
        Op::SetTyped(key.clone(), 3, b"of a set".to_vec()),
        Op::GetAny(key.clone()),
        Op::Expiry(key.clone()),
        Op::Pass(10),
        Op::Sweep,
        Op::Delete(key),
        Op::Scan,
        Op::Commit,
        Op::Rollback,
        Op::Reconnect,
    ];
    for op in ops {
        assert_eq!(op_from_text(&op_to_text(&op)).unwrap(), op);
    }
    assert!(op_from_text("set x").is_err());
}
