//! Waits on completion queues, by one thread and by several.

use super::cq::{entry, on, requested, taken};
use super::prelude::*;
use WorkQueueKind::Recv;

group! { "completion queue":
    alone a_wait_for_an_entry_times_out [CompletionQueues],
    alone a_wait_takes_an_entry_that_is_there [CompletionQueues],
    alone a_wait_for_an_entry_may_be_longer_than_any_clock [CompletionQueues],
    both a_wait_for_an_entry_is_woken_by_a_message [CompletionQueues],
    both a_wait_for_an_entry_is_woken_by_the_end [CompletionQueues],
    both looking_does_not_block_behind_a_wait_for_an_entry [CompletionQueues],
    both each_of_several_waiting_threads_gets_its_entries [CompletionQueues],
    alone several_threads_look_and_each_entry_is_found_once [CompletionQueues],
    both ping_pong_by_completion_queue [CompletionQueues],
}

/// A wait must not end before its time.
fn a_wait_for_an_entry_times_out<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    // Waits with nothing attached, with an attached VI, and with a posted descriptor.
    let end = on(cx, Some(&cq), Some(&cq), 1);
    for posted in [false, true] {
        if posted {
            end.post_recv(0, 0, 8);
        }
        for time in [0, 1, 30] {
            let begin = Instant::now();
            assert_eq!(cq.wait(ms(time)), Err(WaitError::Timeout));
            let took = begin.elapsed();
            assert!(took >= Duration::from_millis(time), "{took:?} for {time} ms");
            assert!(took < Duration::from_secs(5), "{took:?} for {time} ms");
        }
    }
}

fn a_wait_takes_an_entry_that_is_there<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    for i in 0..3 {
        end.post_recv(i, 0, 8);
    }
    end.vi.disconnect();
    for timeout in [ms(0), SOON, None] {
        assert_eq!(cq.wait(timeout), Ok(CqEntry { context: 1, queue: Recv }));
        taken(&end, Recv);
    }
}

fn a_wait_for_an_entry_may_be_longer_than_any_clock<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(16, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    end.post_recv(0, 0, 8);
    thread::scope(|s| {
        let waiter = s.spawn(|| cq.wait(Some(Duration::MAX)));
        never("woken by nothing", || waiter.is_finished());
        end.vi.disconnect();
        assert_eq!(waiter.join().unwrap(), Ok(CqEntry { context: 1, queue: Recv }));
    });
    taken(&end, Recv);
}

mod a_wait_for_an_entry_is_woken_by_a_message {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(16, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 1));
        end.accept(cx);
        thread::scope(|s| {
            for i in 0..3 {
                end.post_recv(0, 0, 8);
                let waiter = s.spawn(|| entry(&cq, 1, Recv));
                never("woken by nothing", || waiter.is_finished());
                line.meet();
                waiter.join().unwrap();
                assert_eq!(taken(&end, Recv).result(), Ok(8));
                end.expect(0, 8, i);
            }
        });
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        for i in 0..3 {
            line.meet();
            end.send_pattern(0, 0, 8, i);
        }
        end.await_state(ViState::Error);
    }
}

/// Flushed descriptors leave entries, which wake the waiting thread.
mod a_wait_for_an_entry_is_woken_by_the_end {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(16, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 1));
        end.post_recv(0, 0, 8);
        end.accept(cx);
        thread::scope(|s| {
            let waiter = s.spawn(|| entry(&cq, 1, Recv));
            never("woken by nothing", || waiter.is_finished());
            line.meet();
            waiter.join().unwrap();
        });
        assert!(taken(&end, Recv).result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        line.meet();
        end.vi.disconnect();
    }
}

mod looking_does_not_block_behind_a_wait_for_an_entry {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(16, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 1));
        end.post_recv(0, 0, 8);
        end.accept(cx);
        thread::scope(|s| {
            let waiter = s.spawn(|| entry(&cq, 1, Recv));
            let begin = Instant::now();
            // These times cover a spinning and a sleeping waiter.
            never("an entry out of nothing", || cq.done().is_some() || waiter.is_finished());
            assert!(begin.elapsed() < Duration::from_secs(10), "blocked");
            assert_eq!(cq.capacity().min(16), 16);
            line.meet();
            waiter.join().unwrap();
        });
        assert_eq!(taken(&end, Recv).result(), Ok(8));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        line.meet();
        end.send(0, 0, 8);
        end.await_state(ViState::Error);
    }
}

/// No entry is lost, and no thread keeps sleeping while there is an entry.
mod each_of_several_waiting_threads_gets_its_entries {
    use super::*;

    const THREADS: usize = 3;
    const MESSAGES: usize = 120;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let cq = cx.nic.create_cq(MESSAGES as u32, 1).unwrap();
        let (line, end) = (Line::server(cx), on(cx, None, Some(&cq), 1));
        for i in 0..MESSAGES {
            end.post_recv(i, 0, 8);
        }
        end.accept(cx);
        let descriptors = Mutex::new(std::collections::HashSet::new());
        thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    for _ in 0..MESSAGES / THREADS {
                        entry(&cq, 1, Recv);
                        let done = taken(&end, Recv);
                        assert!(descriptors.lock().unwrap().insert(done.descriptor));
                    }
                });
            }
        });
        assert_eq!((descriptors.lock().unwrap().len(), cq.done()), (MESSAGES, None));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), requested(cx));
        for i in 0..MESSAGES {
            end.send(0, 0, 8);
            if i % 10 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        line.meet();
    }
}

fn several_threads_look_and_each_entry_is_found_once<N: Nic>(cx: &Context<'_, N>) {
    let cq = cx.nic.create_cq(512, 1).unwrap();
    let end = on(cx, None, Some(&cq), 1);
    for i in 0..250 {
        end.post_recv(i, 0, 8);
    }
    end.vi.disconnect();
    let found = core::sync::atomic::AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while cq.done().is_some() {
                    taken(&end, Recv);
                    found.fetch_add(1, core::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(found.into_inner(), 250);
    end.nothing_posted();
}

/// Exchanges many messages, so that a missed wake-up would show.
mod ping_pong_by_completion_queue {
    use super::*;

    const ROUNDS: usize = 3000;

    fn play<N: Nic>(cx: &Context<'_, N>, first: bool, connect: impl Fn(&End<'_, N>)) {
        let cq = cx.nic.create_cq(16, 1).unwrap();
        let end = on(cx, None, Some(&cq), 1);
        end.post_recv(0, 0, 8);
        connect(&end);
        for _ in 0..ROUNDS {
            if first {
                end.send(1, 0, 8);
            }
            entry(&cq, 1, Recv);
            assert_eq!(taken(&end, Recv).result(), Ok(8));
            end.post_recv(0, 0, 8);
            if !first {
                end.send(1, 0, 8);
            }
        }
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        play(cx, false, |end| end.accept(cx));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        play(cx, true, |end| assert!(end.request(cx).is_ok()));
    }
}
