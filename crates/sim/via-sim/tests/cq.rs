//! Tests of completion queues and callbacks.

use crate::common::{End, Errors, RELIABLE, connect, errors, open, pair};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use via::cq::Attach;
use via::error::{CqError, WaitError};
use via::{
    Cause, CompletionQueue, CqEntry, ErrorCode, Nic, Reliability, Resource, Status, Vi, ViState,
    WorkQueueKind,
};
use via_sim::{Config, Network, SimCq, SimNic};

/// Makes two connected ends. Both queues of the second are attached to a completion queue.
fn attached(network: &Network, entries: u32) -> (SimNic, End, SimNic, End, SimCq) {
    let [a_nic, b_nic] = ["a", "b"].map(|name| network.nic(name));
    let a = End::new(&a_nic, 10_000, open(RELIABLE[0]));
    let cq = b_nic.create_cq(entries, 77).unwrap();
    let attach = Attach { send: Some(&cq), recv: Some(&cq), context: 5 };
    let b = End::attached(&b_nic, 10_000, open(RELIABLE[0]), attach);
    connect(network, (&a_nic, &a), (&b_nic, &b));
    (a_nic, a, b_nic, b, cq)
}

fn entry(queue: WorkQueueKind) -> CqEntry {
    CqEntry { context: 5, queue }
}

#[test]
fn entries_come_in_order_and_name_their_queue() {
    let network = Network::new(1, Config::default());
    let (_a_nic, a, _b_nic, b, cq) = attached(&network, 16);
    assert_eq!(cq.done(), None);
    for n in 0..3 {
        b.post_recv(n, 0, 8);
        a.post_recv(n, 0, 8);
    }
    a.post_send(9, 0, 8, None);
    network.run();
    b.post_send(9, 0, 8, None);
    network.run();
    a.post_send(9, 0, 8, None);
    network.run();
    let entries: Vec<_> = core::iter::from_fn(|| cq.done()).collect();
    use WorkQueueKind::{Recv, Send};
    assert_eq!(entries, [Recv, Send, Recv].map(entry));
    assert_eq!((b.received().len(), b.sent().len()), (2, 1));
    // A waiting call executes events until its timeout.
    a.post_send(9, 0, 8, None);
    assert_eq!(cq.wait(None), Ok(entry(Recv)));
    let before = network.now();
    assert_eq!(cq.wait(Some(Duration::from_millis(5))), Err(WaitError::Timeout));
    assert_eq!(network.now().since(before), Duration::from_millis(5));
    // Flushed descriptors also leave entries.
    b.post_recv(0, 0, 8);
    b.vi.disconnect();
    assert_eq!((cq.done(), cq.done()), (Some(entry(Recv)), None));
}

#[test]
fn overflow_is_an_error_and_breaks_the_vi() {
    let network = Network::new(1, Config::default());
    let (_a_nic, a, b_nic, b, cq) = attached(&network, 2);
    let told = Errors::of(&b_nic);
    for n in 0..5 {
        b.post_recv(n, 0, 8);
    }
    for n in 0..3 {
        a.post_send(n, 0, 8, None);
    }
    network.run();
    let errors_told = told.take();
    assert_eq!(errors_told.len(), 1, "{errors_told:?}");
    let error = errors_told[0];
    assert_eq!((error.resource, error.cq, error.vi), (Resource::Cq, Some(77), Some(5)));
    assert_eq!(error.code, ErrorCode::Catastrophic);
    assert_eq!((b.vi.state(), b.vi.cause()), (ViState::Error, Some(Cause::CqOverrun)));
    let good = Status::empty();
    let flushed = Status::DESC_FLUSHED_ERROR;
    assert_eq!(errors(&b.received()), [good, good, good, flushed, flushed]);
    assert_eq!(a.vi.state(), ViState::Error);
    assert_eq!(core::iter::from_fn(|| cq.done()).count(), 2);
}

#[test]
fn resized_completion_queue_keeps_its_entries() {
    let network = Network::new(1, Config::default());
    let (_a_nic, a, b_nic, b, cq) = attached(&network, 4);
    for n in 0..6 {
        b.post_recv(n, 0, 8);
    }
    (0..4).for_each(|n| a.post_send(n, 0, 8, None));
    network.run();
    assert_eq!(cq.resize(3), Err(CqError::Entries));
    assert_eq!((cq.resize(0), cq.resize(u32::MAX)), (Err(CqError::Entries), Err(CqError::Entries)));
    cq.resize(6).unwrap();
    assert_eq!(cq.capacity(), 6);
    (0..2).for_each(|n| a.post_send(n, 0, 8, None));
    network.run();
    assert_eq!((b.vi.state(), core::iter::from_fn(|| cq.done()).count()), (ViState::Connected, 6));
    // A completion queue in use cannot be destroyed.
    let cq = cq.destroy().unwrap_err();
    assert!(cq.in_use());
    drop(b);
    assert!(!cq.in_use() && cq.destroy().is_ok());
    assert_eq!(b_nic.create_cq(0, 0).err(), Some(CqError::Entries));
    // A completion queue that is dropped while in use exists as long as it is used.
    let (_a_nic, a, _b_nic, b, cq) = attached(&Network::new(2, Config::default()), 1);
    drop(cq);
    drop((a, b));
}

#[test]
fn callbacks_come_in_order_one_for_each() {
    let network = Network::new(1, Config::default());
    let [(_, a), (_, b)] = pair(&network, 10_000, open(RELIABLE[0]));
    let b = Arc::new(b);
    let heard = Arc::new(Mutex::new(Vec::new()));
    for i in 0..3 {
        let (heard, b) = (heard.clone(), b.clone());
        b.clone().vi.recv_notify(Box::new(move |done| {
            // A callback may use the VI, because the lock is free.
            b.post_recv(20 + i, 0, 8);
            heard.lock().unwrap().push((i, done.immediate));
        }));
    }
    for n in 0..4 {
        b.post_recv(n, 0, 8);
    }
    let sent = Arc::new(Mutex::new(0));
    let count = sent.clone();
    a.vi.send_notify(Box::new(move |done| {
        *count.lock().unwrap() += 1;
        assert_eq!(done.result(), Ok(8));
    }));
    for n in 0..4 {
        a.post_send(n, 0, 8, Some(n as u32));
    }
    network.run();
    assert_eq!(*heard.lock().unwrap(), [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
    assert_eq!(b.received()[0].immediate, Some(3));
    assert_eq!((*sent.lock().unwrap(), a.sent().len()), (1, 3));
    // A callback that is registered late gets a completion from before.
    a.post_send(0, 0, 8, Some(9));
    network.run();
    let late = heard.clone();
    b.vi.recv_notify(Box::new(move |done| late.lock().unwrap().push((9, done.immediate))));
    assert_eq!(heard.lock().unwrap().last(), Some(&(9, Some(9))));
}

#[test]
fn completion_queue_calls_back_until_destroyed() {
    let network = Network::new(1, Config::default());
    let (_a_nic, a, _b_nic, b, cq) = attached(&network, 8);
    let heard = Arc::new(Mutex::new(Vec::new()));
    for i in 0..3 {
        let heard = heard.clone();
        cq.notify(Box::new(move |entry| heard.lock().unwrap().push((i, entry))));
    }
    for n in 0..2 {
        b.post_recv(n, 0, 8);
        a.post_send(n, 0, 8, None);
    }
    network.run();
    let recv = entry(WorkQueueKind::Recv);
    assert_eq!(*heard.lock().unwrap(), [(0, recv), (1, recv)]);
    assert_eq!((cq.done(), b.received().len()), (None, 2));
    drop(b);
    cq.destroy().unwrap();
    assert_eq!((heard.lock().unwrap().len(), Arc::strong_count(&heard)), (2, 1));
}

/// In a live network, callbacks run in a thread of the NIC, even if no thread of the program waits.
#[test]
fn callbacks_of_a_live_network_need_no_waiting_thread() {
    let network = Network::new(1, Config::default().live());
    let [a_nic, b_nic] = ["a", "b"].map(|name| network.nic(name));
    let [a, b] = [&a_nic, &b_nic].map(|nic| End::new(nic, 100, open(Reliability::UNRELIABLE)));
    let server = b_nic.address(b"s");
    let soon = Some(Duration::from_secs(10));
    std::thread::scope(|s| {
        let request = || loop {
            let result = a.vi.connect_request(&a_nic.address(b"c"), &server, soon);
            if result != Err(via::error::ConnectError::NoMatch) {
                break result;
            }
        };
        let request = s.spawn(request);
        let connection = b_nic.connect_wait(&server, soon).unwrap();
        via::Connection::accept(connection, &b.vi).unwrap();
        request.join().unwrap().unwrap();
    });
    let (tell, told) = std::sync::mpsc::channel();
    let told_error = tell.clone();
    b_nic.set_error_handler(Some(Arc::new(move |error| {
        let _ = told_error.send((std::thread::current().id(), error.code as u32));
    })));
    b.vi.recv_notify(Box::new(move |done| {
        let _ = tell.send((std::thread::current().id(), done.length));
    }));
    b.post_recv(0, 0, 50);
    a.post_send(0, 0, 50, None);
    a.post_send(1, 0, 50, None);
    // No call of this thread advances time.
    let [first, second] = [(); 2].map(|()| told.recv_timeout(Duration::from_secs(10)).unwrap());
    assert_eq!((first.1, second.1), (50, ErrorCode::RecvqEmpty as u32));
    assert!(first.0 == second.0 && first.0 != std::thread::current().id());
}
