//! Requests that a VI cannot accept, between a client and a server.

use super::prelude::*;

group! { "connect, client-server":
    both the_reliability_levels_must_match [SeveralLevels],
    both one_rejection_is_not_anothers,
    both a_busy_vi_does_not_accept,
    both a_request_is_left_to_another_vi,
    both a_requester_is_told_what_did_not_match,
    both a_refused_vi_keeps_its_receives,
    both accepting_ends_though_the_vi_is_disconnected,
}

/// Each pair of different levels is refused, and both sides are notified.
mod the_reliability_levels_must_match {
    use super::*;

    fn different<N: Nic>(cx: &Context<'_, N>) -> Vec<(Reliability, Reliability)> {
        let levels = || cx.nic.attributes().reliability.iter();
        levels().flat_map(|a| levels().map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
    }

    fn end<'n, N: Nic>(cx: &Context<'n, N>, reliability: Reliability) -> End<'n, N> {
        End::with(cx, 100, ViAttributes { reliability, ..ViAttributes::default() })
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        for (mine, theirs) in different(cx) {
            let end = end(cx, mine);
            let connection = cx.nic.connect_wait(&cx.server, SOON).unwrap();
            assert_eq!(connection.remote_attributes().reliability, theirs);
            assert_eq!(connection.accept(&end.vi).unwrap_err().error, ConnectError::Reliability);
            assert_eq!(end.vi.state(), ViState::Idle);
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        for (_, mine) in different(cx) {
            let end = end(cx, mine);
            assert_eq!(end.request(cx), Err(ConnectError::Reliability));
            assert_eq!(end.vi.state(), ViState::Idle);
        }
    }
}

mod one_rejection_is_not_anothers {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let end = End::new(cx);
        let wait = |n| cx.nic.connect_wait(&cx.place(n), SOON).unwrap();
        let (first, second) = (wait(1), wait(2));
        first.reject();
        second.accept(&end.vi).unwrap();
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let ends = [(); 2].map(|()| End::new(cx));
        thread::scope(|s| {
            let rejected = s.spawn(|| ends[0].request_at(cx, &cx.place(1)));
            ends[1].request_at(cx, &cx.place(2)).unwrap();
            assert_eq!(rejected.join().unwrap(), Err(ConnectError::Rejected));
        });
        assert_eq!([ViState::Idle, ViState::Connected], [0, 1].map(|i| ends[i].vi.state()));
        line.meet();
    }
}

/// The request is then dropped and so rejected. The VI's connection is not affected.
mod a_busy_vi_does_not_accept {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::accepted(cx);
        let again = cx.nic.connect_wait(&cx.server, SOON).unwrap().accept(&end.vi).unwrap_err();
        assert!(matches!(again.error, ConnectError::State(_)), "{again:?}");
        drop(again);
        end.post_recv(0, 0, 8);
        end.send(1, 0, 8);
        assert_eq!(end.received().result(), Ok(8));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (end, other) = (End::new(cx), End::new(cx));
        end.post_recv(0, 0, 8);
        end.request(cx).unwrap();
        assert_eq!(other.request(cx), Err(ConnectError::Rejected));
        assert_eq!(end.received().result(), Ok(8));
        end.send(1, 0, 8);
        end.await_state(ViState::Error);
    }
}

/// A VI that does not match cannot accept the request either. The request waits for one that is idle and matches.
mod a_request_is_left_to_another_vi {
    use super::*;

    fn sized<'n, N: Nic>(cx: &Context<'n, N>, max_transfer_size: u32) -> End<'n, N> {
        End::with(cx, 100, ViAttributes { max_transfer_size, ..ViAttributes::default() })
    }

    /// Checks that the accept failed for this reason, and returns the request.
    #[track_caller]
    fn refused<C>(accepted: Result<(), NotAccepted<C>>, is: fn(&ConnectError) -> bool) -> C {
        let not = accepted.unwrap_err();
        assert!(is(&not.error), "{not:?}");
        not.request.expect("the request waits for another answer")
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let (busy, other, fit) = (End::accepted(cx), sized(cx, 2000), sized(cx, 1000));
        for round in 0..3 {
            let mut request = cx.nic.connect_wait(&cx.server, SOON).unwrap();
            line.meet();
            // The VIs are tried in any order, and each several times.
            for _ in 0..=round {
                let by_state = |error: &ConnectError| matches!(error, ConnectError::State(_));
                request = refused(request.accept(&busy.vi), by_state);
                request =
                    refused(request.accept(&other.vi), |e| *e == ConnectError::MaxTransferSize);
            }
            assert_eq!((busy.vi.state(), other.vi.state()), (ViState::Connected, ViState::Idle));
            assert_eq!(request.remote_attributes().max_transfer_size, 1000);
            // The requester has not been notified of anything.
            line.meet();
            fit.post_recv(0, 0, 8);
            request.accept(&fit.vi).unwrap();
            assert_eq!(fit.received().result(), Ok(8));
            fit.vi.disconnect();
        }
        // A VI's attributes can be changed to match.
        let request = cx.nic.connect_wait(&cx.server, SOON).unwrap();
        line.meet();
        let request = refused(request.accept(&other.vi), |e| *e == ConnectError::MaxTransferSize);
        other.vi.set_attributes(fit.vi.attributes()).unwrap();
        line.meet();
        other.post_recv(0, 0, 8);
        request.accept(&other.vi).unwrap();
        assert_eq!(other.received().result(), Ok(8));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let (busy, end) = (End::requested(cx), sized(cx, 1000));
        for _ in 0..4 {
            thread::scope(|s| {
                let request = s.spawn(|| end.request(cx));
                line.meet();
                line.meet();
                request.join().unwrap().unwrap();
            });
            end.send(0, 0, 8);
            end.vi.disconnect();
        }
        line.meet();
        drop(busy);
    }
}

/// After a failed accept, the server rejects the request or drops it. In both cases the requester learns what did not
/// match.
mod a_requester_is_told_what_did_not_match {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, 100, longest(cx));
        for rejects in [true, false] {
            let request = cx.nic.connect_wait(&cx.server, SOON).unwrap();
            let not = request.accept(&end.vi).unwrap_err();
            assert_eq!(not.error, ConnectError::MaxTransferSize);
            let request = not.request.unwrap();
            if rejects {
                request.reject();
            }
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let max_transfer_size = cx.nic.attributes().max_transfer_size - 1;
        let end = End::with(cx, 100, ViAttributes { max_transfer_size, ..ViAttributes::default() });
        for _ in 0..2 {
            assert_eq!(end.request(cx), Err(ConnectError::MaxTransferSize));
            assert_eq!(end.vi.state(), ViState::Idle);
        }
    }
}

mod a_refused_vi_keeps_its_receives {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        cx.nic.connect_wait(&cx.server, SOON).unwrap().reject();
        let end = End::accepted(cx);
        for i in 0..3 {
            end.send_pattern(0, 0, 8, i);
        }
        end.await_state(ViState::Error);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..3 {
            end.post_recv(i, i * 8, 8);
        }
        assert_eq!(
            end.vi.connect_request(&cx.client(), &cx.place(1), SOON).err(),
            Some(ConnectError::NoMatch)
        );
        assert_eq!(end.request(cx), Err(ConnectError::Rejected));
        assert_eq!(end.vi.queues_empty(), (true, false));
        end.request(cx).unwrap();
        for i in 0..3 {
            end.receives(i * 8, 8, i);
        }
    }
}

/// Another thread disconnects the VI at any moment. The VI can be connected again.
mod accepting_ends_though_the_vi_is_disconnected {
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering};

    const ROUNDS: usize = 20;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        for _ in 0..ROUNDS {
            let connection = cx.nic.connect_wait(&cx.server, SOON).unwrap();
            thread::scope(|s| {
                let accepting = s.spawn(|| drop(connection.accept(&end.vi)));
                while !accepting.is_finished() {
                    end.vi.disconnect();
                    thread::yield_now();
                }
            });
            end.vi.disconnect();
            line.meet();
        }
        end.post_recv(0, 0, 8);
        end.accept_at(&cx.place(1));
        assert_eq!(end.received().result(), Ok(8));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, is_over) = (Line::client(cx), End::new(cx), AtomicBool::new(false));
        thread::scope(|s| {
            // Each request fails, or gives a connection that ends at once.
            s.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = end.vi.connect_request(&cx.client(), &cx.server, SOON);
                    end.vi.disconnect();
                }
            });
            (0..ROUNDS).for_each(|_| line.meet());
            is_over.store(true, Ordering::Relaxed);
        });
        end.request_at(cx, &cx.place(1)).unwrap();
        end.send(0, 0, 8);
    }
}
