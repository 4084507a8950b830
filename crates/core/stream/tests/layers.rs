//! Tests the order of the modules, from errors up to the types that a program uses.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["error", "will"],
    // Memory, and the threads. Each thread uses streams by its own trait.
    &["background", "cache", "handler", "memory"],
    // State that the streams of a stack share.
    &["shared"],
    &["tag"],
    &["buffer", "register", "target"],
    // One end of a stream.
    &["core"],
    &["received"],
    &["stream"],
    // Creation of streams.
    &["unconnected"],
    &["listener"],
    &["stack"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("core", "shared"), ("stream", "core"), ("stack", "listener")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
