//! The kernel itself: version, architecture, type information, JIT.

use std::fs;
use std::path::Path;

use nix::sys::utsname::uname;

use super::Check;

const OLDEST: (u32, u32) = (6, 12);
const BTF: &str = "/sys/kernel/btf/vmlinux";
const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";

pub(super) fn checks() -> Vec<Check> {
    vec![
        version(),
        architecture(),
        btf(),
        jit(fs::read_to_string(JIT).ok().as_deref()),
    ]
}

fn version() -> Check {
    let release = match uname() {
        Ok(names) => names.release().to_string_lossy().into_owned(),
        Err(error) => error.to_string(),
    };
    match parse_release(&release) {
        Some(version) if version >= OLDEST => Check::ok("kernel", release),
        _ => Check::missing("kernel", release, "boot Linux 6.12 or newer"),
    }
}

/// Major and minor of a release such as `6.18.44-amd64` or `7.0-rc1`.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn architecture() -> Check {
    let own = std::env::consts::ARCH;
    match bpfdb::architecture::check(own) {
        Ok(()) => Check::ok("architecture", own),
        Err(error) => Check::missing("architecture", own, error.to_string()),
    }
}

fn btf() -> Check {
    if Path::new(BTF).exists() {
        return Check::ok("type information", BTF);
    }
    Check::missing(
        "type information",
        "no BTF",
        "boot a kernel with CONFIG_DEBUG_INFO_BTF=y",
    )
}

fn jit(setting: Option<&str>) -> Check {
    let turn_on = "run: sysctl net.core.bpf_jit_enable=1";
    match setting.map(str::trim) {
        Some("1") => Check::ok("JIT", "on"),
        Some("2") => Check::note("JIT", "on, with a debug listing of every program", turn_on),
        Some("0") => Check::missing("JIT", "off", turn_on),
        _ => Check::note(
            "JIT",
            format!("{JIT} cannot be read"),
            "make sure that the JIT is on",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(parse_release("6.12.0"), Some((6, 12)));
        assert_eq!(parse_release("6.18.44-amd64"), Some((6, 18)));
        assert_eq!(parse_release("7.0-rc1+"), Some((7, 0)));
        assert_eq!(parse_release("10.2"), Some((10, 2)));
        assert_eq!(parse_release("6"), None);
        assert_eq!(parse_release("linux"), None);
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(parse_release("6.9.1").unwrap() < OLDEST);
        assert!(parse_release("6.100.0").unwrap() >= OLDEST);
        assert!(parse_release("7.0.0").unwrap() >= OLDEST);
    }

    #[test]
    fn jit_settings() {
        assert_eq!(jit(Some("1\n")).state, State::Ok);
        assert_eq!(jit(Some("2\n")).state, State::Note);
        assert_eq!(jit(Some("0\n")).state, State::Missing);
        assert_eq!(jit(None).state, State::Note);
    }
}
