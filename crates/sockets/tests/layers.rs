//! The engine's modules stand in layers, and each needs only what is below it.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // State of each engine.
    &["per_engine"],
    // Modules that use no others.
    &[
        "agents",
        "backlog",
        "memory",
        "message",
        "passed_on",
        "process",
        "process_slots",
        "stats",
        "thread",
    ],
    // One connection, and which are on record.
    &["closer", "conn", "peers"],
    &["family"],
    &["table"],
    // Connections from other families.
    &["other_families"],
    // Settings of a connection.
    &["keepalive", "options", "protocol"],
    &["config"],
    // The peer process, and the two paths to it.
    &["pair"],
    &["kernel_sockets"],
    &["filters"],
    &["tcp_reasons"],
    &["stream"],
    // State that outlasts a close.
    &["linger"],
    // Modules that wait for events.
    &["epoll_sets", "handler", "wait"],
    // Moves to a VI, and the fallback to TCP.
    &["rendezvous"],
    &["fallback"],
    &["exec"],
    // The program's calls.
    &["ops"],
    &["epoll", "loan"],
    &["pollset", "reactor"],
    // The process's identity.
    &["credentials"],
    // Work beside the program's calls.
    &["progress", "relay"],
    &["fork"],
    // The whole engine.
    &["engine"],
    // Entry points of fuzzers, in builds that are made for them.
    &["fuzzing", "native"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known =
        [("conn", "process_slots"), ("stream", "conn"), ("epoll_sets", "pair"), ("fork", "ops")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}

/// Only streams, pairs, and the modules that make segments name the crate that moves the bytes. Pairs share its
/// segments.
#[test]
fn sovia_ring_is_named_by_streams_and_pairs_alone() {
    let places = ["stream", "pair", "conn/body.rs", "rendezvous/nic.rs", "rendezvous/offer.rs"];
    sovia_layers::check_mentions(env!("CARGO_MANIFEST_DIR"), "sovia_ring", &places);
}

/// Other modules ask the stream: no other one has the endpoint of a connection.
#[test]
fn endpoints_of_connections_are_for_streams_alone() {
    // `conn` passes the name on from its part `body`.
    let places = ["stream", "conn/body.rs", "conn/mod.rs"];
    sovia_layers::check_mentions(env!("CARGO_MANIFEST_DIR"), "HasEndpoint", &places);
}
