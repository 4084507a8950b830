//! Sleeping on a completion queue among other descriptors.
//!
//! If a NIC's queues cannot be watched, the cases use [`CompletionQueue::signal`] instead, as a program would.

use super::cq::{entry, on, requested, taken};
use super::cq_signal::{heard, signal};
use super::prelude::*;
use sovia_sys::{clock, poll};
use via::cq::Watch;

use WorkQueueKind::Recv;

group! { "watch":
    both every_message_wakes_the_thread_that_watches [CompletionQueues],
    alone an_entry_that_is_there_ends_a_watch_at_once [CompletionQueues],
    alone an_entry_made_by_another_thread_wakes_the_one_that_watches [CompletionQueues],
    alone one_thread_watches_at_a_time [CompletionQueues],
    alone a_nic_goes_on_after_its_last_watch [CompletionQueues],
    alone threads_that_wait_are_woken_though_another_watches [CompletionQueues],
}

/// Longest sleep. Only a failure waits this long.
const PATIENCE_NS: u64 = 10_000_000_000;

fn is_over(watch: &Watch) -> bool {
    watch.until.is_some_and(|until| until <= clock::now_ns())
}

/// Sleeps on a watch that has begun. Returns false if nothing has ended the sleep.
fn sleep<C: CompletionQueue>(cq: &C, watch: &Watch) -> bool {
    let entry = |fd| poll::PollFd { fd, events: 1, revents: 0 };
    let mut fds = watch.descriptors.map(entry);
    let left = watch.until.map_or(PATIENCE_NS, |until| until.saturating_sub(clock::now_ns()));
    let woken = poll::ppoll(&mut fds, Some(left.min(PATIENCE_NS)), None).expect("a sleep");
    cq.awake(fds.map(|fd| fd.revents != 0));
    woken > 0 || left < PATIENCE_NS
}

/// Sleeps until the queue may have an entry.
fn wait<C: CompletionQueue>(cq: &C) {
    match cq.watch() {
        Some(watch) => assert!(sleep(cq, &watch), "nothing has woken the thread"),
        None => heard(&signal(cq)),
    }
}

fn next<C: CompletionQueue>(cq: &C) -> CqEntry {
    loop {
        if let Some(entry) = cq.done() {
            return entry;
        }
        wait(cq);
    }
}

mod every_message_wakes_the_thread_that_watches {
    use super::*;

    const MESSAGES: usize = 1000;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(64, 1).unwrap();
        let end = on(cx, None, Some(&cq), 1);
        for i in 0..16 {
            end.post_recv(i, 0, 8);
        }
        end.accept(cx);
        for i in 0..MESSAGES {
            assert_eq!(next(&cq), CqEntry { context: 1, queue: Recv });
            assert_eq!(taken(&end, Recv).result(), Ok(8));
            end.expect(0, 8, i);
            end.post_recv(i % 16, 0, 8);
            end.send(20, 32, 8);
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = requested(cx);
        for i in 0..MESSAGES {
            end.post_recv(1, 32, 8);
            end.send_pattern(0, 0, 8, i);
            end.received();
        }
    }
}

fn an_entry_that_is_there_ends_a_watch_at_once<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    end.post_recv(0, 0, 8);
    end.vi.disconnect();
    for _ in 0..3 {
        if let Some(watch) = cq.watch() {
            assert!(is_over(&watch), "{watch:?}");
            cq.awake([false; 3]);
        }
    }
    entry(&cq, 1, Recv);
    assert_eq!(cq.done(), None);
    taken(&end, Recv);
}

fn an_entry_made_by_another_thread_wakes_the_one_that_watches<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    for _ in 0..20 {
        end.post_recv(0, 0, 8);
        std::thread::scope(|scope| {
            scope.spawn(|| end.vi.disconnect());
            assert_eq!(next(&cq), CqEntry { context: 1, queue: Recv });
        });
        taken(&end, Recv);
    }
}

fn one_thread_watches_at_a_time<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    if cq.watch().is_some() {
        assert_eq!(cq.watch(), None);
        cq.awake([false; 3]);
        assert!(cq.watch().is_some(), "nobody watches any more");
        cq.awake([false; 3]);
    }
}

/// After the last watch, the NIC's own thread handles the network again: a message is received although no thread of
/// the program looks.
fn a_nic_goes_on_after_its_last_watch<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, None, Some(&cq), 2));
    b.post_recv(0, 0, 8);
    connect(cx, &a, &b);
    if cq.watch().is_some() {
        cq.awake([false; 3]);
    }
    let told = signal(&cq);
    a.send(0, 0, 8);
    heard(&told);
    entry(&cq, 2, Recv);
    assert_eq!(taken(&b, Recv).result(), Ok(8));
}

/// A message travels between two VIs that are not attached to the watched queue.
fn threads_that_wait_are_woken_though_another_watches<N: Nic>(cx: &Context<'_, N>) {
    const MESSAGES: usize = 20;
    /// By then the other threads are usually asleep.
    const BEGUN: Duration = Duration::from_millis(2);
    const SHORT_NS: u64 = 5_000_000;
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, None, None, 0));
    b.post_recv(0, 0, 8);
    connect(cx, &a, &b);
    for i in 0..MESSAGES {
        // The watch begins before the other threads sleep.
        let mut watch = cq.watch();
        let can_be_watched = watch.is_some();
        thread::scope(|scope| {
            let waits = scope.spawn(|| b.receives(0, 8, i));
            let sends = scope.spawn(|| {
                thread::sleep(BEGUN);
                a.send_pattern(0, 0, 8, i);
            });
            while !(waits.is_finished() && sends.is_finished()) {
                if let Some(begun) = watch {
                    let entry = |fd| poll::PollFd { fd, events: 1, revents: 0 };
                    let mut fds = begun.descriptors.map(entry);
                    poll::ppoll(&mut fds, Some(SHORT_NS), None).expect("a sleep");
                    cq.awake(fds.map(|fd| fd.revents != 0));
                }
                thread::sleep(BEGUN / 2);
                watch = cq.watch();
            }
            if watch.is_some() {
                cq.awake([false; 3]);
            }
        });
        let again = cq.watch().map(|_| cq.awake([false; 3]));
        assert_eq!(again.is_some(), can_be_watched, "no thread sleeps any more");
        b.post_recv(0, 0, 8);
    }
}
