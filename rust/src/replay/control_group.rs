//! What the control groups of this process leave it of the machine's memory.
//!
//! A group's limit holds for the groups in it too, and a batch system or a service manager sets it anywhere
//! between the root and the group that a process is in; a container may see no more than its own root.

use std::fs::read_to_string;
use std::path::{Component, Path};

/// How a hierarchy tells limit and use: files in each group, and a line of `memory.stat`.
#[derive(Debug, Clone, Copy)]
struct Hierarchy {
    /// Where it is mounted.
    mount: &'static str,
    /// The file of the limit.
    limit: &'static str,
    /// The line with what processes hold; the page cache beside it is given back on demand.
    held: &'static str,
}

const UNIFIED: Hierarchy = Hierarchy { mount: "sys/fs/cgroup", limit: "memory.max", held: "anon" };
const LEGACY: Hierarchy =
    Hierarchy { mount: "sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", held: "total_rss" };

/// Bytes that the groups of this process can still give; `u64::MAX` where none has a limit.
///
/// `root` is where the file system begins.
pub fn left(root: &Path) -> u64 {
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups.lines().filter_map(|line| left_of(root, line)).min().unwrap_or(u64::MAX)
}

/// The same of one line of `/proc/self/cgroup`: `id:controllers:path`.
fn left_of(root: &Path, line: &str) -> Option<u64> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let hierarchy = match controllers {
        "" => UNIFIED,
        _ if controllers.split(',').any(|each| each == "memory") => LEGACY,
        _ => return None,
    };
    let mut group = root.join(hierarchy.mount);
    let mut least = left_in(&group, hierarchy);
    for component in Path::new(path).components() {
        // Groups outside of what a container sees have paths with "..".
        if let Component::Normal(name) = component {
            group.push(name);
            least = least.into_iter().chain(left_in(&group, hierarchy)).min();
        }
    }
    least
}

fn left_in(group: &Path, hierarchy: Hierarchy) -> Option<u64> {
    // Without a limit it says "max", or a number beyond all machines.
    let limit: u64 = read_to_string(group.join(hierarchy.limit)).ok()?.trim().parse().ok()?;
    let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
    let of_line = |line: &str| line.strip_prefix(hierarchy.held)?.trim().parse().ok();
    let held: u64 = stat.lines().find_map(of_line).unwrap_or(0);
    Some(limit.saturating_sub(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system with a process in `groups`, and files of other contents.
    fn machine(groups: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files.iter().chain([&("proc/self/cgroup", groups)]) {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn left_on(groups: &str, files: &[(&str, &str)]) -> u64 {
        left(machine(groups, files).path())
    }

    #[test]
    fn no_groups_no_limit() {
        assert_eq!(left(tempfile::tempdir().unwrap().path()), u64::MAX);
        assert_eq!(left_on("0::/a\n", &[("sys/fs/cgroup/a/memory.max", "max\n")]), u64::MAX);
        assert_eq!(left_on("nonsense\n1:memory\n", &[]), u64::MAX);
    }

    #[test]
    fn the_limit_of_the_groups_own_counts() {
        let files = [
            ("sys/fs/cgroup/job/step/memory.max", "1000\n"),
            ("sys/fs/cgroup/job/step/memory.stat", "anon 300\nfile 600\nanon_thp 9\n"),
        ];
        assert_eq!(left_on("0::/job/step\n", &files), 700);
    }

    #[test]
    fn the_limit_of_a_group_around_it_counts() {
        let files = [
            ("sys/fs/cgroup/job/memory.max", "500\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 400\n"),
            ("sys/fs/cgroup/job/step/memory.max", "1000\n"),
            ("sys/fs/cgroup/job/step/memory.stat", "anon 300\n"),
        ];
        assert_eq!(left_on("0::/job/step\n", &files), 100);
    }

    #[test]
    fn a_container_sees_its_root_alone() {
        let files = [("sys/fs/cgroup/memory.max", "100\n")];
        assert_eq!(left_on("0::/\n", &files), 100);
        assert_eq!(left_on("0::/../../outside\n", &files), 100);
        assert_eq!(left_on("0::/of/the/machine\n", &files), 100);
    }

    #[test]
    fn the_older_hierarchy_is_read_too() {
        let files = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/job/memory.stat", "rss 1\ntotal_cache 7\ntotal_rss 250\n"),
        ];
        assert_eq!(left_on("3:cpu,cpuacct:/x\n2:hugetlb,memory:/job\n0::/job\n", &files), 750);
    }

    #[test]
    fn more_than_the_limit_is_nothing_left() {
        let files =
            [("sys/fs/cgroup/memory.max", "100\n"), ("sys/fs/cgroup/memory.stat", "anon 101\n")];
        assert_eq!(left_on("0::/\n", &files), 0);
    }
}
