//! Chooses processors for two spinning processes: one each, of different cores if possible.

use std::fs;

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Returns two processors that this process may use; `None` if there is only one. If possible, the second is on another
/// core than the first.
pub(super) fn two() -> Option<(usize, usize)> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let first = cpus.next()?;
    let rest: Vec<_> = cpus.collect();
    let siblings = fs::read_to_string(format!(
        "/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list"
    ))
    .unwrap_or_default();
    let elsewhere = rest.iter().find(|&&cpu| !list_has(&siblings, cpu));
    elsewhere.or(rest.first()).map(|&second| (first, second))
}

/// Binds this process to one processor.
pub(super) fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("cannot bind this process to processor {cpu}"))
}

/// Gives this process, and no other, real-time priority (SCHED_FIFO).
pub(super) fn raise(priority: i32) -> anyhow::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 means this process, and the parameters are a live local.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot set the real-time priority");
    }
    Ok(())
}

/// Returns true if a list such as `0-3,8` contains `cpu`.
fn list_has(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&cpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert!(list_has("0-3,8\n", 2) && list_has("0-3,8\n", 8) && list_has("0\n", 0));
        assert!(!list_has("0-3,8\n", 4) && !list_has("", 0));
    }
}
