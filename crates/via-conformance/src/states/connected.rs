//! State CONNECTED: sends and receives are possible.

use super::*;

group! { "states":
    alone while_connected_no_other_request_is_made,
    alone while_connected_nobody_is_accepted,
    alone while_connected_attributes_stay,
    alone a_connected_vi_is_not_destroyed,
    alone while_connected_there_is_no_cause,
    alone while_connected_done_and_wait_find_what_is_posted,
    alone disconnecting_makes_idle_and_flushes_both_queues,
    alone disconnecting_again_changes_nothing,
}

/// Checks that both ends still work after a refusal.
fn still_connected<N: Nic>(a: &End<'_, N>, b: &End<'_, N>) {
    for (from, to) in [(a, b), (b, a)] {
        to.post_recv(0, 0, 8);
        from.send_pattern(1, 8, 8, 5);
        to.receives(0, 8, 5);
    }
}

fn while_connected_no_other_request_is_made<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    requests_are_refused(cx, &a);
    requests_are_refused(cx, &b);
    still_connected(&a, &b);
}

fn while_connected_nobody_is_accepted<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    accepting_is_refused(cx, &a);
    still_connected(&a, &b);
}

fn while_connected_attributes_stay<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    attributes_stay(&a);
    attributes_stay(&b);
    still_connected(&a, &b);
}

fn a_connected_vi_is_not_destroyed<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    b.post_recv(0, 0, 8);
    let vi = destroying_is_refused(a);
    vi.disconnect();
    assert!(vi.destroy().is_ok());
    b.received_in(Status::DESC_FLUSHED_ERROR);
}

fn while_connected_there_is_no_cause<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    assert_eq!((a.vi.cause(), b.vi.cause()), (None, None));
    let done = a.vi.connect_peer_done();
    assert!(matches!(done, Some(Err(ConnectError::State(_)))), "{done:?}");
}

fn while_connected_done_and_wait_find_what_is_posted<N: Nic>(cx: &Context<'_, N>) {
    let (a, _b) = connected(cx);
    a.nothing_posted();
    assert_eq!(a.vi.recv_wait(ms(1)), Err(WaitError::Empty));
    assert_eq!(a.vi.send_wait(ms(1)), Err(WaitError::Empty));
    a.post_recv(0, 0, 8);
    assert_eq!(a.vi.recv_done(), Done::NotDone);
    assert_eq!(a.vi.recv_wait(ms(0)), Err(WaitError::Timeout));
}

fn disconnecting_makes_idle_and_flushes_both_queues<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    let posted: Vec<_> = (0..8).map(|i| a.post_recv(i, 0, 8)).collect();
    a.vi.disconnect();
    assert_eq!((a.vi.state(), a.vi.cause()), (ViState::Idle, None));
    for descriptor in posted {
        let done = a.vi.recv_done().completion().unwrap();
        assert_eq!(done.descriptor, descriptor);
        assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }
    a.nothing_posted();
    b.await_state(ViState::Error);
}

fn disconnecting_again_changes_nothing<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = connected(cx);
    a.vi.disconnect();
    a.vi.disconnect();
    assert_eq!(a.vi.state(), ViState::Idle);
    b.await_state(ViState::Error);
    b.vi.disconnect();
    connect(cx, &a, &b);
    still_connected(&a, &b);
}
