//! Layers of this crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // The processor's atomics, and words of one thread.
    &["shim"],
    &["state"],
    &["fences", "rank", "robust_list", "section", "words"],
    // Which threads live, and locks that depend on this.
    &["record"],
    &["owners"],
    &["lock"],
    &["biased", "value"],
    // Objects that threads use without a lock.
    &["hazard"],
    &["presence", "thread"],
    &["once"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("hazard", "value")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
