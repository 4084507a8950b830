//! State IDLE: there is no peer.

use super::*;

group! { "states":
    alone in_idle_a_send_is_refused,
    alone in_idle_a_receive_is_taken,
    alone in_idle_done_and_wait_find_what_is_posted,
    alone in_idle_there_is_no_peer_request,
    alone in_idle_disconnecting_flushes_receives,
    alone in_idle_there_is_no_cause,
    alone an_idle_vi_is_destroyed,
}

fn in_idle_a_send_is_refused<N: Nic>(cx: &Context<'_, N>) {
    let end = end(cx);
    let descriptor = end.descriptor(0, &[end.data(0, 8)], None);
    assert_eq!(end.vi.post_send(descriptor), Err(PostError::State(ViState::Idle)));
    assert_eq!((end.vi.send_done(), end.vi.queues_empty().0), (Done::Empty, true));
}

fn in_idle_a_receive_is_taken<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = (end(cx), end(cx));
    b.post_recv(0, 0, 8);
    connect(cx, &a, &b);
    a.send_pattern(0, 0, 8, 1);
    b.receives(0, 8, 1);
}

fn in_idle_done_and_wait_find_what_is_posted<N: Nic>(cx: &Context<'_, N>) {
    let end = end(cx);
    assert_eq!(end.vi.recv_wait(ms(1)), Err(WaitError::Empty));
    end.post_recv(0, 0, 8);
    assert_eq!(end.vi.recv_done(), Done::NotDone);
    assert_eq!(end.vi.recv_wait(ms(1)), Err(WaitError::Timeout));
    assert_eq!(end.vi.send_wait(ms(1)), Err(WaitError::Empty));
}

fn in_idle_there_is_no_peer_request<N: Nic>(cx: &Context<'_, N>) {
    let end = end(cx);
    let done = end.vi.connect_peer_done();
    assert!(matches!(done, Some(Err(ConnectError::State(_)))), "{done:?}");
    let waited = end.vi.connect_peer_wait();
    assert!(matches!(waited, Err(ConnectError::State(_))), "{waited:?}");
}

fn in_idle_disconnecting_flushes_receives<N: Nic>(cx: &Context<'_, N>) {
    let end = end(cx);
    let posted: Vec<_> = (0..5).map(|i| end.post_recv(i, 0, 8)).collect();
    end.vi.disconnect();
    for descriptor in posted {
        let done = end.vi.recv_done().completion().unwrap();
        assert_eq!((done.descriptor, done.length), (descriptor, 0));
        assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }
    end.nothing_posted();
    assert_eq!(end.vi.state(), ViState::Idle);
}

fn in_idle_there_is_no_cause<N: Nic>(cx: &Context<'_, N>) {
    let end = end(cx);
    end.vi.disconnect();
    assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Idle, None));
}

fn an_idle_vi_is_destroyed<N: Nic>(cx: &Context<'_, N>) {
    assert!(end(cx).vi.destroy().is_ok());
    let (a, b) = connected(cx);
    a.vi.disconnect();
    assert!(a.vi.destroy().is_ok());
    b.await_state(ViState::Error);
}
