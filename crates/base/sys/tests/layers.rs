//! Layers of this crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Macros, and memory addresses.
    &["tables", "user_memory"],
    // The system calls, and modules that need none.
    &["build", "cache", "call", "clock"],
    // Descriptors, sleeping and time, on top of the calls.
    &["credentials", "fd", "futex", "futex_any", "poll", "record_lock", "stall"],
    // Modules that own descriptors and memory.
    &[
        "arrivals",
        "bpf",
        "datagram",
        "diag",
        "epoll_entry",
        "mapping",
        "maps",
        "memory_limits",
        "netlink",
        "netns",
        "other_memory",
        "process",
        "signals",
        "small_file",
        "trace",
        "tun",
        "userfault",
    ],
    &["interface", "memlock", "seqpacket"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("fd", "call"), ("mapping", "fd")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
