//! What the commands of `sovia-bench` do, in a line each: both programs show it.

/// Of `sovia bench`.
pub const BENCH: &str = "Measure Sovia against kernel TCP, Unix sockets and the hardware's limit";
/// Of `sovia demo`.
pub const DEMO: &str = "Show an unmodified Redis over kernel TCP, a Unix socket and Sovia";

/// `sovia agent`.
pub const AGENT: &str =
    "Help programs that cannot see each other to meet: in other network namespaces, in sandboxes";

/// `sovia lane`.
pub const LANE: &str = "Carry IP packets over Virtual Interfaces: a network device for any program";

/// `sovia enable`.
pub const ENABLE: &str = "Have systemd units start with Sovia in them, from now on";

/// `sovia disable`.
pub const DISABLE: &str = "Have systemd units start without Sovia again";

/// `sovia ps`.
pub const PS: &str = "List the connections of programs under Sovia, one a line";

/// `sovia explain`.
pub const EXPLAIN: &str = "Say why connections are on TCP, and what would change it";

/// `sovia doctor`.
pub const DOCTOR: &str = "Say what here keeps programs on TCP, and what would change it";

/// `sovia stat`.
pub const STAT: &str = "Say what programs under Sovia do, a line for each interval";

/// `sovia top`.
pub const TOP: &str = "Watch programs and pairs of programs under Sovia, by traffic";
