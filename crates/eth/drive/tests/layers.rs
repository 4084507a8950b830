//! Checks the layers of this crate's modules, from a medium up to the calls of a program.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["clock", "driven"], &["state"], &["shared"], &["thread"], &["wire"], &["registry"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("wire", "shared"), ("state", "driven")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
