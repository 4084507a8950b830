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
fn each_module_imports_only_what_is_below_it() {
    let known = [("udp", "batch"), ("impair", "port")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
