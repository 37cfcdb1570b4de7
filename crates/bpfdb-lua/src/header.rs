//! The first line of a script: `#!lua flags=no-writes,allow-oom`.
//!
//! Words of the flags: <https://redis.io/docs/latest/develop/interact/programmability/eval-intro/>

/// What a script says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It has a first line that says what it is.
    pub has_header: bool,
    /// It writes nothing: a write gets an error.
    pub no_writes: bool,
    /// It is to run although memory is short.
    pub allow_oom: bool,
}

/// Reads the first line of a script. One without is a script without flags.
///
/// # Errors
/// What is wrong, as Redis words it.
pub fn flags(text: &[u8]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    let Some(rest) = text.strip_prefix(b"#!") else {
        return Ok(flags);
    };
    let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
        return Err("Invalid script shebang".into());
    };
    flags.has_header = true;
    let line = String::from_utf8_lossy(&rest[..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        return Err(format!("Unexpected engine in script shebang: #!{engine}"));
    }
    for word in words {
        let Some(names) = word.strip_prefix("flags=") else {
            return Err(format!("Unknown lua shebang option: {word}"));
        };
        for name in names.split(',').filter(|name| !name.is_empty()) {
            flags.add(name)?;
        }
    }
    Ok(flags)
}

impl Flags {
    /// May EVAL_RO and its kin call it? A script that says nothing of itself may be called, and ends
    /// in an error if it writes.
    pub fn is_for_readers(&self) -> bool {
        self.no_writes || !self.has_header
    }

    fn add(&mut self, name: &str) -> Result<(), String> {
        match name {
            "no-writes" => self.no_writes = true,
            "allow-oom" => self.allow_oom = true,
            // They are about replicas and clusters.
            "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
            _ => return Err(format!("Unexpected flag in script shebang: {name}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read() {
        let fine = |text: &str| flags(text.as_bytes()).expect(text);
        assert_eq!(fine("return 1"), Flags::default());
        assert!(fine("return 1").is_for_readers());
        assert!(!fine("#!lua\nreturn 1").is_for_readers());
        assert!(!fine("#!lua flags=allow-oom\n").is_for_readers());
        assert!(fine("#!lua flags=no-writes\n").is_for_readers());
        assert!(fine("#!lua flags=allow-stale,no-writes\n").no_writes);
        assert!(fine("#!lua flags=allow-oom\nreturn").allow_oom);
        for (text, problem) in [
            ("#!lua", "Invalid script shebang"),
            ("#!js\n", "Unexpected engine in script shebang: #!js"),
            ("#!lua name=a\n", "Unknown lua shebang option: name=a"),
            (
                "#!lua flags=fast\n",
                "Unexpected flag in script shebang: fast",
            ),
        ] {
            assert_eq!(flags(text.as_bytes()), Err(problem.into()), "{text}");
        }
    }
}
