//! Polling and waiting.

group! { "transfer":
    both empty_queues_say_so,
    both a_wait_times_out,
    both a_time_may_be_longer_than_any_clock,
    both a_sleeper_is_woken_by_a_message,
    both a_sleeper_is_woken_by_the_end,
    both done_does_not_block_behind_wait,
    both threads_share_a_vi,
    both ping_pong,
}

/// With nothing posted, polls and waits return at once.
pub(super) mod empty_queues_say_so {
    use crate::{Context, End, SOON};
    use via::error::WaitError;
    use via::{Done, Nic, Vi};

    pub(crate) fn server<N: Nic>(_: &Context<'_, N>) {}

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.nothing_posted();
        assert_eq!(end.vi.recv_wait(SOON), Err(WaitError::Empty));
        assert_eq!(end.vi.send_wait(None), Err(WaitError::Empty));
        end.post_recv(0, 0, 8);
        assert_eq!(end.vi.recv_done(), Done::NotDone);
        assert_eq!(end.vi.queues_empty(), (true, false));
    }
}

/// A wait must not end before its time, on a connected VI or an unconnected one.
pub(super) mod a_wait_times_out {
    use crate::{Context, End};
    use std::time::{Duration, Instant};
    use via::error::WaitError;
    use via::{Nic, Vi, ViState};

    fn try_it<N: Nic>(end: &End<'_, N>) {
        for ms in [0, 1, 30] {
            let timeout = Duration::from_millis(ms);
            let begin = Instant::now();
            assert_eq!(end.vi.recv_wait(Some(timeout)), Err(WaitError::Timeout));
            assert!(begin.elapsed() >= timeout, "{:?} for {ms} ms", begin.elapsed());
        }
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        try_it(&end);
        end.accept(cx);
        try_it(&end);
        end.vi.disconnect();
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        end.await_state(ViState::Error);
    }
}

/// Such a time works like no timeout.
pub(super) mod a_time_may_be_longer_than_any_clock {
    use crate::{Context, End};
    use std::time::Duration;
    use via::{Connection, Nic, Vi, ViState};

    const EVER: Option<Duration> = Some(Duration::MAX);

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        cx.nic.connect_wait(&cx.server, EVER).unwrap().accept(&end.vi).unwrap();
        assert_eq!(end.vi.recv_wait(EVER).unwrap().result(), Ok(8));
        end.vi.disconnect();
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.request_within(cx, &cx.server, EVER).unwrap();
        end.post_send(0, 0, 8);
        assert_eq!(end.vi.send_wait(EVER).unwrap().result(), Ok(8));
        end.await_state(ViState::Error);
    }
}

/// The thread waits on a connected VI, or on one that is connected meanwhile.
pub(super) mod a_sleeper_is_woken_by_a_message {
    use crate::{Context, End};
    use std::thread;
    use std::time::{Duration, Instant};
    use via::Nic;

    const PAUSE: Duration = Duration::from_millis(60);

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        thread::scope(|s| {
            let waiter = s.spawn(|| end.received().result());
            thread::sleep(PAUSE);
            end.accept(cx);
            assert_eq!(waiter.join().unwrap(), Ok(8));
        });
        for _ in 0..5 {
            end.post_recv(0, 0, 8);
            // The time is read before the message, because this thread may be suspended after it for as long as the
            // pause.
            let begin = Instant::now();
            end.send(1, 0, 8);
            assert_eq!(end.received().result(), Ok(8));
            assert!(begin.elapsed() >= PAUSE / 2);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(1, 0, 8);
        end.request(cx).unwrap();
        end.send(0, 0, 8);
        for round in 0..5 {
            assert!(end.received().result().is_ok());
            if round < 4 {
                end.post_recv(1, 0, 8);
            }
            thread::sleep(PAUSE);
            end.send(0, 0, 8);
        }
    }
}

/// The peer disconnects, or another thread does.
pub(super) mod a_sleeper_is_woken_by_the_end {
    use crate::{Context, End};
    use std::thread;
    use std::time::Duration;
    use via::{Nic, Status, Vi, ViState};

    fn flushed<N: Nic>(end: &End<'_, N>) {
        assert!(end.received().result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        end.accept(cx);
        flushed(&end);
        assert_eq!(end.vi.state(), ViState::Error);
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        end.request(cx).unwrap();
        thread::scope(|s| {
            s.spawn(|| flushed(&end));
            thread::sleep(Duration::from_millis(80));
            end.vi.disconnect();
        });
    }
}

/// Another thread may poll and post while one waits.
pub(super) mod done_does_not_block_behind_wait {
    use crate::{Context, End};
    use std::thread;
    use std::time::{Duration, Instant};
    use via::{Done, Nic, Vi};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        end.post_recv(1, 0, 8);
        end.accept(cx);
        thread::scope(|s| {
            let waiter = s.spawn(|| end.received().result());
            for pause in [0, 60] {
                // These times cover a spinning and a sleeping waiter.
                thread::sleep(Duration::from_millis(pause));
                let begin = Instant::now();
                for _ in 0..100 {
                    assert_eq!(end.vi.recv_done(), Done::NotDone);
                    assert_eq!(end.vi.send_done(), Done::Empty);
                }
                assert!(begin.elapsed() < Duration::from_secs(10));
            }
            end.send(2, 0, 8);
            assert_eq!(waiter.join().unwrap(), Ok(8));
        });
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        end.request(cx).unwrap();
        assert!(end.received().result().is_ok());
        end.send(1, 0, 8);
    }
}

/// Several threads send on one VI, several receive, and every message is received exactly once.
pub(super) mod threads_share_a_vi {
    use crate::{Context, End};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;
    use via::error::WaitError;
    use via::{Nic, Vi};

    const THREADS: usize = 3;
    const EACH: usize = 80;
    const ALL: usize = THREADS * EACH;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let mut places = std::collections::HashMap::new();
        for i in 0..ALL {
            places.insert(end.post_recv(i, i * 4000, 4000).address, i * 4000);
        }
        end.accept(cx);
        let seen = Mutex::new(vec![false; ALL]);
        let count = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    while count.load(Ordering::SeqCst) < ALL {
                        match end.vi.recv_wait(Some(Duration::from_millis(100))) {
                            Ok(done) => {
                                assert!(done.result().is_ok(), "{:?}", done.status);
                                let bytes = end.bytes(places[&done.descriptor.address], 8);
                                let n = u64::from_le_bytes(bytes.try_into().unwrap()) as usize;
                                assert!(!core::mem::replace(&mut seen.lock().unwrap()[n], true));
                                count.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(WaitError::Timeout | WaitError::Empty) => {}
                        }
                    }
                });
            }
        });
        end.nothing_posted();
        end.send(ALL, 0, 0);
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(ALL, 0, 0);
        end.request(cx).unwrap();
        thread::scope(|s| {
            for t in 0..THREADS {
                let end = &end;
                s.spawn(move || {
                    for i in 0..EACH {
                        let n = t * EACH + i;
                        end.write(n * 4000, &(n as u64).to_le_bytes());
                        end.post_send(n, n * 4000, 8 + n * 13 % 3990);
                        assert!(end.sent().result().is_ok());
                    }
                });
            }
        });
        assert!(end.received().result().is_ok());
        end.nothing_posted();
    }
}

/// Exchanges many messages, so that a missed wake-up would show.
pub(super) mod ping_pong {
    use crate::{Context, End};
    use via::Nic;

    const ROUNDS: usize = 20_000;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        end.accept(cx);
        for _ in 0..ROUNDS {
            assert_eq!(end.received().result(), Ok(8));
            end.post_recv(0, 0, 8);
            end.send(1, 0, 8);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        for _ in 0..ROUNDS {
            end.post_recv(0, 0, 8);
            end.send(1, 0, 8);
            assert_eq!(end.received().result(), Ok(8));
        }
    }
}
