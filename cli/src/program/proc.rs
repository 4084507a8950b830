//! Checks whether /proc shows the processes of this PID namespace.

use std::fs;
use std::path::Path;

/// Reason why the library cannot use /proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcFault {
    /// /proc is not mounted or not readable.
    Missing,
    /// /proc shows another PID namespace, for example after `unshare --pid --fork`.
    Foreign,
}

impl ProcFault {
    /// Describes the fault.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Missing => "/proc is not mounted, or is not readable",
            Self::Foreign => "/proc shows a different PID namespace from that of this process",
        }
    }

    /// Returns a command that repairs the fault.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Missing => "mount -t proc proc /proc",
            Self::Foreign => "unshare --pid --fork --mount-proc, or mount -t proc proc /proc",
        }
    }
}

/// Returns the fault of /proc, if there is one.
pub fn fault() -> Option<ProcFault> {
    fault_of(fs::read_link("/proc/self").ok().as_deref(), std::process::id())
}

fn fault_of(own: Option<&Path>, id: u32) -> Option<ProcFault> {
    match own {
        None => Some(ProcFault::Missing),
        Some(own) if own == Path::new(&id.to_string()) => None,
        Some(_) => Some(ProcFault::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_of_another_namespace_is_found() {
        assert_eq!(fault_of(Some(Path::new("17")), 17), None);
        assert_eq!(fault_of(Some(Path::new("4711")), 17), Some(ProcFault::Foreign));
        assert_eq!(fault_of(None, 17), Some(ProcFault::Missing));
        assert_eq!(fault(), None);
    }
}
