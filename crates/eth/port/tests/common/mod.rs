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

/// Whether `ip link` shows a word of a device.
#[allow(dead_code, reason = "not every test program asks")]
pub(crate) fn link_shows(device: &str, word: &str) -> bool {
    let output = Command::new("ip").args(["link", "show", "dev", device]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).contains(word)
}

/// Runs `test` on a thread whose network namespace holds the devices "one" and "other", each other's peers, and nothing else.
/// Where that cannot be, it says why, and the test counts as skipped.
pub(crate) fn with_veth(name: &str, test: impl FnOnce() + Send) {
    with_queues(name, 1, test);
}

/// [`with_veth`], with so many queues of each device in either direction.
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

/// Has the calling thread run on the processor with that number.
#[allow(dead_code, reason = "not every test program asks")]
pub(crate) fn run_on(processor: u32) {
    // SAFETY: an all-zero set is a valid empty one, and the call reads one set of that size.
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

/// Of `accepted` frames that `one` has taken, which begin with their numbers, each has come to `other` in its turn or is counted, and
/// some are lost because a ring was full.
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

/// What is for another address does not come, what is for everyone does, and one frame of another EtherType that has gone to
/// `other`'s device before is counted there.
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
