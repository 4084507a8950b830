//! Streams over NICs that are opened by place, in every configuration, between two threads with a NIC each. The NICs
//! are of libfabric, and of RDMA if the environment names one.

use crate::common::cases::cases;
use crate::common::run::{all, in_threads};
use sovia_nic::{AnyNic, OpenError};
use std::sync::{Arc, Mutex};
use via::{NetAddress, Nic};

/// Runs all cases between NICs at a place. Skips them if this machine has no such NIC.
fn over(test: &str, place: &str) {
    if let Err(why @ OpenError::System(_)) = AnyNic::open_at(place) {
        return println!("SKIPPED: {test}: {why}");
    }
    all(cases(), |case, _, configuration| {
        let place = place.to_owned();
        let server = AnyNic::open_at(&place).map_err(|why| why.to_string())?;
        let address = NetAddress::new(&server.attributes().local_address, b"stream");
        let server = Arc::new(Mutex::new(Some(server)));
        in_threads(case, configuration, move |role| {
            let server = server.lock().unwrap().take_if(|_| role == "server");
            (server.unwrap_or_else(|| AnyNic::open_at(&place).unwrap()), address.clone())
        })
    });
}

#[test]
#[ignore = "takes long: streams have nothing of their own over libfabric, whose NICs have the VI core's cases"]
fn over_libfabric_and_tcp() {
    over("over_libfabric_and_tcp", "ofi:tcp;ofi_rxm@127.0.0.1");
}

#[test]
#[ignore = "takes long, as over_libfabric_and_tcp"]
fn over_libfabrics_shared_memory() {
    over("over_libfabrics_shared_memory", "ofi:shm");
}

#[test]
fn over_rdma() {
    match std::env::var("SOVIA_RDMA_DEVICE") {
        Ok(device) => over("over_rdma", &format!("verbs:{device}")),
        Err(_) => {
            println!("SKIPPED: over_rdma: SOVIA_RDMA_DEVICE names no NIC for RDMA (make lab)")
        }
    }
}
