//! Checks the order of libsovia's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["kind", "transfer", "zero_copy"], &["connect", "descriptor", "option", "wait"], &["stdio"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
