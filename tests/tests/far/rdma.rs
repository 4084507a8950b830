//! The same between agents whose frames go by a VI of a NIC for RDMA, of which the environment gives the address: `make lab` has one, in its guest.

use super::run;
use sovia_tests::{FarPair, Scenario, until};

/// What an agent says when frames go by it.
const CARRIES: &str = "go by verbs:";

fn over_rdma(test: &str, scenario: Scenario) {
    let Ok(address) = std::env::var("SOVIA_RDMA_ADDRESS") else {
        return println!("SKIPPED: {test}: SOVIA_RDMA_ADDRESS names no NIC for RDMA (make lab)");
    };
    // UDP does not pass: what arrives has gone by the NIC.
    let fabric = format!("verbs:{address}");
    let Some(pair) = FarPair::start(test, &["--lose", "1000000", "--fabric", &fabric]) else {
        return;
    };
    let carry = || pair.nics().iter().all(|agent| agent.said().contains(CARRIES));
    until("no frames go by the NICs", carry);
    run(&pair, scenario);
}

sovia_tests::carried_scenarios!(over_rdma);
