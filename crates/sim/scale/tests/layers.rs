//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["scenario"], &["catalogue", "outcome", "traffic"], &["model", "table", "vis"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("model", "traffic"), ("traffic", "scenario")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
