//! A pair of veth devices in a network namespace of the test's own.

use sovia_port::{Address, Port};
use sovia_sys::netns;
use std::process::Command;

/// Runs `ip` in the network namespace of the calling thread.
///
/// # Panics
/// If it fails.
#[track_caller]
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// Runs `test` on a thread whose network namespace holds the devices "one" and "other", each other's peers, and nothing else.
/// Where that cannot be, it says why, and the test counts as skipped.
pub(crate) fn with_veth(name: &str, test: impl FnOnce() + Send) {
    let run = || {
        if let Err(why) = netns::fresh() {
            return println!("SKIPPED: {name}: no network namespace can be made: {why}");
        }
        let made = Command::new("ip")
            .args("link add one mtu 1500 type veth peer name other mtu 1500".split(' '))
            .output();
        match made {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                return println!("SKIPPED: {name}: no veth devices: {}", why.trim());
            }
            Err(why) => return println!("SKIPPED: {name}: the program ip: {why}"),
        }
        ip("link set one up");
        ip("link set other up");
        test();
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Commits one frame.
#[track_caller]
pub(crate) fn put(port: &mut impl Port, frame: &[u8], to: &Address) {
    let slot = port.slot().expect("the port has room");
    slot[..frame.len()].copy_from_slice(frame);
    port.commit(frame.len(), to).unwrap();
}

/// Everything that has come, without the senders.
#[track_caller]
pub(crate) fn contents(port: &mut impl Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while port.receive(&mut |_, frame| frames.push(frame.to_vec())).unwrap() > 0 {}
    frames
}

/// Waits until `count` frames have come; the harness's time limit is the watchdog.
#[track_caller]
pub(crate) fn await_frames(port: &mut impl Port, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        sovia_sys::poll::wait(port.descriptors().frames, libc::POLLIN);
        frames.extend(contents(port));
    }
    frames
}
