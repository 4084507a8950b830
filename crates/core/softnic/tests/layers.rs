//! The NIC in software, from its memory up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "ids", "moving", "path_mtu", "pins", "recent", "registered", "source", "table"],
    &["access", "card", "medium"],
    // The state of everything.
    &["world"],
    // What happens to it, and what holds it.
    &["driver", "engine", "meeting"],
    &["events"],
    // What a program holds in its hands.
    &["cq", "vi"],
    &["connection"],
    &["nic"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("world", "medium"), ("engine", "world"), ("nic", "driver"), ("events", "world")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
