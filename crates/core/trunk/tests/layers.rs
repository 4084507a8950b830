//! Tests the order of the modules: messages, one trunk, all trunks of an agent.

/// Modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[&["message"], &["trunk"], &["trunks"]];

#[test]
fn modules_import_only_lower_layers() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[]);
}
