//! Rights of this process.

use std::fs;

use super::Check;
use super::features::create_array;

const NET_ADMIN: u32 = 12;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;
/// Enough without `CAP_SYS_ADMIN`.
const NARROW: [(u32, &str); 3] = [
    (BPF, "CAP_BPF"),
    (PERFMON, "CAP_PERFMON"),
    (NET_ADMIN, "CAP_NET_ADMIN"),
];

pub(super) fn checks() -> Vec<Check> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    vec![
        capabilities(parse_effective(&status).unwrap_or(0)),
        system_call(),
    ]
}

/// The set of effective capabilities in `/proc/self/status`.
fn parse_effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn capabilities(set: u64) -> Check {
    let has = |capability: u32| set >> capability & 1 == 1;
    let lacking: Vec<&str> = NARROW
        .iter()
        .filter(|(number, _)| !has(*number))
        .map(|(_, name)| *name)
        .collect();
    if has(SYS_ADMIN) && has(NET_ADMIN) {
        Check::ok("capabilities", "CAP_SYS_ADMIN, CAP_NET_ADMIN")
    } else if lacking.is_empty() {
        Check::ok("capabilities", "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN")
    } else {
        let found = format!("without {}", lacking.join(", "));
        Check::missing(
            "capabilities",
            found,
            "run as root, or grant these capabilities",
        )
    }
}

fn system_call() -> Check {
    match create_array(0) {
        Ok(()) => Check::ok("bpf() system call", "permitted"),
        Err(error) => Check::missing(
            "bpf() system call",
            error.to_string(),
            "run as root; in a container, let its seccomp profile permit bpf()",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn the_effective_set_is_read() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(parse_effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(parse_effective("Name:\tx\n"), None);
        assert_eq!(parse_effective("CapEff:\tno\n"), None);
    }

    #[test]
    fn either_set_of_capabilities_is_enough() {
        assert_eq!(
            capabilities(1 << SYS_ADMIN | 1 << NET_ADMIN).state,
            State::Ok
        );
        assert_eq!(
            capabilities(1 << BPF | 1 << PERFMON | 1 << NET_ADMIN).state,
            State::Ok
        );
        assert_eq!(
            capabilities(1 << BPF).found,
            "without CAP_PERFMON, CAP_NET_ADMIN"
        );
        assert_eq!(capabilities(0).state, State::Missing);
    }
}
