//! State ERROR: the connection is lost, and the program has not disconnected yet.

use super::*;

group! { "states":
    alone in_error_no_other_request_is_made,
    alone in_error_nobody_is_accepted,
    alone in_error_attributes_stay,
    alone a_broken_vi_is_not_destroyed,
    alone in_error_a_send_is_flushed,
    alone in_error_a_receive_is_flushed,
    alone in_error_empty_queues_are_empty,
    alone in_error_the_cause_is_told_until_disconnected,
    alone a_broken_vi_stays_so_until_disconnected,
}

fn in_error_no_other_request_is_made<N: Nic>(cx: &Context<'_, N>) {
    requests_are_refused(cx, &broken(cx));
}

fn in_error_nobody_is_accepted<N: Nic>(cx: &Context<'_, N>) {
    accepting_is_refused(cx, &broken(cx));
}

fn in_error_attributes_stay<N: Nic>(cx: &Context<'_, N>) {
    attributes_stay(&broken(cx));
}

fn a_broken_vi_is_not_destroyed<N: Nic>(cx: &Context<'_, N>) {
    let vi = destroying_is_refused(broken(cx));
    vi.disconnect();
    assert!(vi.destroy().is_ok());
}

/// The post succeeds, and the descriptor gets the error.
fn in_error_a_send_is_flushed<N: Nic>(cx: &Context<'_, N>) {
    let end = broken(cx);
    for i in 0..3 {
        end.post_send(i, 0, 8);
    }
    for _ in 0..3 {
        end.sent_in(Status::DESC_FLUSHED_ERROR);
    }
    end.nothing_posted();
}

fn in_error_a_receive_is_flushed<N: Nic>(cx: &Context<'_, N>) {
    let end = broken(cx);
    for i in 0..3 {
        end.post_recv(i, 0, 8);
    }
    for _ in 0..3 {
        end.received_in(Status::DESC_FLUSHED_ERROR | Status::OP_RECEIVE);
    }
    end.nothing_posted();
}

fn in_error_empty_queues_are_empty<N: Nic>(cx: &Context<'_, N>) {
    let end = broken(cx);
    end.nothing_posted();
    assert_eq!(end.vi.recv_wait(ms(1)), Err(WaitError::Empty));
    assert_eq!(end.vi.send_wait(ms(1)), Err(WaitError::Empty));
}

fn in_error_the_cause_is_told_until_disconnected<N: Nic>(cx: &Context<'_, N>) {
    let end = broken(cx);
    for _ in 0..2 {
        assert_eq!(end.vi.cause(), Some(Cause::PeerDisconnected));
    }
    end.vi.disconnect();
    assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Idle, None));
}

fn a_broken_vi_stays_so_until_disconnected<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = (broken(cx), end(cx));
    never("it recovers by itself", || a.vi.state() != ViState::Error);
    a.vi.disconnect();
    b.post_recv(0, 0, 8);
    connect(cx, &a, &b);
    a.send_pattern(0, 0, 8, 1);
    b.receives(0, 8, 1);
}
