//! Tests the order of the modules: messages, one trunk, all trunks of an agent.

/// Modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[&["message"], &["trunk"], &["trunks"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[]);
}
