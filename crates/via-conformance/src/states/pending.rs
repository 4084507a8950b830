//! State CONNECT_PENDING: a request is in progress.

use super::*;

group! { "states":
    alone while_pending_a_send_is_refused,
    alone while_pending_a_receive_is_taken_and_stays,
    alone while_pending_no_other_request_is_made,
    alone while_pending_nobody_is_accepted,
    alone while_pending_attributes_stay,
    alone a_pending_vi_is_not_destroyed,
    alone disconnecting_takes_a_request_back,
    alone a_pending_vi_may_be_dropped,
    alone a_client_is_pending_until_it_is_answered,
}

fn while_pending_a_send_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let end = pending(cx);
    let descriptor = end.descriptor(0, &[end.data(0, 8)], None);
    assert_eq!(end.vi.post_send(descriptor), Err(PostError::State(ViState::ConnectPending)));
    end.nothing_posted();
}

fn while_pending_a_receive_is_taken_and_stays<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = (pending(cx), end(cx));
    a.post_recv(0, 0, 8);
    assert_eq!(a.vi.recv_done(), Done::NotDone);
    assert_eq!(a.vi.recv_wait(ms(1)), Err(WaitError::Timeout));
    b.vi.connect_peer_request(&cx.own(2), &cx.own(1), SOON).unwrap();
    b.vi.connect_peer_wait().unwrap();
    a.vi.connect_peer_wait().unwrap();
    b.send_pattern(0, 0, 8, 3);
    a.receives(0, 8, 3);
}

fn while_pending_no_other_request_is_made<N: Nic>(cx: &Context<'_, N>) {
    requests_are_refused(cx, &pending(cx));
}

fn while_pending_nobody_is_accepted<N: Nic>(cx: &Context<'_, N>) {
    accepting_is_refused(cx, &pending(cx));
}

fn while_pending_attributes_stay<N: Nic>(cx: &Context<'_, N>) {
    attributes_stay(&pending(cx));
}

fn a_pending_vi_is_not_destroyed<N: Nic>(cx: &Context<'_, N>) {
    let vi = destroying_is_refused(pending(cx));
    vi.disconnect();
    assert!(vi.destroy().is_ok());
}

/// The disconnect also flushes posted descriptors.
fn disconnecting_takes_a_request_back<N: Nic>(cx: &Context<'_, N>) {
    let end = pending(cx);
    end.post_recv(0, 0, 8);
    end.vi.disconnect();
    assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Idle, None));
    end.received_in(Status::DESC_FLUSHED_ERROR);
    let done = end.vi.connect_peer_done();
    assert!(matches!(done, Some(Err(ConnectError::State(_)))), "{done:?}");
}

/// The request ends with the VI: the other side finds no request.
fn a_pending_vi_may_be_dropped<N: Nic>(cx: &Context<'_, N>) {
    drop(pending(cx));
    let other = end(cx);
    other.vi.connect_peer_request(&cx.own(2), &cx.own(1), ms(30)).unwrap();
    assert_eq!(other.vi.connect_peer_wait(), Err(ConnectError::Timeout));
}

/// Another thread sees this state.
fn a_client_is_pending_until_it_is_answered<N: Nic>(cx: &Context<'_, N>) {
    let (client, server) = (end(cx), end(cx));
    thread::scope(|s| {
        let request = s.spawn(|| client.request_at(cx, &cx.own(1)));
        let connection = cx.nic.connect_wait(&cx.own(1), SOON).unwrap();
        assert_eq!(client.vi.state(), ViState::ConnectPending);
        requests_are_refused(cx, &client);
        attributes_stay(&client);
        connection.accept(&server.vi).unwrap();
        request.join().unwrap().unwrap();
    });
    assert_eq!(client.vi.state(), ViState::Connected);
}
