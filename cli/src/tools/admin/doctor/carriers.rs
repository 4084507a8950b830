//! Carriers on which Virtual Interfaces can run on this host. The check opens each carrier, like a program would.

use std::fs;
use std::path::Path;

use sovia_nic::AnyNic;

use super::Finding;

/// Opens each carrier, and returns a finding for each.
pub(super) fn look() -> Vec<Finding> {
    let mut findings = vec![
        try_place("shared memory", &format!("shm:doctor-{}", std::process::id()), true, ""),
        try_place(
            "UDP",
            "udp:127.0.0.1:0",
            false,
            "VIs between hosts need UDP, or a network device",
        ),
    ];
    for device in of("/sys/class/net") {
        if is_ethernet(&device) {
            findings.push(try_place(
                "Ethernet",
                &format!("eth:{device}"),
                false,
                "Ethernet frames need CAP_NET_RAW; `sudo sovia agent --device` carries frames of programs without CAP_NET_RAW",
            ));
        }
    }
    let nics = of("/sys/class/infiniband");
    if nics.is_empty() {
        findings.push(Finding::good("RDMA", "this host has no RDMA NIC (/sys/class/infiniband)"));
    }
    for nic in nics {
        let advice = "RDMA needs libibverbs and librdmacm of rdma-core, and enough locked memory (ulimit -l)";
        findings.push(try_place("RDMA", &format!("verbs:{nic}"), false, advice));
    }
    findings.push(try_place(
        "libfabric",
        "ofi:tcp;ofi_rxm@127.0.0.1",
        false,
        "only VIs over libfabric need the library",
    ));
    findings
}

fn of(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Returns true if a device carries Ethernet frames and is up.
fn is_ethernet(device: &str) -> bool {
    const ETHERNET: &str = "1";
    const UP: u32 = 1;
    let of = |what: &str| fs::read_to_string(Path::new("/sys/class/net").join(device).join(what));
    let flags = of("flags")
        .ok()
        .and_then(|flags| u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok());
    of("type").is_ok_and(|kind| kind.trim() == ETHERNET)
        && flags.is_some_and(|flags| flags & UP != 0)
}

fn try_place(what: &'static str, place: &str, must: bool, advice: &str) -> Finding {
    let Err(error) = AnyNic::open_at(place) else {
        return Finding::good(what, format!("opened {place}"));
    };
    // Most errors already contain the place, or the part of the place that the provider parses.
    let error = error.to_string();
    let own = place.split_once(':').map_or(place, |(_, own)| own);
    let error = if error.contains(own) { error } else { format!("{place}: {error}") };
    if must {
        Finding::bad(what, error, "shared memory needs memfd_create")
    } else {
        Finding::note(what, error, advice)
    }
}
