//! An agent at which programs have their NICs.

use sovia_agent::{Switch, SwitchConfig};
use std::sync::mpsc::channel;

/// Has programs use NICs at an agent of that name, which has a UDP port with that address.
pub(crate) fn settings(name: &str) -> [(&'static str, String); 2] {
    [("SOVIA_VIPL_PROVIDER", "eth".to_owned()), ("SOVIA_VIPL_NIC", format!("agent:{name}"))]
}

/// Starts it, in a thread that gives its own privileges up; it ends with this process.
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
