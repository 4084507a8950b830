//! A pair of veth devices in a separate network namespace.

use sovia_port::{Address, Port};
use sovia_sys::netns;
use std::process::Command;

/// Runs `ip` in the network namespace of the calling thread.
///
/// # Panics
/// Panics if the command fails.
#[track_caller]
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// Returns true if the output of `ip link` for a device contains `word`.
#[allow(dead_code, reason = "not every test program asks")]
pub(crate) fn link_shows(device: &str, word: &str) -> bool {
    let output = Command::new("ip").args(["link", "show", "dev", device]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).contains(word)
}

/// Runs `test` on a thread in a new network namespace with two devices, "one" and "other", which are connected with
/// each other. If this is not possible, prints the reason and skips the test.
pub(crate) fn with_veth(name: &str, test: impl FnOnce() + Send) {
    with_queues(name, 1, test);
}

/// Like [`with_veth`], with `queues` queues per device and direction.
pub(crate) fn with_queues(name: &str, queues: usize, test: impl FnOnce() + Send) {
    let run = || {
        if let Err(why) = netns::fresh() {
            return println!("SKIPPED: {name}: no network namespace can be made: {why}");
        }
        let has = format!("mtu 1500 numrxqueues {queues} numtxqueues {queues}");
        let pair = format!("link add one {has} type veth peer name other {has}");
        let made = Command::new("ip").args(pair.split(' ')).output();
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

/// Binds the calling thread to one processor.
#[allow(dead_code, reason = "not every test program asks")]
pub(crate) fn run_on(processor: u32) {
    // SAFETY: a set of zero bytes is valid and empty. The call reads one set of the given size.
    let refused = unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(processor as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(refused, 0);
}

/// Commits one frame.
#[track_caller]
pub(crate) fn put(port: &mut impl Port, frame: &[u8], to: &Address) {
    let slot = port.slot().expect("the port has room");
    slot[..frame.len()].copy_from_slice(frame);
    port.commit(frame.len(), to).unwrap();
}

/// Returns all arrived frames, without their senders.
#[track_caller]
pub(crate) fn contents(port: &mut impl Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while port.receive(&mut |_, frame| frames.push(frame.to_vec())).unwrap() > 0 {}
    frames
}

/// Waits until `count` frames have arrived. The test harness limits the time.
#[track_caller]
pub(crate) fn await_frames(port: &mut impl Port, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        sovia_sys::poll::wait(port.descriptors().frames, libc::POLLIN);
        frames.extend(contents(port));
    }
    frames
}

/// Checks the frames that `one` has accepted, which begin with their numbers. `other` received each frame in order, or
/// a counter has it. At least one frame was lost because a ring was full.
#[allow(dead_code, reason = "not every test program asks")]
#[track_caller]
pub(crate) fn are_accounted_for(one: &mut impl Port, other: &mut impl Port, accepted: u32) {
    let sent = one.counters();
    assert_eq!(sent.sent + sent.unsendable, u64::from(accepted));
    // The last frames may still be in the kernel's own queue.
    let mut got = Vec::new();
    while got.len() as u64 + other.counters().missed + sent.unsendable < u64::from(accepted) {
        got.extend(contents(other));
    }
    assert!(other.counters().missed > 0, "the ring was never full");
    let numbers: Vec<u32> =
        got.iter().map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap())).collect();
    assert!(numbers.is_sorted());
}

/// Checks that `other` receives broadcast frames, but not frames for another address. Also checks that one earlier
/// frame of another EtherType has been counted at `other`'s device.
#[allow(dead_code, reason = "not every test program asks")]
#[track_caller]
pub(crate) fn only_ours_come(one: &mut impl Port, other: &mut impl Port, to: &Address) {
    put(one, b"another address", &Address::Mac([2, 9, 9, 9, 9, 9]));
    put(one, b"everyone", &Address::Mac([0xff; 6]));
    put(one, b"ours", to);
    one.flush().unwrap();
    assert_eq!(await_frames(other, 2), [&b"everyone"[..], b"ours"]);
    let counters = other.counters();
    assert_eq!((counters.foreign, counters.malformed, counters.missed), (1, 0, 0));
}
