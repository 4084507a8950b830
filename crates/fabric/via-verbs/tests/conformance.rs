//! Runs the conformance suite between two RDMA NICs of one device, in two threads. An environment variable names the
//! device. `make lab` runs the suite in a guest with an RDMA NIC in software.

use core::sync::atomic::{AtomicU16, Ordering};
use core::time::Duration;
use via_conformance::run::{AnyNic, Case, Trial, conclude, in_threads, trials};
use via_verbs::{Config, VerbsNic};

/// Watchdog time. It is long, because the NIC may be emulated.
const PATIENCE: Duration = Duration::from_secs(120);

/// Port for the NICs of the next case.
static PORT: AtomicU16 = AtomicU16::new(20_000);

fn place(port: u16) -> Config {
    let device = std::env::var("SOVIA_RDMA_DEVICE").unwrap_or_default();
    format!("{device}:{port}").parse().expect("a NIC for RDMA")
}

/// Cases that queue pairs cannot pass, each with the reason.
const BEYOND: [(&str, &str); 1] = [(
    "errors::too_long_a_message_breaks",
    "a device writes the packets of a message before the one that does not fit",
)];

fn way(name: &str) -> Vec<Trial> {
    let beyond = |trial: Trial| {
        let Some((_, why)) = BEYOND.iter().find(|(name, _)| trial.name().ends_with(name)) else {
            return trial;
        };
        let name = trial.name().to_owned();
        Trial::test(name.clone(), move || {
            println!("SKIPPED: {name}: {why}");
            Ok(())
        })
    };
    let all = trials(name, move |case: &Case| {
        let ports = PORT.fetch_add(2, Ordering::Relaxed);
        in_threads(case, PATIENCE, move |role| {
            let port = if role == "server" { ports } else { ports + 1 };
            let nic = VerbsNic::open(&place(port)).expect("a NIC for RDMA");
            (AnyNic::Verbs(nic), VerbsNic::address_at(&place(ports), b"server"))
        })
    });
    all.into_iter().map(beyond).collect()
}

fn main() {
    if std::env::var_os("SOVIA_RDMA_DEVICE").is_none() {
        let name = "verbs";
        conclude(vec![Trial::test(name, move || {
            println!("SKIPPED: {name}: SOVIA_RDMA_DEVICE names no NIC for RDMA (make lab)");
            Ok(())
        })]);
    }
    conclude(way("two_nics"));
}
