//! From what can go wrong up to what a program has in its hands.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["error", "will"],
    // Memory, and the threads, each of which knows a stream by a trait of its own.
    &["background", "cache", "handler", "memory"],
    // What the streams of a stack share.
    &["shared"],
    &["tag"],
    &["buffer", "register", "target"],
    // One end of a stream.
    &["core"],
    &["received"],
    &["stream"],
    // How it is made.
    &["unconnected"],
    &["listener"],
    &["stack"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("core", "shared"), ("stream", "core"), ("stack", "listener")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
