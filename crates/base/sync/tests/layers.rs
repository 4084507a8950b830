//! What threads agree by, from single words up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // The machine's atomics, and a thread's words.
    &["shim"],
    &["state"],
    &["fences", "rank", "robust_list", "section", "words"],
    // Which threads live, and locks that know it.
    &["record"],
    &["owners"],
    &["lock"],
    &["biased", "value"],
    // What is used without a lock.
    &["hazard"],
    &["presence", "thread"],
    &["once"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("hazard", "value")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
