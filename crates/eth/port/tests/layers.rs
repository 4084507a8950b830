//! Checks the layers of this crate's modules, from the addresses up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["address"],
    &["port"],
    &["batch", "device", "ethernet", "watch"],
    &["udp", "packet", "xdp", "agent", "impair"],
    &["place"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("udp", "batch"), ("impair", "port")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
