//! Environment variables that `sovia run` passes to the injected library, and files that replace the variables.

use alloc::ffi::CString;
use alloc::format;
use core::ffi::CStr;

/// Text form of the [`Rules`](crate::Rules), which say which connections may be accelerated. If the variable is
/// unset or empty, all connections may be accelerated.
pub const RULES: &str = "SOVIA_RULES";

/// Path of the host's agent, instead of `/run/sovia/agent`. If the path is empty, programs look for no agent.
pub const AGENT: &str = "SOVIA_AGENT";

/// Path of the agent that watches packet filters, instead of `/run/sovia/filters`.
pub const FILTERS: &str = "SOVIA_FILTERS";

/// Path of a file with a [`StatsPage`](crate::StatsPage) for the counters, of the form
/// `/proc/<pid of sovia run>/fd/<number>`. If unset, the process does not count.
///
/// The variable holds a path and not a descriptor number, because some programs close all descriptors that they
/// have not opened.
pub const STATS: &str = "SOVIA_STATS";

/// Permission for `io_uring_setup`. With [`IO_URING_ALLOW`] the call works. With any other value the call fails
/// with ENOSYS, because the library cannot see a ring's operations on sockets.
pub const IO_URING: &str = "SOVIA_IO_URING";

/// Value of [`IO_URING`] that lets programs use io_uring.
pub const IO_URING_ALLOW: &str = "allow";

/// Number of transfers on a connection after which its rendezvous begins.
pub const MEET: &str = "SOVIA_MEET";

/// Maximum amount of shared memory for unread bytes, in MiB.
pub const MEMORY: &str = "SOVIA_MEMORY";

/// Maximum time that a waiting thread spins before it sleeps, in microseconds. With 0 the thread sleeps at once.
pub const SPIN: &str = "SOVIA_SPIN";

/// Protocol settings of connections (table 4 of the papers), in the text form of `sovia-proto`'s configuration.
pub const PROTOCOL: &str = "SOVIA_PROTOCOL";

/// Path of the library to inject, if the library is not installed beside `sovia`.
pub const PRELOAD: &str = "SOVIA_PRELOAD";

/// Prefix of the names of all variables.
pub const PREFIX: &str = "SOVIA_";

/// Variables that the libraries and `sovia` read: the constants above, and variables of libsovia-fi, libvipl and
/// measurements.
pub const VARIABLES: &[&str] = &[
    AGENT,
    "SOVIA_DIRECT",
    FILTERS,
    IO_URING,
    MEET,
    MEMORY,
    PRELOAD,
    PROTOCOL,
    RULES,
    SPIN,
    STATS,
    "SOVIA_VIPL_HOSTS",
    "SOVIA_VIPL_NIC",
    "SOVIA_VIPL_PROVIDER",
];

/// File with rules, which [`Rules::parse_file`](crate::Rules::parse_file) reads. The rules apply to programs that
/// get the library only by /etc/ld.so.preload and that have no [`RULES`] in their environment.
pub const SYSTEM_RULES: &CStr = c"/etc/sovia/rules";

/// File that keeps the connections of all users on TCP as long as the file exists (`sovia off`).
pub const OFF: &CStr = c"/run/sovia/off";

/// Returns the path of the file that keeps the connections of one user on TCP.
pub fn off_of(uid: u32) -> CString {
    CString::new(format!("/run/user/{uid}/sovia-off")).unwrap_or_default()
}

/// Maximum size of [`SYSTEM_RULES`], in bytes.
pub const SYSTEM_RULES_MAX: usize = 64 << 10;
