//! Checks the layers of this crate's modules, from a medium up to the calls of a program.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["clock", "driven"], &["state"], &["shared"], &["thread"], &["wire"], &["registry"]];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("wire", "shared"), ("state", "driven")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
