//! The provider on verbs, from its memory up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "slot", "wire"],
    &["regions"],
    &["access"],
    // The state of everything.
    &["state"],
    // What happens to a VI, and the thread in which connections are made and ended.
    &["engine"],
    &["agent"],
    &["open"],
    // What a program holds in its hands.
    &["cq", "vi"],
    &["connection"],
    &["nic"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("state", "access"), ("engine", "state"), ("agent", "state"), ("nic", "agent")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
