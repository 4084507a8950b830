//! Tests that the modules of this crate form layers.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["boundary", "buffers"], &["descriptors", "poll", "receive", "send"], &["sockets"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("send", "buffers")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
