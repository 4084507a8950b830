//! Agents in threads of a test's process: what one gives up, its thread gives up.

use core::sync::atomic::{AtomicU32, Ordering};
use sovia_agent::{Switch, SwitchConfig};
use std::process::Command;
use std::sync::mpsc::channel;

/// Runs `ip`; what it complains of.
pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|why| format!("the program ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// A name for an agent that no other one has.
pub(crate) fn name() -> String {
    static AGENTS: AtomicU32 = AtomicU32::new(0);
    let number = AGENTS.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", std::process::id())
}

/// An agent of that name, until its port is gone or the process ends.
///
/// # Errors
/// What it says.
pub(crate) fn agent(name: &str, place: &str) -> Result<(), String> {
    let config = SwitchConfig {
        name: name.to_owned(),
        place: place.parse().expect("a place"),
        users: vec![sovia_sys::call::geteuid()],
        user: Some((65534, 65534)),
    };
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let opened = Switch::open(&config);
        let opened = opened.map_err(|why| why.to_string()).map(|switch| move || switch.serve());
        match opened {
            Ok(serve) => {
                tell.send(Ok(())).expect("the test listens");
                let why = serve();
                println!("the agent {} has ended: {why}", config.name);
            }
            Err(why) => tell.send(Err(why)).expect("the test listens"),
        }
    });
    told.recv().expect("the agent says so")
}
