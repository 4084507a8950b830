//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "slot", "wire"],
    &["regions"],
    &["access"],
    // State.
    &["state"],
    // Operation of a VI, and the thread that makes and ends connections.
    &["engine"],
    &["agent"],
    &["open"],
    // Types for programs.
    &["cq", "vi"],
    &["connection"],
    &["nic"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("state", "access"), ("engine", "state"), ("agent", "state"), ("nic", "agent")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
