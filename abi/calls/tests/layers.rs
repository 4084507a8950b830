//! Tests that the modules of this crate form layers.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["boundary", "buffers"], &["descriptors", "poll", "receive", "send"], &["sockets"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("send", "buffers")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
