//! The simulator, from its network up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "driver", "ids", "pins", "port"],
    &["access", "card"],
    // The state of everything.
    &["world"],
    // What happens to it.
    &["engine", "meeting"],
    &["events"],
    &["network"],
    // What a program holds in its hands.
    &["cq", "vi"],
    &["connection"],
    &["nic"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("world", "port"), ("engine", "world"), ("nic", "network"), ("events", "port")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
