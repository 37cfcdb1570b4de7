//! Finds file systems in the mount table. The cgroup v2 hierarchy is not
//! always at `/sys/fs/cgroup`: on a hybrid system it is below it.

use std::path::PathBuf;
use std::{fs, io};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: PathBuf,
    pub file_system: String,
    /// Options of the file system, such as the controllers of a v1 cgroup.
    pub options: String,
}

/// The mounts of this process.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?))
}

/// Where the cgroup v2 hierarchy is mounted.
pub fn cgroup2() -> io::Result<Option<PathBuf>> {
    Ok(find(&mounts()?, "cgroup2"))
}

/// Where the BPF file system is mounted.
pub fn bpffs() -> io::Result<Option<PathBuf>> {
    Ok(find(&mounts()?, "bpf"))
}

/// The first mount point of this file system.
pub fn find(mounts: &[Mount], file_system: &str) -> Option<PathBuf> {
    let mount = mounts
        .iter()
        .find(|mount| mount.file_system == file_system)?;
    Some(mount.point.clone())
}

/// Reads the table; lines that are not of its form are left out.
pub fn parse(table: &str) -> Vec<Mount> {
    table.lines().filter_map(parse_line).collect()
}

/// `id parent device root POINT options [tags…] - TYPE source OPTIONS`
fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    Some(Mount {
        point: unescape(left.split(' ').nth(4)?).into(),
        file_system: right.next()?.into(),
        options: right.nth(1)?.into(),
    })
}

/// The kernel writes blanks and backslashes in paths as `\ooo`.
fn unescape(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&part[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    const UNIFIED: &str = "\
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
31 23 0:27 / /sys/fs/bpf rw,nosuid shared:5 master:1 - bpf bpf rw,mode=700
";

    #[test]
    fn finds_cgroup2_on_a_hybrid_system() {
        let found = find(&parse(HYBRID), "cgroup2");
        assert_eq!(found, Some("/sys/fs/cgroup/unified".into()));
    }

    #[test]
    fn skips_optional_tags() {
        let mounts = parse(UNIFIED);
        assert_eq!(find(&mounts, "cgroup2"), Some("/sys/fs/cgroup".into()));
        assert_eq!(find(&mounts, "bpf"), Some("/sys/fs/bpf".into()));
        assert_eq!(mounts[0].options, "rw,nsdelegate");
    }

    #[test]
    fn missing_and_malformed_are_not_found() {
        assert_eq!(find(&parse(HYBRID), "bpf"), None);
        assert_eq!(parse("\nnot a mount\n1 2 3 - x\n"), []);
    }

    #[test]
    fn blanks_in_paths_are_unescaped() {
        let mounts = parse(r"1 2 0:1 / /a\040b\134c rw - bpf bpf rw");
        assert_eq!(mounts[0].point, PathBuf::from(r"/a b\c"));
    }
}
