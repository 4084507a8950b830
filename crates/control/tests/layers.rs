//! Tests that the modules of this crate form layers.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["env", "inheritance", "reason", "users"], &["term"], &["rules", "stats"], &["board"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("rules", "term")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
