//! Peers that do not connect.

use super::prelude::*;
use via::NetAddress;

group! { "connect, peer-peer":
    alone a_peer_request_without_time_is_refused,
    alone a_peer_request_with_a_strange_address_is_refused,
    alone a_peer_request_times_out_in_a_wait,
    alone a_peer_request_times_out_for_a_look,
    both peers_of_different_transfer_sizes_are_both_told,
    both peers_of_different_levels_are_both_told [SeveralLevels],
    both a_withdrawn_peer_request_meets_nobody,
    both a_peer_request_that_timed_out_meets_nobody,
    alone disconnecting_wakes_a_waiting_peer,
    alone a_refused_peer_asks_again,
}

fn invalid<T: core::fmt::Debug>(result: Result<T, ConnectError>) {
    assert!(matches!(result, Err(ConnectError::InvalidParameter(_))), "{result:?}");
}

fn a_peer_request_without_time_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let end = End::new(cx);
    invalid(end.vi.connect_peer_request(&cx.own(1), &cx.own(2), ms(0)));
    assert_eq!(end.vi.state(), ViState::Idle);
}

/// The address belongs to another NIC, or is too long.
fn a_peer_request_with_a_strange_address_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let end = End::new(cx);
    let strange = NetAddress::new(b"nobody's NIC", b"x");
    invalid(end.vi.connect_peer_request(&strange, &cx.own(2), SOON));
    let long = vec![1; usize::from(cx.nic.attributes().max_discriminator_len) + 1];
    let long = cx.own(1).with_discriminator(&long);
    invalid(end.vi.connect_peer_request(&long, &cx.own(2), SOON));
    invalid(end.vi.connect_peer_request(&cx.own(1), &long, SOON));
    assert_eq!(end.vi.state(), ViState::Idle);
}

/// The wait ends at its time, not earlier and not much later. The VI is unchanged.
fn a_peer_request_times_out_in_a_wait<N: Nic>(cx: &Context<'_, N>) {
    let end = End::new(cx);
    end.post_recv(0, 0, 8);
    let begin = Instant::now();
    end.vi.connect_peer_request(&cx.own(1), &cx.own(2), ms(30)).unwrap();
    assert_eq!(end.vi.connect_peer_wait(), Err(ConnectError::Timeout));
    assert!((30..5000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    assert_eq!((end.vi.state(), end.vi.queues_empty()), (ViState::Idle, (true, false)));
}

fn a_peer_request_times_out_for_a_look<N: Nic>(cx: &Context<'_, N>) {
    let end = End::new(cx);
    end.vi.connect_peer_request(&cx.own(1), &cx.own(2), ms(20)).unwrap();
    let mut result = None;
    eventually("the time is over", || {
        result = end.vi.connect_peer_done();
        result.is_some()
    });
    assert_eq!(result, Some(Err(ConnectError::Timeout)));
    assert_eq!(end.vi.state(), ViState::Idle);
}

fn mismatch<'n, N: Nic>(
    cx: &Context<'n, N>,
    line: &Line<'n, N>,
    (mine, theirs): (u8, u8),
    attributes: ViAttributes,
    error: ConnectError,
) {
    let end = End::with(cx, 100, attributes);
    end.vi.connect_peer_request(&cx.own(mine), &line.there(cx, theirs), SOON).unwrap();
    assert_eq!(end.vi.connect_peer_wait(), Err(error));
    assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Idle, None));
}

mod peers_of_different_transfer_sizes_are_both_told {
    use super::*;

    fn of(max_transfer_size: u32) -> ViAttributes {
        ViAttributes { max_transfer_size, ..ViAttributes::default() }
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        mismatch(cx, &line, (1, 2), of(1000), ConnectError::MaxTransferSize);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        mismatch(cx, &line, (2, 1), of(1001), ConnectError::MaxTransferSize);
        line.meet();
    }
}

mod peers_of_different_levels_are_both_told {
    use super::*;

    fn of<N: Nic>(cx: &Context<'_, N>, n: usize) -> ViAttributes {
        let reliability = cx.nic.attributes().reliability.iter().nth(n).unwrap();
        ViAttributes { reliability, ..ViAttributes::default() }
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        mismatch(cx, &line, (1, 2), of(cx, 0), ConnectError::Reliability);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        mismatch(cx, &line, (2, 1), of(cx, 1), ConnectError::Reliability);
        line.meet();
    }
}

fn alone_at<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, mine: u8, theirs: u8) {
    let end = End::new(cx);
    end.vi.connect_peer_request(&cx.own(mine), &line.there(cx, theirs), ms(30)).unwrap();
    assert_eq!(end.vi.connect_peer_wait(), Err(ConnectError::Timeout));
}

mod a_withdrawn_peer_request_meets_nobody {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        end.vi.connect_peer_request(&cx.own(1), &line.there(cx, 2), SOON).unwrap();
        end.vi.disconnect();
        assert_eq!(end.vi.state(), ViState::Idle);
        line.meet();
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        line.meet();
        alone_at(cx, &line, 2, 1);
        line.meet();
    }
}

mod a_peer_request_that_timed_out_meets_nobody {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::server(cx);
        alone_at(cx, &line, 1, 2);
        line.meet();
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        line.meet();
        alone_at(cx, &line, 2, 1);
        line.meet();
    }
}

/// After that there is no request any more.
fn disconnecting_wakes_a_waiting_peer<N: Nic>(cx: &Context<'_, N>) {
    let end = End::new(cx);
    end.vi.connect_peer_request(&cx.own(1), &cx.own(2), SOON).unwrap();
    thread::scope(|s| {
        let waiter = s.spawn(|| end.vi.connect_peer_wait());
        never("a wait without a peer ends", || waiter.is_finished());
        let begin = Instant::now();
        end.vi.disconnect();
        let result = waiter.join().unwrap();
        assert!(matches!(result, Err(ConnectError::State(_))), "{result:?}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    });
    assert_eq!(end.vi.state(), ViState::Idle);
}

/// The peer asks again with other attributes, and is connected.
fn a_refused_peer_asks_again<N: Nic>(cx: &Context<'_, N>) {
    let small = ViAttributes { max_transfer_size: 100, ..ViAttributes::default() };
    let (a, b) = (End::with(cx, 100, small), End::with(cx, 100, ViAttributes::default()));
    let ask = || {
        a.vi.connect_peer_request(&cx.own(1), &cx.own(2), SOON).unwrap();
        b.vi.connect_peer_request(&cx.own(2), &cx.own(1), SOON).unwrap();
        (a.vi.connect_peer_wait(), b.vi.connect_peer_wait())
    };
    let refused = Err(ConnectError::MaxTransferSize);
    assert_eq!(ask(), (refused.clone(), refused));
    b.vi.set_attributes(small).unwrap();
    let (x, y) = ask();
    assert_eq!((x.unwrap().max_transfer_size, y.unwrap().max_transfer_size), (100, 100));
}
