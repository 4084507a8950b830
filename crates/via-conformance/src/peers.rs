//! Peer-to-peer connections: both sides ask for each other.

use super::prelude::*;

group! { "connect, peer-peer":
    both the_server_asks_first,
    both the_client_asks_first,
    both both_ask_at_once,
    both not_yet_is_told_until_the_other_asks,
    both a_peers_attributes_are_told_once,
    both peers_talk_both_ways,
    both receives_posted_before_the_request_count,
    both many_pairs_at_once,
    both peers_connect_again,
    both peers_match_by_both_addresses,
    alone a_nic_has_peers_of_its_own,
    alone a_waiting_peer_is_woken,
    both a_peer_that_disconnects_breaks_the_other,
    both a_peer_connects_to_a_server_next,
}

/// Defines the roles of a case in which both do the same, each from its own address.
macro_rules! roles {
    ($does:ident, $server:literal, $client:literal) => {
        pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
            $does(cx, &Line::server(cx), $server, $client);
        }

        pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
            $does(cx, &Line::client(cx), $client, $server);
        }
    };
}

/// Requests the connection, from this role's address to the other's.
fn ask<'n, N: Nic>(
    cx: &Context<'n, N>,
    line: &Line<'n, N>,
    end: &End<'n, N>,
    mine: u8,
    theirs: u8,
) {
    end.vi.connect_peer_request(&cx.own(mine), &line.there(cx, theirs), SOON).unwrap();
}

/// Like [`ask`], within this role.
fn ask_here<N: Nic>(cx: &Context<'_, N>, end: &End<'_, N>, mine: u8, theirs: u8) {
    end.vi.connect_peer_request(&cx.own(mine), &cx.own(theirs), SOON).unwrap();
}

/// Asks, and waits until the peer has asked too.
fn meet<'n, N: Nic>(
    cx: &Context<'n, N>,
    line: &Line<'n, N>,
    end: &End<'n, N>,
    mine: u8,
    theirs: u8,
) -> ViAttributes {
    ask(cx, line, end, mine, theirs);
    join(end)
}

/// Waits until the peer has asked too.
fn join<N: Nic>(end: &End<'_, N>) -> ViAttributes {
    let theirs = end.vi.connect_peer_wait().unwrap();
    // The peer may have ended the connection already.
    assert!(matches!(end.vi.state(), ViState::Connected | ViState::Error));
    theirs
}

/// Asks before or after the other role, as `first` says.
fn in_turn<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, first: bool, mine: u8, theirs: u8) {
    let end = End::new(cx);
    end.post_recv(0, 0, 8);
    if !first {
        line.meet();
    }
    ask(cx, line, &end, mine, theirs);
    if first {
        assert_eq!(end.vi.state(), ViState::ConnectPending);
        line.meet();
    }
    join(&end);
    end.send_pattern(1, 8, 8, mine.into());
    end.receives(0, 8, theirs.into());
    line.meet();
}

mod the_server_asks_first {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        in_turn(cx, &Line::server(cx), true, 1, 2);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        in_turn(cx, &Line::client(cx), false, 2, 1);
    }
}

mod the_client_asks_first {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        in_turn(cx, &Line::server(cx), false, 1, 2);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        in_turn(cx, &Line::client(cx), true, 2, 1);
    }
}

/// Repeats the case: the ends must meet whichever is slightly earlier.
mod both_ask_at_once {
    use super::*;

    fn rounds<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, mine: u8, theirs: u8) {
        let end = End::new(cx);
        for round in 0..20 {
            end.post_recv(0, 0, 8);
            line.meet();
            meet(cx, line, &end, mine, theirs);
            end.send_pattern(1, 8, 8, round);
            end.receives(0, 8, round);
            line.meet();
            end.vi.disconnect();
        }
    }

    roles!(rounds, 1, 2);
}

/// The question for the result does not block.
mod not_yet_is_told_until_the_other_asks {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        ask(cx, &line, &end, 1, 2);
        never("connected to no peer", || end.vi.connect_peer_done().is_some());
        assert_eq!(end.vi.state(), ViState::ConnectPending);
        line.meet();
        eventually("the peer is found", || match end.vi.connect_peer_done() {
            None => false,
            Some(result) => result.map(|_| true).unwrap(),
        });
        assert_eq!(end.vi.state(), ViState::Connected);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::new(cx));
        line.meet();
        meet(cx, &line, &end, 2, 1);
        line.meet();
    }
}

/// Each end gets the peer's attributes once.
mod a_peers_attributes_are_told_once {
    use super::*;

    fn it<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, mine: u8, theirs: u8) {
        let writes = |n| n == 1 && cx.nic.attributes().capabilities.rdma_write;
        let attributes = ViAttributes {
            max_transfer_size: 4321,
            enable_rdma_write: writes(mine),
            ..ViAttributes::default()
        };
        let end = End::with(cx, 100, attributes);
        let told = meet(cx, line, &end, mine, theirs);
        assert_eq!((told.max_transfer_size, told.ptag), (4321, None));
        assert_eq!(told.reliability, attributes.reliability);
        assert_eq!(told.enable_rdma_write, writes(theirs));
        let again = end.vi.connect_peer_done();
        assert!(matches!(again, Some(Err(ConnectError::State(_)))), "{again:?}");
        let again = end.vi.connect_peer_wait();
        assert!(matches!(again, Err(ConnectError::State(_))), "{again:?}");
        line.meet();
    }

    roles!(it, 1, 2);
}

/// Peers exchange messages in both directions, like a client and a server.
mod peers_talk_both_ways {
    use super::*;

    fn talk<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, mine: u8, theirs: u8) {
        let end = End::new(cx);
        for i in 0..50 {
            end.post_recv(i, i * 3000, 3000);
        }
        meet(cx, line, &end, mine, theirs);
        for i in 0..50 {
            end.send_pattern(60, 200_000, 60 * i, i + usize::from(mine));
            end.receives(i * 3000, 60 * i, i + usize::from(theirs));
        }
    }

    roles!(talk, 1, 2);
}

/// The end that connects first may send at once.
mod receives_posted_before_the_request_count {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        for i in 0..10 {
            end.post_recv(i, i * 8, 8);
        }
        ask(cx, &line, &end, 1, 2);
        for i in 0..10 {
            end.receives(i * 8, 8, i);
        }
        join(&end);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::new(cx));
        meet(cx, &line, &end, 2, 1);
        for i in 0..10 {
            end.send_pattern(0, 0, 8, i);
        }
        end.await_state(ViState::Error);
    }
}

/// Each end meets its own peer.
mod many_pairs_at_once {
    use super::*;

    const PAIRS: u8 = 20;

    fn all<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, mine: u8, theirs: u8) {
        let end = |_| End::with(cx, 64, ViAttributes::default());
        let ends: Vec<_> = (0..PAIRS).map(end).collect();
        for (i, end) in ends.iter().enumerate() {
            // The two roles ask in different orders.
            end.post_recv(0, 0, 8);
            let i = if mine < theirs { i as u8 } else { PAIRS - 1 - i as u8 };
            ask(cx, line, end, mine + i, theirs + i);
        }
        for (i, end) in ends.iter().enumerate() {
            join(end);
            let i = if mine < theirs { i } else { usize::from(PAIRS) - 1 - i };
            end.send_pattern(1, 8, 8, i);
        }
        for (i, end) in ends.iter().enumerate() {
            let i = if mine < theirs { i } else { usize::from(PAIRS) - 1 - i };
            end.receives(0, 8, i);
        }
        line.meet();
    }

    roles!(all, 1, 101);
}

/// Two VIs that were connected connect again, also with exchanged addresses.
mod peers_connect_again {
    use super::*;

    fn rounds<'n, N: Nic>(cx: &Context<'n, N>, line: &Line<'n, N>, mine: u8, theirs: u8) {
        let end = End::new(cx);
        for round in 0..6 {
            let (mine, theirs) = if round % 2 == 0 { (mine, theirs) } else { (theirs, mine) };
            end.post_recv(0, 0, 8);
            meet(cx, line, &end, mine, theirs);
            end.send_pattern(1, 8, 8, round);
            end.receives(0, 8, round);
            line.meet();
            end.vi.disconnect();
            assert_eq!(end.vi.state(), ViState::Idle);
            line.meet();
        }
    }

    roles!(rounds, 1, 2);
}

/// An end that asks for another address stays unconnected, although a further end asks for it.
mod peers_match_by_both_addresses {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        ask(cx, &line, &end, 1, 2);
        line.meet();
        never("connected to a stranger", || end.vi.connect_peer_done().is_some());
        line.meet();
        join(&end);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let line = Line::client(cx);
        let [end, from, to] = [(); 3].map(|()| End::new(cx));
        // One end asks from another address for the server's address. One end asks from our address for another.
        ask(cx, &line, &from, 3, 1);
        ask(cx, &line, &to, 2, 3);
        line.meet();
        never("connected to a stranger", || from.vi.connect_peer_done().is_some());
        assert_eq!(to.vi.connect_peer_done(), None);
        line.meet();
        to.vi.disconnect();
        meet(cx, &line, &end, 2, 1);
        assert_eq!(from.vi.connect_peer_done(), None);
        line.meet();
    }
}

fn a_nic_has_peers_of_its_own<N: Nic>(cx: &Context<'_, N>) {
    let [a, b] = [(); 2].map(|()| End::new(cx));
    b.post_recv(0, 0, 8);
    ask_here(cx, &a, 1, 2);
    ask_here(cx, &b, 2, 1);
    join(&a);
    join(&b);
    a.send_pattern(0, 0, 8, 4);
    b.receives(0, 8, 4);
}

/// The peer's request wakes an end that sleeps in its wait.
fn a_waiting_peer_is_woken<N: Nic>(cx: &Context<'_, N>) {
    let [a, b] = [(); 2].map(|()| End::new(cx));
    ask_here(cx, &a, 1, 2);
    thread::scope(|s| {
        let waiter = s.spawn(|| join(&a));
        never("a wait without a peer ends", || waiter.is_finished());
        ask_here(cx, &b, 2, 1);
        join(&b);
        waiter.join().unwrap();
    });
}

mod a_peer_that_disconnects_breaks_the_other {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, told) = (Line::server(cx), End::new(cx), Told::by(cx.nic));
        end.post_recv(0, 0, 8);
        meet(cx, &line, &end, 1, 2);
        line.meet();
        end.received_in(Status::DESC_FLUSHED_ERROR);
        assert_eq!(end.vi.state(), ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::PeerDisconnected));
        told.code(0, ErrorCode::ConnLost);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::new(cx));
        meet(cx, &line, &end, 2, 1);
        line.meet();
        end.vi.disconnect();
        line.meet();
    }
}

/// Peer-to-peer and client-server connections use the same VIs, but do not see each other's requests.
mod a_peer_connects_to_a_server_next {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::new(cx));
        meet(cx, &line, &end, 1, 2);
        line.meet();
        end.vi.disconnect();
        end.post_recv(0, 0, 8);
        end.accept(cx);
        assert_eq!(end.received().result(), Ok(8));
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::new(cx));
        meet(cx, &line, &end, 2, 1);
        line.meet();
        end.vi.disconnect();
        end.request(cx).unwrap();
        end.send(0, 0, 8);
        end.await_state(ViState::Error);
    }
}
