//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["live", "sys"], &["api"], &["manager"], &["device"], &["completion", "region"], &["pair"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[]);
}
