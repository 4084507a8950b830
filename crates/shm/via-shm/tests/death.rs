//! The peer's process ends in different ways. This end notices at once, and receives everything that the peer had sent.
#![cfg(not(loom))]

use crate::common::{SLEEP_COST, least_cost, start};
use std::env;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};
use via::error::WaitError;
use via::{Cause, Done, Nic, Status, Vi, ViAttributes, ViState};
use via_conformance::{Context, End, SOON};
use via_shm::ShmNic;

/// Time in which this end must notice the peer's death.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Additional time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names of the other process's actions.
const IDLE: &str = "idle";
const FORKED: &str = "forked";
const EXECUTES: &str = "executes";
const SENDS: &str = "sends";
const STREAMS: &str = "streams";
const SLEEPS: &str = "sleeps";

fn name_of(test: &str) -> String {
    format!("death-{test}-{}", std::process::id())
}

/// Starts a peer and connects to it.
fn peer<'n>(nic: &'n ShmNic, deed: &str) -> (Child, End<'n, ShmNic>) {
    let name = nic.attributes().name.clone();
    let child = start("death::other_end", &[("VIA_DEED", deed), ("VIA_NIC", &name)]);
    let cx = Context { nic, server: nic.address(b"death") };
    let end = End::with(&cx, 4 << 20, ViAttributes::default());
    for i in 0..40 {
        end.post_recv(i, i * 4096, 4096);
    }
    end.request(&cx).unwrap();
    (child, end)
}

/// Runs the process at the other end. Returns at once if its environment variables are not set.
#[test]
fn other_end() {
    let (Ok(deed), Ok(name)) = (env::var("VIA_DEED"), env::var("VIA_NIC")) else { return };
    let nic = ShmNic::open(&name).unwrap();
    let cx = Context { nic: &nic, server: nic.address(b"death") };
    let end = End::with(&cx, 4 << 20, ViAttributes::default());
    for i in 0..100 {
        end.post_recv(i, i * 32768, 32768);
    }
    end.accept(&cx);
    match deed.as_str() {
        FORKED => leave_a_child(),
        EXECUTES => {
            use std::os::unix::process::CommandExt;
            thread::sleep(Duration::from_millis(50));
            panic!("{}", std::process::Command::new("sleep").arg("60").exec());
        }
        SENDS => {
            for i in 0..20 {
                end.fill(0, 4000, i);
                end.send(200, 0, if i % 2 == 0 { 40 } else { 4000 });
            }
            // SAFETY: the call takes plain numbers, and ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        STREAMS => {
            for i in 0usize.. {
                let done = end.received();
                end.vi.post_recv(done.descriptor).unwrap();
                end.post_send(200 + i % 8, 0, i % 3000);
                if end.sent().result().is_err() {
                    break;
                }
            }
        }
        SLEEPS => {
            let timeout = Some(Duration::from_secs(1));
            let used = least_cost(|| {
                assert_eq!(end.vi.recv_wait(timeout), Err(WaitError::Timeout));
            });
            assert!(used < SLEEP_COST, "asleep, it used {used:?}");
            return;
        }
        _ => {}
    }
    thread::sleep(Duration::from_secs(30));
}

/// Forks a child that keeps all descriptors open until the test has ended, for at most a minute.
fn leave_a_child() {
    let test = std::os::unix::process::parent_id() as i32;
    // SAFETY: the child only sleeps, makes system calls and exits, and runs no other code of the parent. Signal 0 only
    // checks that the test's process exists.
    unsafe {
        if libc::fork() == 0 {
            for _ in 0..600 {
                if libc::kill(test, 0) != 0 {
                    break;
                }
                thread::sleep(Duration::from_millis(100));
            }
            libc::_exit(0)
        }
    }
}

fn kill(child: &mut Child) -> Instant {
    child.kill().unwrap();
    Instant::now()
}

/// Stops all threads of a process, and waits until they have stopped.
fn stop(child: &Child) {
    let pid = child.id() as i32;
    // SAFETY: sends a signal to a child that has not been waited for, so the process id is the child's. A null status
    // is allowed.
    let stopped = unsafe {
        libc::kill(pid, libc::SIGSTOP);
        libc::waitpid(pid, core::ptr::null_mut(), libc::WUNTRACED)
    };
    assert_eq!(stopped, pid);
}

#[track_caller]
fn in_time(since: Instant, what: &str) {
    let took = since.elapsed();
    println!("{what}: {took:?}");
    assert!(took < AT_ONCE + PATIENCE, "{what} took {took:?}");
}

#[track_caller]
fn is_dead(end: &End<'_, ShmNic>) {
    assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Error, Some(Cause::PeerDied)));
    end.vi.disconnect();
    assert_eq!(end.vi.state(), ViState::Idle);
}

#[test]
fn a_sleeping_receiver_is_woken() {
    let nic = ShmNic::open(&name_of("sleeper")).unwrap();
    let (mut child, end) = peer(&nic, IDLE);
    let killed = thread::scope(|s| {
        let killer = s.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            kill(&mut child)
        });
        let done = end.received();
        assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        killer.join().unwrap()
    });
    in_time(killed, "waking a receiver");
    is_dead(&end);
    child.wait().unwrap();
}

#[test]
fn poller_gets_an_error_when_the_peer_dies() {
    let nic = ShmNic::open(&name_of("poller")).unwrap();
    let (mut child, end) = peer(&nic, IDLE);
    let killed = kill(&mut child);
    while end.vi.recv_done() == Done::NotDone {
        assert!(killed.elapsed() < Duration::from_secs(10));
    }
    in_time(killed, "telling a poller");
    is_dead(&end);
    child.wait().unwrap();
}

#[test]
fn a_blocked_sender_is_woken() {
    let nic = ShmNic::open(&name_of("sender")).unwrap();
    let (mut child, end) = peer(&nic, IDLE);
    // Send more than fits. The peer has posted receives, but all its threads are stopped, even its engine.
    stop(&child);
    for i in 0..90 {
        end.post_send(100 + i, 0, 32768);
    }
    let mut killed = None;
    for _ in 0..90 {
        if end.vi.send_done() == Done::NotDone {
            killed = Some(kill(&mut child));
            break;
        }
    }
    let killed = killed.expect("everything fits");
    while end.vi.send_wait(SOON).is_ok_and(|done| done.result().is_ok()) {}
    in_time(killed, "waking a sender");
    is_dead(&end);
    child.wait().unwrap();
}

#[test]
fn a_forked_child_does_not_hide_the_death_of_its_parent() {
    let nic = ShmNic::open(&name_of("forked")).unwrap();
    let (mut child, end) = peer(&nic, FORKED);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(end.vi.state(), ViState::Connected);
    let killed = kill(&mut child);
    end.await_state(ViState::Error);
    in_time(killed, "noticing");
    is_dead(&end);
    child.wait().unwrap();
}

#[test]
fn executing_another_program_is_an_end_too() {
    let nic = ShmNic::open(&name_of("executes")).unwrap();
    let (mut child, end) = peer(&nic, EXECUTES);
    let begin = Instant::now();
    end.await_state(ViState::Error);
    assert!(begin.elapsed() < Duration::from_secs(2) + PATIENCE);
    is_dead(&end);
    assert_eq!(child.try_wait().unwrap(), None, "the process itself lives");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_the_dead_have_sent_arrives() {
    let nic = ShmNic::open(&name_of("sends")).unwrap();
    let (mut child, end) = peer(&nic, SENDS);
    // The peer kills itself right after its last send.
    child.wait().unwrap();
    end.await_state(ViState::Error);
    for i in 0..20 {
        let len = if i % 2 == 0 { 40 } else { 4000 };
        assert_eq!(end.received().result(), Ok(len));
        end.expect(i * 4096, len as usize, i);
    }
    assert!(end.received().result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    is_dead(&end);
}

/// Kills the peer at different moments of a conversation. The next peer must be served.
#[test]
fn peer_killed_in_the_middle_of_a_conversation() {
    let nic = ShmNic::open(&name_of("streams")).unwrap();
    for round in 0..15u64 {
        let (mut child, end) = peer(&nic, STREAMS);
        let killed = thread::scope(|s| {
            let killer = s.spawn(|| {
                thread::sleep(Duration::from_micros(1000 + round * 777));
                kill(&mut child)
            });
            for i in 0usize.. {
                end.post_send(100 + i % 8, 0, i % 3000);
                if end.sent().result().is_err() {
                    break;
                }
                let done = end.received();
                if done.result().is_err() {
                    break;
                }
                end.vi.post_recv(done.descriptor).unwrap();
            }
            killer.join().unwrap()
        });
        in_time(killed, "noticing");
        is_dead(&end);
        child.wait().unwrap();
    }
}

#[test]
fn a_sleeping_process_costs_no_processor_time() {
    let nic = ShmNic::open(&name_of("sleeps")).unwrap();
    let (child, _end) = peer(&nic, SLEEPS);
    crate::common::finish(child).unwrap();
}
