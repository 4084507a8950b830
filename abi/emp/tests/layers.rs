//! Checks the layers of this crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[&["boundary", "types"], &["station"], &["transfer"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("station", "types"), ("transfer", "station")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
