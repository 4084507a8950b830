//! Checks the layers of this crate's modules, from errors and memory up to domains.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["address", "error", "flag", "slab"],
    &["atomic", "memory"],
    &["completion", "region", "vector"],
    // A transport, the messages over any transport, and a second transport, which sends some of these messages itself.
    &["shm"],
    &["wire"],
    &["emp"],
    &["endpoint"],
    &["domain"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("endpoint", "shm"), ("domain", "endpoint")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
