//! Tests the order of the modules, from a NIC's memory up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "ids", "moving", "path_mtu", "pins", "recent", "registered", "source", "table"],
    &["access", "card", "medium"],
    // All state.
    &["world"],
    // Changes of the state, and the owner of the world.
    &["driver", "engine", "meeting"],
    &["events"],
    // The types that a program uses.
    &["cq", "vi"],
    &["connection"],
    &["nic"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("world", "medium"), ("engine", "world"), ("nic", "driver"), ("events", "world")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
