//! Requests for connections between a client and a server.

use super::prelude::*;
use super::withdrawn;
use via::NetAddress;

group! { "connect, client-server":
    alone a_wait_without_time_only_looks,
    alone a_wait_at_a_strange_address_is_refused,
    both a_wait_that_is_over_leaves_nobody_there,
    both discriminators_keep_requests_apart,
    both requests_are_held_and_answered_in_any_order,
    both a_request_is_taken_back_by_another_thread,
    both a_withdrawn_request_cannot_be_accepted,
    both both_ends_are_told_of_the_other,
    both a_vi_serves_after_it_was_a_client,
    alone a_nic_connects_to_itself,
    alone the_longest_discriminator_and_one_byte_more,
}

fn a_wait_without_time_only_looks<N: Nic>(cx: &Context<'_, N>) {
    let begin = Instant::now();
    assert_eq!(cx.nic.connect_wait(&cx.own(1), ms(0)).err(), Some(ConnectError::Timeout));
    assert!(begin.elapsed() < Duration::from_secs(10));
}

fn a_wait_at_a_strange_address_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let strange = NetAddress::new(b"nobody's NIC", &cx.own(1).discriminator);
    let error = cx.nic.connect_wait(&strange, SOON).err();
    assert!(matches!(error, Some(ConnectError::InvalidParameter(_))), "{error:?}");
    let long = vec![1; usize::from(cx.nic.attributes().max_discriminator_len) + 1];
    let error = cx.nic.connect_wait(&cx.own(1).with_discriminator(&long), SOON).err();
    assert!(matches!(error, Some(ConnectError::InvalidParameter(_))), "{error:?}");
}

/// A request needs a waiting server. An address alone is not enough.
mod a_wait_that_is_over_leaves_nobody_there {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        assert_eq!(cx.nic.connect_wait(&cx.server, ms(5)).err(), Some(ConnectError::Timeout));
        line.meet();
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let end = End::new(cx);
        line.meet();
        let refused = end.vi.connect_request(&cx.client(), &cx.server, SOON);
        assert_eq!(refused, Err(ConnectError::NoMatch));
        line.meet();
    }
}

/// Two servers wait, and each request goes to the one that it names.
mod discriminators_keep_requests_apart {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        thread::scope(|s| {
            for n in [7u8, 9] {
                s.spawn(move || {
                    let end = End::new(cx);
                    end.post_recv(0, 0, 1);
                    end.accept_at(&cx.place(n));
                    assert_eq!(end.received().result(), Ok(1));
                    assert_eq!(end.bytes(0, 1), [n]);
                });
            }
        });
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let ends = [9u8, 7].map(|n| {
            let end = End::new(cx);
            end.request_at(cx, &cx.place(n)).unwrap();
            end.write(0, &[n]);
            end.send(0, 0, 1);
            end
        });
        line.meet();
        drop(ends);
    }
}

/// The program takes all requests first, and answers the last one first.
mod requests_are_held_and_answered_in_any_order {
    use super::*;

    const REQUESTS: usize = 3;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let wait = || cx.nic.connect_wait(&cx.server, SOON).unwrap();
        let mut held: Vec<_> = (0..REQUESTS).map(|_| wait()).collect();
        let ends: Vec<_> = (0..REQUESTS).map(|_| End::new(cx)).collect();
        for end in &ends {
            end.post_recv(0, 0, 8);
            held.pop().unwrap().accept(&end.vi).unwrap();
        }
        for end in &ends {
            assert_eq!(end.received().result(), Ok(8));
        }
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let ends: Vec<_> = (0..REQUESTS).map(|_| End::new(cx)).collect();
        thread::scope(|s| {
            for end in &ends {
                s.spawn(|| {
                    end.request(cx).unwrap();
                    end.send(0, 0, 8);
                });
            }
        });
        line.meet();
    }
}

/// Another thread disconnects the VI, and the requesting thread returns at once.
mod a_request_is_taken_back_by_another_thread {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let connection = cx.nic.connect_wait(&cx.server, SOON).unwrap();
        line.meet();
        line.meet();
        connection.reject();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let end = End::new(cx);
        thread::scope(|s| {
            let request = s.spawn(|| end.request(cx));
            line.meet();
            let begin = Instant::now();
            assert_eq!(end.vi.state(), ViState::ConnectPending);
            end.vi.disconnect();
            let result = request.join().unwrap();
            assert!(matches!(result, Err(ConnectError::State(_))), "{result:?}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        });
        assert_eq!(end.vi.state(), ViState::Idle);
        line.meet();
    }
}

mod a_withdrawn_request_cannot_be_accepted {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        let connection = withdrawn::received(cx, &line);
        let end = End::new(cx);
        end.post_recv(0, 0, 8);
        assert_eq!(connection.accept(&end.vi).unwrap_err().error, ConnectError::Timeout);
        assert_eq!((end.vi.state(), end.vi.queues_empty()), (ViState::Idle, (true, false)));
        // The VI works as before.
        end.accept(cx);
        assert_eq!(end.received().result(), Ok(8));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let end = End::new(cx);
        withdrawn::request(cx, &line, &end);
        end.request(cx).unwrap();
        end.send(0, 0, 8);
        line.meet();
    }
}

/// Each end gets every attribute except the tag, and the exact address of the requester.
mod both_ends_are_told_of_the_other {
    use super::*;

    fn end<'n, N: Nic>(cx: &Context<'n, N>, write: bool) -> End<'n, N> {
        let nic = cx.nic.attributes();
        let attributes = ViAttributes {
            max_transfer_size: 4711,
            enable_rdma_write: write && nic.capabilities.rdma_write,
            enable_rdma_read: nic.rdma_read.contains(Reliability::RELIABLE_DELIVERY),
            ..ViAttributes::default()
        };
        End::with(cx, 100, attributes)
    }

    fn untagged<N: Nic>(end: &End<'_, N>) -> ViAttributes {
        ViAttributes { ptag: None, ..end.vi.attributes() }
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), end(cx, true));
        let connection = cx.nic.connect_wait(&cx.server, SOON).unwrap();
        assert_eq!(connection.remote_address().discriminator, cx.place(3).discriminator);
        assert_eq!(connection.remote_address().host, line.there(cx, 3).host);
        assert_eq!(*connection.remote_attributes(), untagged(&self::end(cx, false)));
        connection.accept(&end.vi).unwrap();
        end.await_state(ViState::Error);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (_line, end) = (Line::client(cx), end(cx, false));
        let mut told = None;
        eventually("a server waits", || {
            let result = end.vi.connect_request(&cx.own(3), &cx.server, SOON);
            (result != Err(ConnectError::NoMatch)).then(|| told = result.ok()).is_some()
        });
        assert_eq!(told, Some(untagged(&self::end(cx, true))));
    }
}

mod a_vi_serves_after_it_was_a_client {
    use super::*;

    fn serve<N: Nic>(cx: &Context<'_, N>, end: &End<'_, N>) {
        end.post_recv(0, 0, 8);
        end.accept_at(&cx.own(1));
        assert_eq!(end.received().result(), Ok(8));
        end.vi.disconnect();
    }

    fn call<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, end: &End<'n, N>) {
        end.request_at(cx, &line.there(cx, 1)).unwrap();
        end.send(0, 0, 8);
        end.await_state(ViState::Error);
        end.vi.disconnect();
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        for _ in 0..3 {
            serve(cx, &end);
            line.meet();
            call(cx, &line, &end);
            line.meet();
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::new(cx));
        for _ in 0..3 {
            call(cx, &line, &end);
            line.meet();
            serve(cx, &end);
            line.meet();
        }
    }
}

fn a_nic_connects_to_itself<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, longest(cx));
    for (from, to) in [(&a, &b), (&b, &a)] {
        for (i, len) in [0, 100, 20_000].into_iter().enumerate() {
            to.post_recv(0, 0, len);
            from.send_pattern(1, 1 << 16, len, i);
            to.receives(0, len, i);
        }
    }
}

fn the_longest_discriminator_and_one_byte_more<N: Nic>(cx: &Context<'_, N>) {
    let max = usize::from(cx.nic.attributes().max_discriminator_len);
    let mut long = cx.own(1).discriminator.to_vec();
    long.resize(max, b'x');
    let [a, b] = [(); 2].map(|()| End::new(cx));
    thread::scope(|s| {
        s.spawn(|| a.accept_at(&cx.own(1).with_discriminator(&long)));
        b.request_at(cx, &cx.own(1).with_discriminator(&long)).unwrap();
    });
    let end = End::new(cx);
    // No end waits at this address, although it begins like the other.
    let other = [&long[..max - 1], b"y"].concat();
    let other = cx.own(1).with_discriminator(&other);
    assert_eq!(end.vi.connect_request(&cx.client(), &other, SOON), Err(ConnectError::NoMatch));
    long.push(b'x');
    let longer = cx.own(1).with_discriminator(&long);
    for (local, remote) in [(&cx.client(), &longer), (&longer, &cx.own(1))] {
        let refused = end.vi.connect_request(local, remote, SOON);
        assert!(matches!(refused, Err(ConnectError::InvalidParameter(_))), "{refused:?}");
    }
}
