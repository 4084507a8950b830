//! Creates two connected network namespaces, each for a thread of this process.

use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

/// Runs `ip`, and returns its error output if it fails.
pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|why| format!("the program ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// Runs `own` and `peer` in two threads, each in its own network namespace. The thread of `own` has the device `one`,
/// and the thread of `peer` has the connected device `other`. Both devices have addresses.
pub(crate) fn between_namespaces<R: Send>(
    own: impl FnOnce() -> R + Send,
    peer: impl FnOnce() + Send,
) -> Result<R, String> {
    let fresh = || sovia_sys::netns::fresh().map_err(|why| format!("no network namespace: {why}"));
    thread::scope(|s| {
        // The threads are joined explicitly, to return their results.
        let (tell, told) = channel::<Result<i32, String>>();
        let (go, started) = channel::<()>();
        let other = s.spawn(move || {
            tell.send(fresh().map(|()| sovia_sys::call::gettid()))
                .expect("the other thread listens");
            // An error means that the devices do not exist.
            let Ok(()) = started.recv() else { return Ok(()) };
            ip("addr add 10.0.0.2/24 dev other")?;
            ip("link set other up")?;
            peer();
            Ok::<_, String>(())
        });
        let own = s.spawn(move || {
            fresh()?;
            let thread = told.recv().expect("the other thread says so")?;
            ip("link add one type veth peer name other")?;
            ip(&format!("link set other netns {thread}"))?;
            ip("addr add 10.0.0.1/24 dev one")?;
            ip("link set one up")?;
            go.send(()).map_err(|_| "the other thread has gone")?;
            Ok(own())
        });
        let figures = own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        figures
    })
}
