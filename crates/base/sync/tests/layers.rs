//! Layers of this crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // The processor's atomics, and words of one thread.
    &["shim"],
    &["state"],
    &["fences", "rank", "robust_list", "critical_section", "words"],
    // Which threads live, and locks that depend on this.
    &["robust_entry"],
    &["owners"],
    &["lock"],
    &["biased", "value"],
    // Objects that threads use without a lock.
    &["hazard"],
    &["callers", "thread"],
    &["once"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("hazard", "value")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
