//! An agent that has the programs' NICs.

use sovia_agent::{Switch, SwitchConfig};
use std::sync::mpsc::channel;

/// Returns environment variables that make programs use NICs at the agent `name`.
pub(crate) fn settings(name: &str) -> [(&'static str, String); 2] {
    [("SOVIA_VIPL_PROVIDER", "eth".to_owned()), ("SOVIA_VIPL_NIC", format!("agent:{name}"))]
}

/// Starts an agent with a UDP port at `address`, in a thread that gives up its own privileges. It ends with this
/// process.
pub(crate) fn start(name: &str, address: &str) {
    let place = format!("udp:{address}").parse().expect("a place");
    let users = vec![sovia_sys::call::geteuid()];
    let user = Some((65534, 65534));
    let config = SwitchConfig { name: name.to_owned(), place, users, user };
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let switch = Switch::open(&config).expect("a switch");
        tell.send(()).expect("the test listens");
        panic!("{:?}", switch.serve(None));
    });
    told.recv().expect("it is ready");
}
