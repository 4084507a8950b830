//! Checks that a module imports only modules of lower layers.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["order", "packet", "path", "rendezvous", "word"],
    &["agent", "filters"],
    &["close", "failover", "flow", "state"],
    &["configuration"],
    &["combining", "wakeup"],
    &["session"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("session", "flow")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
