//! Runs the tests between agents whose frames travel on a VI of an RDMA NIC. The environment names the NIC's address;
//! `make lab` has one, in its guest.

use super::run;
use sovia_tests::{FarPair, Scenario, skipped, until};
use std::process::Command;

/// Output of an agent when this NIC carries frames.
const CARRIES: &str = "go by verbs:";

/// Returns the NIC's address; otherwise prints that the test is skipped.
fn address(test: &str) -> Option<String> {
    let address = std::env::var("SOVIA_RDMA_ADDRESS").ok();
    if address.is_none() {
        println!("SKIPPED: {test}: SOVIA_RDMA_ADDRESS names no NIC for RDMA (make lab)");
    }
    address
}

fn carry(pair: &FarPair) -> bool {
    pair.nics().iter().all(|agent| agent.said().contains(CARRIES))
}

fn over_rdma(test: &str, scenario: Scenario) {
    let Some(address) = address(test) else { return };
    // UDP does not pass, so the NIC has carried all received bytes.
    let fabric = format!("verbs:{address}");
    let Some(pair) = FarPair::start(test, &["--lose", "1000000", "--fabric", &fabric]) else {
        return;
    };
    until("no frames go by the NICs", || carry(&pair));
    run(&pair, scenario);
}

sovia_tests::carried_scenarios!(over_rdma);

fn done(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().expect("it is installed");
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
}

/// A firewall between the NICs blocks all messages of RDMA and of its connection manager. Until it is removed, frames
/// travel by UDP.
#[test]
fn firewall_before_the_nics_leaves_udp() {
    let test = "firewall_before_the_nics_leaves_udp";
    let Some(near) = address(test) else { return };
    if skipped(test, &["nft"]) {
        return;
    }
    done(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/lab/wire"), &[]);
    let wall = "add table ip wall
        add chain ip wall in { type filter hook input priority 0; }
        add rule ip wall in udp dport 4791 drop";
    done("nft", &[wall]);
    let [near, far] = [&near, "10.77.1.1"].map(|address| format!("verbs:{address}"));
    let options = [["--fabric", &near], ["--fabric", &far]];
    let Some(pair) = FarPair::start_each(test, options.each_ref().map(|words| &words[..])) else {
        return;
    };
    for case in ["waitall_waits_for_all", "writev_and_sendmsg_gather"] {
        run(&pair, Scenario::c("stream_calls", case));
    }
    assert!(!carry(&pair), "the firewall lets it pass");
    done("nft", &["delete", "table", "ip", "wall"]);
    until("no frames go by the NICs, though the firewall is gone", || carry(&pair));
    run(&pair, Scenario::c("stream_calls", "dontwait_does_not_wait"));
}
