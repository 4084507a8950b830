//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Helpers of the cases.
    &["end", "need", "until"],
    &["line", "told"],
    &["group", "prelude"],
    &["withdrawn"],
    // The cases.
    &[
        "connections",
        "cq",
        "descriptors",
        "errors",
        "limits",
        "many",
        "nics",
        "peers",
        "peers_refused",
        "posted",
        "progress",
        "protection",
        "rdma_read",
        "rdma_rights",
        "rdma_write",
        "reception",
        "regions",
        "requests",
        "requests_refused",
        "states",
        "transfers",
        "unreliable",
        "vis",
        "waiting",
    ],
    // Cases that use parts of other cases.
    &[
        "cq_limits",
        "cq_shared",
        "cq_signal",
        "cq_waiting",
        "notify",
        "rdma_immediate",
        "rdma_order",
        "rdma_revoked",
    ],
    &["cq_watch"],
    &["run"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("line", "end")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
