//! Agents in threads of a test's process. The privileges that an agent gives up are those of its thread.

use core::sync::atomic::{AtomicU32, Ordering};
use sovia_agent::{Switch, SwitchConfig};
use std::sync::mpsc::channel;

/// Returns a name that no other agent has.
pub(crate) fn name() -> String {
    static AGENTS: AtomicU32 = AtomicU32::new(0);
    let number = AGENTS.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", std::process::id())
}

/// Starts an agent with this name. The agent runs until its port is gone or the process ends.
///
/// # Errors
/// The agent's error message.
pub(crate) fn agent(name: &str, place: &str) -> Result<(), String> {
    agent_for(name, place, vec![sovia_sys::call::geteuid()])
}

/// Starts an agent for these users.
///
/// # Errors
/// The agent's error message.
pub(crate) fn agent_for(name: &str, place: &str, users: Vec<u32>) -> Result<(), String> {
    let (name, place) = (name.to_owned(), place.to_owned());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let why = serve(&name, &place, users, &|| tell.send(Ok(())).expect("the test listens"));
        // This send fails if the agent was ready before: the receiver is gone by then.
        let _ = tell.send(Err(why));
    });
    told.recv().expect("the agent says so")
}

/// Runs an agent in this thread. Returns the error that prevents or ends its service.
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
