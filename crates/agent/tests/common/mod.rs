//! Agents in threads of a test's process: what one gives up, its thread gives up.

use core::sync::atomic::{AtomicU32, Ordering};
use sovia_agent::{Switch, SwitchConfig};
use std::sync::mpsc::channel;

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
    agent_for(name, place, vec![sovia_sys::call::geteuid()])
}

/// The same, for these users.
///
/// # Errors
/// What it says.
pub(crate) fn agent_for(name: &str, place: &str, users: Vec<u32>) -> Result<(), String> {
    let (name, place) = (name.to_owned(), place.to_owned());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let why = serve(&name, &place, users, &|| tell.send(Ok(())).expect("the test listens"));
        // Once it is ready nobody listens.
        let _ = tell.send(Err(why));
    });
    told.recv().expect("the agent says so")
}

/// Is an agent in this thread; why not, or not any more.
pub(crate) fn serve(name: &str, place: &str, users: Vec<u32>, is_ready: &dyn Fn()) -> String {
    let place = place.parse().expect("a place");
    let user = Some((65534, 65534));
    match Switch::open(&SwitchConfig { name: name.to_owned(), place, users, user }) {
        Ok(switch) => {
            is_ready();
            let ended = switch.serve(None);
            ended.expect_err("nobody orders it to end").to_string()
        }
        Err(why) => why.to_string(),
    }
}
