//! The crates of the workspace stand on shelves, and each uses only what is below it.

use serde_json::Value;
use std::process::Command;

/// The shelves, lowest first. On a shelf a crate may use those that are named before it.
const SHELVES: &[&[&str]] = &[
    // crates/base
    &["sovia-sys", "sovia-sync", "sovia-signal", "sovia-simnet"],
    // crates/core
    &[
        "sovia-via",
        "sovia-proto",
        "sovia-stream",
        "sovia-trunk",
        "sovia-link",
        "sovia-softnic",
        "sovia-tags",
        "sovia-emp",
    ],
    // Providers: crates/shm, crates/sim, crates/eth, crates/fabric
    &[
        "sovia-ring",
        "via-shm",
        "sovia-reflect",
        "via-sim",
        "sovia-scale",
        "sovia-port",
        "sovia-drive",
        "via-eth",
        "emp-eth",
        "sovia-fi-types",
        "sovia-ofi",
        "via-ofi",
        "sovia-verbs",
        "via-verbs",
    ],
    // A NIC of any of them, and what each must do.
    &["sovia-nic", "via-conformance"],
    &["sovia-agent", "sovia-lane", "sovia-fi", "sovia-control", "sovia-stats-page"],
    &["sovia-sockets"],
    // Libraries and interfaces that programs call.
    &[
        "sovia-unwinder",
        "sovia",
        "sovia-calls",
        "sovia-preload",
        "sovia-c",
        "sovia-vipl",
        "sovia-fi-c",
        "sovia-emp-c",
    ],
    &["sovia-cli"],
    &["sovia-tests", "sovia-layers"],
];

fn place(crate_name: &str) -> Option<(usize, usize)> {
    SHELVES.iter().enumerate().find_map(|(shelf, names)| {
        names.iter().position(|name| *name == crate_name).map(|place| (shelf, place))
    })
}

/// Each crate of the workspace, with the names of those that it needs outside tests.
fn workspace() -> Vec<(String, Vec<String>)> {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let needs = package["dependencies"].as_array().unwrap().iter();
            let needs = needs.filter(|need| need["kind"].is_null() && need["path"].is_string());
            (name(package), needs.map(name).collect())
        })
        .collect()
}

#[test]
fn crates_use_only_crates_on_lower_shelves() {
    let workspace = workspace();
    let mut faults = Vec::new();
    for (name, needs) in &workspace {
        let Some(own) = place(name) else {
            faults.push(format!("{name} stands on no shelf"));
            continue;
        };
        for need in needs {
            if place(need).is_none_or(|other| other >= own) {
                faults.push(format!("{name} uses {need}, which is not below it"));
            }
        }
    }
    let count: usize = SHELVES.iter().map(|shelf| shelf.len()).sum();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    assert_eq!(workspace.len(), count, "a crate on the shelves is no member of the workspace");
}
