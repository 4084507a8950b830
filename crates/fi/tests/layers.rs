//! From errors and memory up to domains.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["address", "error", "flag", "slab"],
    &["atomic", "memory"],
    &["completion", "region", "vector"],
    // A transport, and what is said over any.
    &["shm"],
    &["wire"],
    &["endpoint"],
    &["domain"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("endpoint", "shm"), ("domain", "endpoint")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
