//! How much memory the machine, and the control groups of this process, still have to give.
//!
//! A group's limit applies to the groups in it too, and a batch system or a service manager sets it anywhere
//! between the root and the group of the process; a container may see no more than its own root.

use std::fs::read_to_string;
use std::path::{Component, Path};

use crate::error::{Error, Result};

/// Bytes that the machine and the control groups of this process can still give.
pub fn available_memory() -> u64 {
    let ram = sysinfo::MemoryRefreshKind::nothing().with_ram();
    let refresh = sysinfo::RefreshKind::nothing().with_memory(ram);
    let system = sysinfo::System::new_with_specifics(refresh);
    // Nothing could be read, for example for want of file descriptors: then nothing is known either.
    if system.total_memory() == 0 {
        return u64::MAX;
    }
    system.available_memory().min(left_by_groups(Path::new("/")))
}

/// Checks that the allocator would give vectors of so many bytes in all: an allocation that fails ends the process.
/// Fails with [`Error::Memory`] when it would not.
pub fn check_allocatable(bytes: usize) -> Result<()> {
    // Small amounts come out of what the allocator already holds.
    if bytes < 1 << 16 {
        return Ok(());
    }
    probe(bytes).map_err(|why| Error::Memory(format!("cannot allocate {bytes} bytes: {why}")))
}

/// Checks that `needed` bytes are available, of which the allocator would give `kept` as vectors. Fails with
/// [`Error::Memory`] for more than `available` bytes, or more than one allocation can be.
pub fn check_memory(what: &str, needed: u128, kept: u128, available: u64) -> Result<()> {
    if needed > u128::from(available) {
        let text = format!("cannot allocate {needed} bytes for {what}: {available} are available");
        return Err(Error::Memory(text));
    }
    probe(usize::try_from(kept).unwrap_or(usize::MAX))
        .map_err(|why| Error::Memory(format!("cannot allocate {kept} bytes for {what}: {why}")))
}

fn probe(bytes: usize) -> std::result::Result<(), std::collections::TryReserveError> {
    Vec::<u8>::new().try_reserve_exact(bytes)
}

/// Where a hierarchy of groups says limit and use: files in each group, and a line of `memory.stat`.
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

/// Bytes that the groups of this process can still give; `u64::MAX` where no group has a limit. `root` is where the
/// file system begins.
fn left_by_groups(root: &Path) -> u64 {
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups.lines().filter_map(|line| left_of(root, line)).min().unwrap_or(u64::MAX)
}

/// The same for one line of `/proc/self/cgroup`: `id:controllers:path`.
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
        left_by_groups(machine(groups, files).path())
    }

    #[test]
    fn memory_is_unlimited_without_groups_or_limits() {
        assert_eq!(left_by_groups(tempfile::tempdir().unwrap().path()), u64::MAX);
        assert_eq!(left_on("0::/a\n", &[("sys/fs/cgroup/a/memory.max", "max\n")]), u64::MAX);
        assert_eq!(left_on("nonsense\n1:memory\n", &[]), u64::MAX);
    }

    #[test]
    fn limit_of_the_own_group_applies() {
        let files = [
            ("sys/fs/cgroup/job/step/memory.max", "1000\n"),
            ("sys/fs/cgroup/job/step/memory.stat", "anon 300\nfile 600\nanon_thp 9\n"),
        ];
        assert_eq!(left_on("0::/job/step\n", &files), 700);
    }

    #[test]
    fn lower_limit_of_an_enclosing_group_applies() {
        let files = [
            ("sys/fs/cgroup/job/memory.max", "500\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 400\n"),
            ("sys/fs/cgroup/job/step/memory.max", "1000\n"),
            ("sys/fs/cgroup/job/step/memory.stat", "anon 300\n"),
        ];
        assert_eq!(left_on("0::/job/step\n", &files), 100);
    }

    #[test]
    fn limit_of_the_root_applies_in_a_container() {
        let files = [("sys/fs/cgroup/memory.max", "100\n")];
        assert_eq!(left_on("0::/\n", &files), 100);
        assert_eq!(left_on("0::/../../outside\n", &files), 100);
        assert_eq!(left_on("0::/of/the/machine\n", &files), 100);
    }

    #[test]
    fn limit_of_the_legacy_hierarchy_applies() {
        let files = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/job/memory.stat", "rss 1\ntotal_cache 7\ntotal_rss 250\n"),
        ];
        assert_eq!(left_on("3:cpu,cpuacct:/x\n2:hugetlb,memory:/job\n0::/job\n", &files), 750);
    }

    #[test]
    fn nothing_is_left_above_the_limit() {
        let files =
            [("sys/fs/cgroup/memory.max", "100\n"), ("sys/fs/cgroup/memory.stat", "anon 101\n")];
        assert_eq!(left_on("0::/\n", &files), 0);
    }
}
