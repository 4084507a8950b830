//! Checks the layers of this crate's modules, from frames and descriptors up to the engine.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["array", "ids", "peer", "wire"], &["matching", "message"], &["active"], &["engine"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("message", "wire"), ("active", "ids"), ("engine", "active")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
