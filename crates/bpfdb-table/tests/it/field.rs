//! Fields of values: numbers where they are, and texts that are numbers.

use bpfdb_table::{Field, Type};

#[test]
fn texts_are_numbers_as_redis_writes_them() {
    let field = Field {
        offset: 0,
        kind: Type::Text,
    };
    for text in [
        "0",
        "-1",
        "10",
        "9223372036854775807",
        "-9223372036854775808",
    ] {
        let expected = text.parse().expect("a number");
        assert_eq!(field.read(text.as_bytes()), Some(expected), "{text}");
    }
    for text in [
        "",
        "-",
        "-0",
        "00",
        "01",
        "+1",
        " 1",
        "1 ",
        "9223372036854775808",
        "1e3",
        "0x1",
    ] {
        assert_eq!(field.read(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn fields_are_read_where_they_are() {
    let value = [1, 0xff, 0xff, 0xff, 0xff, 7];
    for (text, number) in [
        ("0:u8", Some(1)),
        ("1:u8", Some(255)),
        ("1:i8", Some(-1)),
        ("1:u16", Some(65535)),
        ("1:i32", Some(-1)),
        ("1:u32", Some(0xffff_ffff)),
        ("2:u32", Some(0x07ff_ffff)),
        ("3:u32", None),
        ("6:u8", None),
        ("7:u8", None),
        ("0:u64", None),
    ] {
        let field: Field = text.parse().expect(text);
        assert_eq!(field.read(&value), number, "{text}");
    }
    for text in ["", "8", "u8", "-1:u8", "0:f64", "0:u8:1"] {
        assert!(text.parse::<Field>().is_err(), "{text}");
    }
}
