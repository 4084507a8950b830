//! The engine's modules stand in layers, and each needs only what is below it.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // What stands alone.
    &["backlog", "members", "memory", "message", "process", "stats", "thread"],
    // One connection, and which are on record.
    &["closer", "conn", "peers"],
    &["family"],
    &["table"],
    // What is chosen.
    &["options", "protocol"],
    &["config"],
    // The other process, and the two paths to it.
    &["pair"],
    &["anchors"],
    &["stream"],
    // Who waits for news.
    &["handler", "sets", "wait"],
    // To a VI, and back.
    &["meeting"],
    &["retreat"],
    // The program's calls.
    &["ops"],
    &["epoll", "loan"],
    &["pollset", "reactor"],
    // Who the process is.
    &["credentials"],
    // What goes on beside them.
    &["fork", "progress", "relay"],
    // The whole.
    &["engine"],
    // The way in for a fuzzer, in builds that are made for one.
    &["fuzzing", "native"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("conn", "members"), ("stream", "conn"), ("sets", "pair"), ("fork", "ops")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
