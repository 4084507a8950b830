//! Tests the order of the modules, from the wire up to channels.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["checksum", "sequence", "time"],
    &["wire"],
    &["message", "stream"],
    &["buffers"],
    // Two ways to use the crate.
    &["channel", "datagram"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known =
        [("wire", "checksum"), ("stream", "time"), ("stream", "wire"), ("channel", "message")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
