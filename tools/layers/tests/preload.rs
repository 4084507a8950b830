//! The hooks, and what finds their functions. Here, because tests of that crate cannot run: its exports would stand
//! before the test program's libc.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Hooks that need no other.
    &[
        "asynchronous",
        "credentials",
        "descriptors",
        "heap",
        "jumps",
        "limits",
        "memory",
        "poll",
        "receive",
        "rings",
        "send",
        "signals",
        "sockets",
        "tables",
        "waiting",
    ],
    // Hooks that call others.
    &["children", "objects", "read_only", "symbols"],
    &["bindings", "real", "stdio"],
    &["creating", "process"],
    &["exec_lists", "spawning"],
    &["aliases", "raw"],
    // All of them.
    &["look_ups"],
    &["handles"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("read_only", "tables"), ("handles", "bindings")];
    sovia_layers::check(concat!(env!("CARGO_MANIFEST_DIR"), "/../../abi/preload"), LAYERS, &known);
}
