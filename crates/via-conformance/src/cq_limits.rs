//! Capacity of a completion queue, overflow, and destruction.

use super::cq::{entry, on, requested, taken};
use super::prelude::*;
use WorkQueueKind::Recv;

group! { "completion queue":
    alone a_completion_queue_holds_what_was_asked_for [CompletionQueues],
    alone a_completion_queue_of_no_or_too_many_entries_is_refused [CompletionQueues],
    alone a_full_completion_queue_loses_nothing [CompletionQueues],
    both an_overflow_is_told_and_breaks_the_connection [CompletionQueues],
    alone growing_keeps_the_entries [CompletionQueues],
    alone shrinking_keeps_the_entries [CompletionQueues],
    alone shrinking_below_what_is_there_is_refused [CompletionQueues],
    alone a_resized_completion_queue_holds_the_new_number [CompletionQueues],
    alone resizing_to_none_or_too_many_is_refused [CompletionQueues],
    both resizing_during_traffic_loses_nothing [CompletionQueues],
    alone a_completion_queue_in_use_is_not_destroyed [CompletionQueues],
    alone an_unused_completion_queue_is_destroyed [CompletionQueues],
    alone a_dropped_completion_queue_is_left_to_its_vis [CompletionQueues],
    alone the_nics_completion_queues_and_one_more [CompletionQueues, ReachableLimits],
}

/// Leaves `entries` entries of VI 1.
fn fill<N: Nic>(end: &End<'_, N>, entries: usize) {
    for i in 0..entries {
        end.post_recv(i, 0, 8);
    }
    end.vi.disconnect();
}

/// Takes `entries` entries, and checks that no further entry is there.
#[track_caller]
fn drain<N: Nic>(cq: &N::Cq, end: &End<'_, N>, entries: usize) {
    for _ in 0..entries {
        assert_eq!(cq.done(), Some(CqEntry { context: 1, queue: Recv }));
        taken(end, Recv);
    }
    assert_eq!((cq.done(), end.vi.recv_done()), (None, Done::Empty));
}

fn a_completion_queue_holds_what_was_asked_for<N: Nic>(cx: &Context<'_, N>) {
    for entries in [1, 2, 3, 100, 1024, cx.nic.attributes().max_cq_entries] {
        let cq = cx.nic.create_cq(entries, 0).unwrap();
        assert!(cq.capacity() >= entries, "{} of {entries}", cq.capacity());
        assert!(cq.capacity() <= cx.nic.attributes().max_cq_entries);
    }
}

fn a_completion_queue_of_no_or_too_many_entries_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_cq_entries;
    for entries in [0, max + 1, u32::MAX] {
        assert_eq!(cx.nic.create_cq(entries, 0).err(), Some(CqError::Entries), "{entries}");
    }
}

/// Fills the queue to its capacity, several times.
fn a_full_completion_queue_loses_nothing<N: Nic>(cx: &Context<'_, N>) {
    let (told, cq) = (Told::by(cx.nic), cx.nic.create_cq(64, 1).unwrap());
    let (capacity, end) = (cq.capacity() as usize, on(cx, None, Some(&cq), 1));
    for _ in 0..3 {
        fill(&end, capacity);
        drain(&cq, &end, capacity);
    }
    told.nothing();
}

/// After an overflow, every descriptor is still complete and can be taken.
mod an_overflow_is_told_and_breaks_the_connection {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, told) = (Line::server(cx), Told::by(cx.nic));
        let cq = cx.nic.create_cq(8, 55).unwrap();
        let end = on(cx, None, Some(&cq), 1);
        let capacity = cq.capacity() as usize;
        for i in 0..capacity + 3 {
            end.post_recv(i, i * 8, 8);
        }
        end.accept(cx);
        line.tell(&[capacity as u64 + 1]);
        let error = told.of("the overflow", |error| error.resource == Resource::Cq);
        assert_eq!(error.cq, Some(55));
        end.await_state(ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::CqOverrun));
        for i in 0..capacity {
            entry(&cq, 1, Recv);
            assert_eq!(taken(&end, Recv).result(), Ok(8), "message {i}");
        }
        for _ in 0..3 {
            end.vi.recv_wait(SOON).unwrap();
        }
        assert_eq!(end.vi.recv_done(), Done::Empty);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        let messages = line.hear()[0];
        for _ in 0..messages {
            end.post_send(0, 0, 8);
            end.sent();
        }
        end.await_state(ViState::Error);
        line.meet();
    }
}

fn growing_keeps_the_entries<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(8, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    let before = cq.capacity() as usize;
    fill(&end, before);
    cq.resize(1024).unwrap();
    assert!(cq.capacity() >= 1024);
    fill(&end, 200);
    drain(&cq, &end, before + 200);
}

fn shrinking_keeps_the_entries<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(256, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    // The entries in the queue do not begin at its start.
    fill(&end, 100);
    drain(&cq, &end, 100);
    fill(&end, 200);
    for _ in 0..150 {
        entry(&cq, 1, Recv);
        taken(&end, Recv);
    }
    cq.resize(50).unwrap();
    drain(&cq, &end, 50);
}

fn shrinking_below_what_is_there_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    fill(&end, 20);
    let before = cq.capacity();
    for entries in [1, 19] {
        assert_eq!(cq.resize(entries), Err(CqError::Entries));
        assert_eq!(cq.capacity(), before);
    }
    assert_eq!(cq.resize(20), Ok(()));
    drain(&cq, &end, 20);
}

fn a_resized_completion_queue_holds_the_new_number<N: Nic>(cx: &Context<'_, N>) {
    let (told, cq) = (Told::by(cx.nic), cx.nic.create_cq(4, 1).unwrap());
    let end = on(cx, None, Some(&cq), 1);
    for entries in [100, 7, 200, 1] {
        cq.resize(entries).unwrap();
        assert!(cq.capacity() >= entries);
        fill(&end, entries as usize);
        drain(&cq, &end, entries as usize);
    }
    told.nothing();
}

fn resizing_to_none_or_too_many_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let before = cq.capacity();
    for entries in [0, cx.nic.attributes().max_cq_entries + 1, u32::MAX] {
        assert_eq!(cq.resize(entries), Err(CqError::Entries));
    }
    assert_eq!(cq.capacity(), before);
}

mod resizing_during_traffic_loses_nothing {
    use super::*;

    const MESSAGES: usize = 800;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(256, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 1));
        for i in 0..200 {
            end.post_recv(i, i * 8, 8);
        }
        end.accept(cx);
        let stop = core::sync::atomic::AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                let mut sizes = [300, 200, 1024].into_iter().cycle();
                while !stop.load(core::sync::atomic::Ordering::Relaxed) {
                    cq.resize(sizes.next().unwrap()).unwrap();
                    thread::yield_now();
                }
            });
            for i in 0..MESSAGES {
                entry(&cq, 1, Recv);
                let got = taken(&end, Recv);
                assert_eq!(got.descriptor.address, end.address(i % 200));
                end.expect(i % 200 * 8, 8, i);
                end.post_recv(i % 200, i % 200 * 8, 8);
                if i % 100 == 99 {
                    line.tell(&[]);
                }
            }
            stop.store(true, core::sync::atomic::Ordering::Relaxed);
        });
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        for i in 0..MESSAGES {
            if i >= 200 && i % 100 == 0 {
                line.hear();
            }
            end.send_pattern(0, 0, 8, i);
        }
        for _ in 0..2 {
            line.hear();
        }
        line.meet();
    }
}

fn a_completion_queue_in_use_is_not_destroyed<N: Nic>(cx: &Context<'_, N>) {
    let mut cq = cx.nic.create_cq(16, 1).unwrap();
    assert!(!cq.in_use());
    for (send, recv) in [(true, false), (false, true), (true, true)] {
        let vi = on(cx, send.then_some(&cq), recv.then_some(&cq), 1);
        assert!(cq.in_use());
        cq = cq.destroy().expect_err("destroyed");
        // The queue still works.
        vi.post_recv(0, 0, 8);
        vi.vi.disconnect();
        if recv {
            entry(&cq, 1, Recv);
        }
        taken(&vi, Recv);
        assert!(vi.vi.destroy().is_ok());
        assert!(!cq.in_use());
    }
    assert!(cq.destroy().is_ok());
}

fn an_unused_completion_queue_is_destroyed<N: Nic>(cx: &Context<'_, N>) {
    for _ in 0..50 {
        assert!(cx.nic.create_cq(1024, 1).unwrap().destroy().is_ok());
    }
}

/// After the program has dropped the queue, its VIs report completions without it.
fn a_dropped_completion_queue_is_left_to_its_vis<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(64, 1).unwrap();
    let (a, b) = (on(cx, None, None, 0), on(cx, Some(&cq), Some(&cq), 1));
    drop(cq);
    for i in 0..10 {
        b.post_recv(i, i * 8, 8);
    }
    connect(cx, &a, &b);
    for i in 0..10 {
        a.send_pattern(0, 0, 8, i);
    }
    for i in 0..10 {
        let mut got = Done::NotDone;
        eventually("it is done", || {
            got = b.vi.recv_done();
            got != Done::NotDone
        });
        assert_eq!(got.completion().unwrap().result(), Ok(8));
        b.expect(i * 8, 8, i);
    }
}

fn the_nics_completion_queues_and_one_more<N: Nic>(cx: &Context<'_, N>) {
    let max = cx.nic.attributes().max_cq;
    let mut all: Vec<_> = (0..max).map(|_| cx.nic.create_cq(1, 0).unwrap()).collect();
    assert_eq!(cx.nic.create_cq(1, 0).err(), Some(CqError::TooMany));
    assert!(all.pop().unwrap().destroy().is_ok());
    drop(all.pop());
    all.extend([(); 2].map(|()| cx.nic.create_cq(1, 0).unwrap()));
    assert_eq!(cx.nic.create_cq(1, 0).err(), Some(CqError::TooMany));
}
