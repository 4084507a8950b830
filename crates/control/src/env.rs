//! The environment variables between `sovia run` and the injected library, and the file that stands in for them.

use alloc::ffi::CString;
use alloc::format;
use core::ffi::CStr;

/// What may be accelerated: the text form of [`Rules`](crate::Rules). Unset or empty: everything.
pub const RULES: &str = "SOVIA_RULES";

/// The path at which the agent of the host is found, in place of `/run/sovia/agent`; empty: it is not looked for.
pub const AGENT: &str = "SOVIA_AGENT";

/// The path at which the agent that watches packet filters is found, in place of `/run/sovia/filters`.
pub const FILTERS: &str = "SOVIA_FILTERS";

/// Where the counters go: the path of a file that holds a [`StatsPage`](crate::StatsPage), of
/// the form `/proc/<pid of sovia run>/fd/<number>`. Unset: nothing is counted.
///
/// A path, because a descriptor number would not survive programs that close all they do not
/// know, and would be one more descriptor that they can see.
pub const STATS: &str = "SOVIA_STATS";

/// What becomes of `io_uring_setup`: [`IO_URING_ALLOW`] lets it through, anything else has it
/// fail with ENOSYS, since the library cannot see what a ring does to a socket.
pub const IO_URING: &str = "SOVIA_IO_URING";

/// The value of [`IO_URING`] that lets programs have their rings.
pub const IO_URING_ALLOW: &str = "allow";

/// Number of transfers of an end before it looks for its peer.
pub const MEET: &str = "SOVIA_MEET";

/// MiB of shared memory that may hold what peers have not read.
pub const MEMORY: &str = "SOVIA_MEMORY";

/// The longest spin before a wait sleeps, in microseconds; 0: sleep at once.
pub const SPIN: &str = "SOVIA_SPIN";

/// What connections do of the papers' table 4: the text form of a configuration of `sovia-proto`.
pub const PROTOCOL: &str = "SOVIA_PROTOCOL";

/// The path of the library to inject, where it is not installed beside `sovia`.
pub const PRELOAD: &str = "SOVIA_PRELOAD";

/// How the names of all variables begin.
pub const PREFIX: &str = "SOVIA_";

/// Variables that the libraries and `sovia` read: those above, and those of libsovia-fi, libvipl and measurements.
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

/// A file with rules, as [`Rules::parse_file`](crate::Rules::parse_file) reads it: of programs into which nothing but
/// /etc/ld.so.preload brings the library, and whose environment has no [`RULES`].
pub const SYSTEM_RULES: &CStr = c"/etc/sovia/rules";

/// A file that keeps connections of all users on TCP for as long as it is there (`sovia off`).
pub const OFF: &CStr = c"/run/sovia/off";

/// Returns the path of the file that does the same for one user.
pub fn off_of(uid: u32) -> CString {
    CString::new(format!("/run/user/{uid}/sovia-off")).unwrap_or_default()
}

/// Most bytes of [`SYSTEM_RULES`].
pub const SYSTEM_RULES_MAX: usize = 64 << 10;
