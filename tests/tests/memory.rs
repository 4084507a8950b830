//! Memory taken by backpressure is bounded, and is freed when the backpressure is over.

use sovia_tests::Scenario;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// 300 slow readers, drained and closed.
#[test]
fn memory_goes_back_when_connections_end() {
    Scenario::c("memory", "connections_that_end").run_accelerated();
}

/// Does the same with connections that stay and are used again.
#[test]
fn memory_goes_back_when_backpressure_is_over() {
    Scenario::c("memory", "connections_that_stay").run_accelerated();
}

/// Limits all connections together to 8 MiB, beside the memory that each has without being counted.
#[test]
fn memory_is_bounded() {
    let case = Scenario::c("memory", "a_limit").env("SOVIA_MEMORY", 8);
    case.env("SOVIA_TESTS_MOST", 48 << 10).run_accelerated();
}

/// A control group with little memory, which is removed with the value.
struct Group(PathBuf);

impl Group {
    /// Returns `None` if this process may not make one.
    fn new(bytes: u64) -> Option<Group> {
        let name = format!("sovia-tests-{}", std::process::id());
        for (root, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let group = Group(Path::new(root).join(&name));
            if fs::create_dir(&group.0).is_ok()
                && fs::write(group.0.join(limit), bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes have ended, and leave the group a moment later.
        while fs::remove_dir(&self.0).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
        {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Both processes have 64 MiB together. The kernel kills a process that takes more.
#[test]
fn memory_is_bounded_in_a_small_control_group() {
    let Some(group) = Group::new(64 << 20) else {
        return println!(
            "SKIPPED: memory_is_bounded_in_a_small_control_group: no group can be made"
        );
    };
    let enter = "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"";
    let path = group.0.display().to_string();
    let case = Scenario::c("memory", "a_limit").by(&["/bin/sh", "-c", enter, &path]);
    case.env("SOVIA_TESTS_MOST", 64 << 10).run_accelerated();
}

/// Limits a process and its children to 1 MiB. Forty of the children have ended with unread bytes.
#[test]
fn the_dead_use_no_memory() {
    let case = Scenario::c("memory", "children_that_end").may_stay_on_tcp();
    // A smaller window would take less memory, however much there is.
    case.env("SOVIA_MEMORY", 1).env("SOVIA_PROTOCOL", "w=32,t=16").run_accelerated();
}
