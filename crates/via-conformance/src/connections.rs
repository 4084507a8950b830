//! Cases in which VIs connect, are refused, and connect again.

group! { "connect, client-server":
    both nobody_waits_is_no_match,
    both a_request_can_be_rejected,
    both a_request_times_out,
    both request_that_comes_as_a_wait_times_out_is_not_rejected,
    both attributes_must_match,
    both addresses_and_attributes_are_told,
    both a_vi_connects_again,
    both several_wait_at_one_address,
    both many_vis_between_two,
}

/// A request without a waiting server fails at once, and the VI is unchanged.
pub(super) mod nobody_waits_is_no_match {
    use crate::{Context, End, SOON};
    use via::error::ConnectError;
    use via::{Nic, Vi, ViState};

    pub(crate) fn server<N: Nic>(_: &Context<'_, N>) {}

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 100);
        let begin = std::time::Instant::now();
        let error = end.vi.connect_request(&cx.client(), &cx.server, SOON).unwrap_err();
        assert_eq!(error, ConnectError::NoMatch);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5));
        assert_eq!((end.vi.state(), end.vi.queues_empty()), (ViState::Idle, (true, false)));
        let long = [7; 1000];
        let address = cx.server.with_discriminator(&long);
        let error = end.vi.connect_request(&cx.client(), &address, SOON).unwrap_err();
        assert!(matches!(error, ConnectError::InvalidParameter(_)), "{error}");
    }
}

/// The program rejects a request, or drops it.
pub(super) mod a_request_can_be_rejected {
    use crate::{Context, End, SOON};
    use via::error::ConnectError;
    use via::{Connection, Nic, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        cx.nic.connect_wait(&cx.server, SOON).unwrap().reject();
        drop(cx.nic.connect_wait(&cx.server, SOON).unwrap());
        // The rejected VI can be used like any other.
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        end.accept(cx);
        assert_eq!(end.received().result(), Ok(8));
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for _ in 0..2 {
            assert_eq!(end.request(cx).unwrap_err(), ConnectError::Rejected);
            assert_eq!(end.vi.state(), ViState::Idle);
        }
        end.request(cx).unwrap();
        end.send(0, 0, 8);
    }
}

/// A request without an answer times out, and so does a wait without a request.
pub(super) mod a_request_times_out {
    use crate::withdrawn;
    use crate::{Context, End, Line};
    use core::time::Duration;
    use via::error::ConnectError;
    use via::{Connection, Nic, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let other = cx.place(1);
        let short = Some(Duration::from_millis(20));
        assert_eq!(cx.nic.connect_wait(&other, short).err(), Some(ConnectError::Timeout));
        let connection = withdrawn::received(cx, &line);
        let end = End::new(cx);
        assert_eq!(connection.accept(&end.vi).unwrap_err().error, ConnectError::Timeout);
        assert_eq!(end.vi.state(), ViState::Idle);
        let strange = via::NetAddress::new(b"nobody's NIC", b"x");
        let error = cx.nic.connect_wait(&strange, short).err();
        assert!(matches!(error, Some(ConnectError::InvalidParameter(_))), "{error:?}");
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let end = End::new(cx);
        let none = Some(Duration::ZERO);
        let error = end.vi.connect_request(&cx.client(), &cx.server, none).unwrap_err();
        assert!(matches!(error, ConnectError::InvalidParameter(_)), "{error}");
        withdrawn::request(cx, &line, &end);
    }
}

/// The server waits for short times, one after the other. Meanwhile another of its threads handles arrivals from the
/// network.
pub(super) mod request_that_comes_as_a_wait_times_out_is_not_rejected {
    use crate::{Context, End};
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::time::Duration;
    use std::thread;
    use via::error::ConnectError;
    use via::{Connection, Nic, Vi, ViState};

    const ROUNDS: usize = 500;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (end, is_over) = (End::new(cx), AtomicBool::new(false));
        let mut times = (0..2000).step_by(7).map(Duration::from_micros).cycle();
        thread::scope(|s| {
            s.spawn(|| {
                let nobody = cx.place(1);
                while !is_over.load(Ordering::Relaxed) {
                    let request = cx.nic.connect_wait(&nobody, Some(Duration::ZERO));
                    assert_eq!(request.err(), Some(ConnectError::Timeout));
                }
            });
            for _ in 0..ROUNDS {
                let request = loop {
                    match cx.nic.connect_wait(&cx.server, times.next()) {
                        Ok(request) => break request,
                        Err(error) => assert_eq!(error, ConnectError::Timeout),
                    }
                };
                request.accept(&end.vi).unwrap();
                end.vi.disconnect();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for _ in 0..ROUNDS {
            end.request(cx).unwrap();
            end.await_state(ViState::Error);
            end.vi.disconnect();
        }
    }
}

/// The maximum transfer sizes differ, and both sides are notified.
pub(super) mod attributes_must_match {
    use crate::{Context, End, SOON};
    use via::error::{ConnectError, CreateViError};
    use via::{Connection, Nic, Reliability, Vi, ViAttributes, ViState};

    fn small() -> ViAttributes {
        ViAttributes { max_transfer_size: 1024, ..ViAttributes::default() }
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, 100, ViAttributes::default());
        let connection = cx.nic.connect_wait(&cx.server, SOON).unwrap();
        assert_eq!(connection.remote_attributes().max_transfer_size, 1024);
        assert_eq!(connection.accept(&end.vi).unwrap_err().error, ConnectError::MaxTransferSize);
        assert_eq!(end.vi.state(), ViState::Idle);
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, 100, small());
        assert_eq!(end.request(cx).unwrap_err(), ConnectError::MaxTransferSize);
        assert_eq!(end.vi.state(), ViState::Idle);

        let max = cx.nic.attributes().max_transfer_size;
        for size in [0, max + 1] {
            let wrong = ViAttributes { max_transfer_size: size, ..small() };
            assert_eq!(cx.nic.create_vi(wrong).err(), Some(CreateViError::MaxTransferSize));
        }
        let offered = cx.nic.attributes().reliability;
        for level in Reliability::all().iter() {
            let vi = cx.nic.create_vi(ViAttributes { reliability: level, ..small() });
            let refused = (!offered.contains(level)).then_some(CreateViError::Reliability);
            assert_eq!(vi.err(), refused);
        }
    }
}

/// Each side learns the other's attributes. The waiting side also learns the requester's address.
pub(super) mod addresses_and_attributes_are_told {
    use crate::{Context, End, SOON};
    use via::{Connection, Nic, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let connection = cx.nic.connect_wait(&cx.server, SOON).unwrap();
        assert_eq!(&*connection.remote_address().discriminator, b"client");
        let theirs = *connection.remote_attributes();
        assert_eq!(theirs.max_transfer_size, end.vi.attributes().max_transfer_size);
        assert_eq!((theirs.reliability, theirs.ptag), (end.vi.attributes().reliability, None));
        connection.accept(&end.vi).unwrap();
        end.await_state(ViState::Error);
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let theirs = end.request(cx).unwrap();
        assert_eq!(theirs.max_transfer_size, end.vi.attributes().max_transfer_size);
        // Only an idle VI can be destroyed.
        let (vi, error) = end.vi.destroy().unwrap_err();
        assert_eq!(error.state, ViState::Connected);
        vi.disconnect();
        assert!(vi.destroy().is_ok());
    }
}

/// A VI can connect again after a disconnect at either end, any number of times.
pub(super) mod a_vi_connects_again {
    use crate::{Context, End, SOON};
    use via::error::ConnectError;
    use via::{Cause, Nic, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for round in 0..20 {
            end.post_recv(0, 0, 100);
            end.accept(cx);
            assert_eq!(end.received().result(), Ok(100));
            end.expect(0, 100, round);
            if round % 2 == 0 {
                end.vi.disconnect();
            } else {
                end.await_state(ViState::Error);
                assert_eq!(end.vi.cause(), Some(Cause::PeerDisconnected));
                end.vi.disconnect();
            }
            assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Idle, None));
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for round in 0..20 {
            end.request(cx).unwrap();
            let again = end.vi.connect_request(&cx.client(), &cx.server, SOON);
            assert!(matches!(again, Err(ConnectError::State(_))), "{again:?}");
            end.fill(0, 100, round);
            end.send(0, 0, 100);
            if round % 2 == 0 {
                end.await_state(ViState::Error);
            }
            end.vi.disconnect();
            end.vi.disconnect();
            assert_eq!(end.vi.state(), ViState::Idle);
        }
    }
}

/// Several threads wait at one address, and each request goes to one of them.
pub(super) mod several_wait_at_one_address {
    use crate::{Context, End};
    use std::thread;
    use via::Nic;

    const AT_ONCE: usize = 4;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        thread::scope(|s| {
            for _ in 0..AT_ONCE {
                s.spawn(|| {
                    let end = End::new(cx);
                    end.post_recv(0, 0, 8);
                    end.accept(cx);
                    assert_eq!(end.received().result(), Ok(8));
                    end.send(1, 0, 8);
                    end.await_state(via::ViState::Error);
                });
            }
        });
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        thread::scope(|s| {
            for seed in 0..AT_ONCE {
                s.spawn(move || {
                    let end = End::new(cx);
                    end.post_recv(0, 100, 8);
                    end.request(cx).unwrap();
                    end.fill(0, 8, seed);
                    end.send(1, 0, 8);
                    assert_eq!(end.received().result(), Ok(8));
                    end.expect(100, 8, seed);
                });
            }
        });
    }
}

/// Many connections between the same two roles exist at once.
pub(super) mod many_vis_between_two {
    use crate::{Context, End};
    use via::Nic;
    use via::{Vi, ViAttributes};

    const VIS: usize = 200;

    fn end<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
        End::with(cx, 64, ViAttributes::default())
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let ends: Vec<_> = (0..VIS)
            .map(|_| {
                let end = end(cx);
                end.post_recv(0, 0, 8);
                end.accept(cx);
                end
            })
            .collect();
        for (i, end) in ends.iter().enumerate().rev() {
            assert_eq!(end.received().result(), Ok(8));
            end.expect(0, 8, i);
            end.send(1, 0, 8);
        }
        for end in &ends {
            end.await_state(via::ViState::Error);
            end.vi.disconnect();
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let ends: Vec<_> = (0..VIS)
            .map(|_| {
                let end = end(cx);
                end.post_recv(0, 8, 8);
                end.request(cx).unwrap();
                end
            })
            .collect();
        for (i, end) in ends.iter().enumerate() {
            end.fill(0, 8, i);
            end.send(1, 0, 8);
        }
        for (i, end) in ends.iter().enumerate() {
            assert_eq!(end.received().result(), Ok(8));
            end.expect(8, 8, i);
        }
    }
}
