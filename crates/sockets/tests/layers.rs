//! The engine's modules stand in layers, and each needs only what is below it.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Whose state it is.
    &["per_engine"],
    // What stands alone.
    &[
        "agents",
        "backlog",
        "members",
        "memory",
        "message",
        "passed_on",
        "process",
        "stats",
        "thread",
    ],
    // One connection, and which are on record.
    &["closer", "conn", "peers"],
    &["family"],
    &["table"],
    // Connections from other families.
    &["other_families"],
    // What is chosen.
    &["keepalive", "options", "protocol"],
    &["config"],
    // The other process, and the two paths to it.
    &["pair"],
    &["kernel_sockets"],
    &["filters"],
    &["kept"],
    &["stream"],
    // What outlasts a close.
    &["linger"],
    // What waits for news.
    &["handler", "sets", "wait"],
    // To a VI, and back.
    &["meeting"],
    &["fallback"],
    &["exec"],
    // The program's calls.
    &["ops"],
    &["epoll", "loan"],
    &["pollset", "reactor"],
    // The process's identity.
    &["credentials"],
    // What goes on beside them.
    &["progress", "relay"],
    &["fork"],
    // The whole.
    &["engine"],
    // The way in for a fuzzer, in builds that are made for one.
    &["fuzzing", "native"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("conn", "members"), ("stream", "conn"), ("sets", "pair"), ("fork", "ops")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}

/// What moves the bytes is known to the streams, to the pairs, which share its segments, and to what makes those.
#[test]
fn via_shm_is_named_by_streams_and_pairs_alone() {
    let places = ["stream", "pair", "conn/body.rs", "meeting/nic.rs", "meeting/offer.rs"];
    sovia_layers::check_mentions(env!("CARGO_MANIFEST_DIR"), "via_shm", &places);
}

/// Other modules ask the stream: no other one has the endpoint of a connection.
#[test]
fn endpoints_of_connections_are_for_streams_alone() {
    // `conn` passes the name on from its part `body`.
    let places = ["stream", "conn/body.rs", "conn/mod.rs"];
    sovia_layers::check_mentions(env!("CARGO_MANIFEST_DIR"), "HasEndpoint", &places);
}
