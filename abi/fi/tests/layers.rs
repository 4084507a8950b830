//! Checks the layers of this crate's modules, from the structures up to the provider.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["wait"],
    &["object"],
    &["info"],
    &["av", "cntr", "cq", "eq"],
    &["ep", "mr"],
    &["atomic", "msg", "rma", "tagged"],
    &["endpoint"],
    &["domain"],
    &["fabric"],
    &["provider"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("tagged", "ep"), ("fabric", "domain")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
