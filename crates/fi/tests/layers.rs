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
fn each_module_imports_only_what_is_below_it() {
    let known = [("endpoint", "shm"), ("domain", "endpoint")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
