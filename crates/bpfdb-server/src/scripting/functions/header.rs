//! The first line of a library: `#!lua name=NAME`. The texts of errors are those of Redis 7.0.

use crate::protocol::inline;

/// The name of the library.
pub(super) fn name(text: &[u8]) -> Result<Vec<u8>, String> {
    let rest = (text.strip_prefix(b"#!")).ok_or("ERR Missing library metadata")?;
    let end = rest.iter().position(|&byte| byte == b'\n');
    let words = end.and_then(|end| inline::split(&text[..end + 2]));
    let words = words.unwrap_or_default();
    let (engine, options) = (words.split_first()).ok_or("ERR Invalid library metadata")?;
    let mut name = None;
    for option in options {
        let (known, value) = option.split_at(option.len().min(b"name=".len()));
        if !known.eq_ignore_ascii_case(b"name=") {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Invalid metadata value given: {option}"));
        }
        if name.replace(value.to_vec()).is_some() {
            return Err(
                "ERR Invalid metadata value, name argument was given multiple times".into(),
            );
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    if name.is_empty()
        || !name
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Err(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be \
             at least one character long"
                .into(),
        );
    }
    let engine = engine.strip_prefix(b"#!").unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        let engine = String::from_utf8_lossy(engine);
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read() {
        for text in [
            "#!lua name=a_1\n",
            "#!LUA  NAME=\"a_1\" \r\n",
            "#!lua\tname=a_1\nx y",
        ] {
            assert_eq!(name(text.as_bytes()).as_deref(), Ok(&b"a_1"[..]), "{text}");
        }
        for text in [
            "",
            "return 1",
            "#!lua name=a",
            "#!lua name=a-b\n",
            "#!lua 'name=a\n",
            "#!\n",
        ] {
            assert!(name(text.as_bytes()).is_err(), "{text}");
        }
    }
}
