//! Checks that a process with connected and waiting VIs uses no processor time, for each kind of waiting.
#![cfg(not(loom))]

use crate::common::{SLEEP_COST, finish, least_cost, start};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use via::{Attach, CompletionQueue, Connection, Nic, Vi, ViAttributes};
use via_conformance::{Context, End, Line, SOON};
use via_shm::ShmNic;

const VIS: usize = 100;
const WATCHED: Duration = Duration::from_secs(3);

/// Some VIs are attached to a completion queue on which a thread sleeps. Some have callbacks, and some only posted
/// receives. Measures once before and once after a message on each VI.
#[test]
fn idling_costs_nothing() {
    let name = format!("idle-{}", std::process::id());
    let child = start("idle::other_end", &[("VIA_NIC", &name)]);
    let nic = ShmNic::open(&name).unwrap();
    let cx = Context { nic: &nic, server: nic.address(b"idle") };
    let line = Line::server(&cx);
    let cqs = [nic.create_cq(1000, 0).unwrap(), nic.create_cq(1000, 1).unwrap()];
    let address = nic.address(b"vis");
    let ends: Vec<_> = (0..VIS)
        .map(|i| {
            let attach = Attach { send: None, recv: cqs.get(i % 4), context: i as u64 };
            let end = End::attached(&cx, 4096, ViAttributes::default(), attach);
            for k in 0..8 {
                end.post_recv(k, k * 64, 64);
            }
            nic.connect_wait(&address, SOON).unwrap().accept(&end.vi).unwrap();
            if i % 4 == 2 {
                end.vi.recv_notify(Box::new(|_| {}));
            }
            end
        })
        .collect();
    cqs[1].notify(Box::new(|_| {}));
    for messages in 0..2 {
        line.tell(&[messages]);
        line.hear();
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            // Meanwhile no thread polls the VIs.
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = cqs[0].wait(Some(WATCHED));
                }
            });
            thread::sleep(Duration::from_millis(300));
            let used = least_cost(|| thread::sleep(Duration::from_millis(2500)));
            over.store(true, Ordering::Relaxed);
            println!("idle for 2.5 seconds, it used {used:?}");
            assert!(used < SLEEP_COST, "idle, it used {used:?}");
        });
    }
    line.tell(&[9]);
    finish(child).unwrap();
    drop(ends);
}

/// Runs the process at the other end. Returns at once if its environment variable is not set.
#[test]
fn other_end() {
    let Ok(name) = env::var("VIA_NIC") else { return };
    let nic = ShmNic::open(&name).unwrap();
    let cx = Context { nic: &nic, server: nic.address(b"idle") };
    let line = Line::client(&cx);
    let ends: Vec<_> = (0..VIS)
        .map(|_| {
            let end = End::with(&cx, 4096, ViAttributes::default());
            end.request_at(&cx, &nic.address(b"vis")).unwrap();
            end
        })
        .collect();
    while let [messages @ 0..2] = line.hear()[..] {
        for end in ends.iter().filter(|_| messages > 0) {
            end.send(0, 0, 10);
        }
        line.tell(&[]);
    }
}
