//! Every state of a VI, and every operation in it.

use super::prelude::*;

mod connected;
mod error;
mod idle;
mod pending;

/// Returns the cases of this module.
pub(super) fn cases<N: Nic>() -> Vec<super::Case<N>> {
    let groups = [own(), idle::cases(), pending::cases(), connected::cases(), error::cases()];
    groups.into_iter().flatten().collect()
}

fn own<N: Nic>() -> Vec<super::Case<N>> {
    life::cases()
}

mod life {
    use super::*;

    group! { "states":
        alone a_vi_goes_through_its_states_and_back,
    }

    /// The states are IDLE, CONNECT_PENDING, CONNECTED, ERROR, and IDLE again.
    fn a_vi_goes_through_its_states_and_back<N: Nic>(cx: &Context<'_, N>) {
        let (a, b) = (end(cx), end(cx));
        for _ in 0..3 {
            assert_eq!(a.vi.state(), ViState::Idle);
            let (here, there) = (cx.own(1), cx.own(2));
            a.vi.connect_peer_request(&here, &there, SOON).unwrap();
            assert_eq!(a.vi.state(), ViState::ConnectPending);
            b.vi.connect_peer_request(&there, &here, SOON).unwrap();
            a.vi.connect_peer_wait().unwrap();
            b.vi.connect_peer_wait().unwrap();
            assert_eq!((a.vi.state(), b.vi.state()), (ViState::Connected, ViState::Connected));
            b.vi.disconnect();
            a.await_state(ViState::Error);
            a.vi.disconnect();
            assert_eq!((a.vi.state(), b.vi.state()), (ViState::Idle, ViState::Idle));
        }
    }
}

/// Makes an idle end.
fn end<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
    End::with(cx, 1 << 16, ViAttributes::default())
}

/// Makes an end with a pending request that does not time out soon.
fn pending<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
    let end = end(cx);
    end.vi.connect_peer_request(&cx.own(1), &cx.own(2), SOON).unwrap();
    assert_eq!(end.vi.state(), ViState::ConnectPending);
    end
}

/// Makes two connected ends.
fn connected<'n, N: Nic>(cx: &Context<'n, N>) -> (End<'n, N>, End<'n, N>) {
    let ends = (end(cx), end(cx));
    connect(cx, &ends.0, &ends.1);
    ends
}

/// Makes an end whose peer has disconnected.
fn broken<'n, N: Nic>(cx: &Context<'n, N>) -> End<'n, N> {
    let (end, other) = connected(cx);
    other.vi.disconnect();
    end.await_state(ViState::Error);
    end
}

/// Checks that both kinds of request fail in this state, and that the state stays.
fn requests_are_refused<N: Nic>(cx: &Context<'_, N>, end: &End<'_, N>) {
    let state = end.vi.state();
    let (here, there) = (cx.own(3), cx.own(4));
    let is_refused = |error: Option<ConnectError>| match error {
        Some(ConnectError::State(illegal)) => assert_eq!(illegal.state, state),
        other => panic!("{other:?}"),
    };
    is_refused(end.vi.connect_request(&here, &there, SOON).err());
    is_refused(end.vi.connect_peer_request(&here, &there, SOON).err());
    assert_eq!(end.vi.state(), state);
}

/// Checks that an accept fails in this state, and that the requester is rejected.
fn accepting_is_refused<N: Nic>(cx: &Context<'_, N>, end: &End<'_, N>) {
    let state = end.vi.state();
    let requester = self::end(cx);
    thread::scope(|s| {
        let request = s.spawn(|| requester.request_at(cx, &cx.own(5)));
        let connection = cx.nic.connect_wait(&cx.own(5), SOON).unwrap();
        match connection.accept(&end.vi).map_err(ConnectError::from) {
            Err(ConnectError::State(illegal)) => assert_eq!(illegal.state, state),
            other => panic!("{other:?}"),
        }
        assert_eq!(request.join().unwrap(), Err(ConnectError::Rejected));
    });
    assert_eq!((end.vi.state(), requester.vi.state()), (state, ViState::Idle));
}

/// Checks that attributes cannot change in this state.
fn attributes_stay<N: Nic>(end: &End<'_, N>) {
    let (state, before) = (end.vi.state(), end.vi.attributes());
    let other = ViAttributes { max_transfer_size: 777, ..before };
    assert_eq!(end.vi.set_attributes(other), Err(SetViError::State(state)));
    assert_eq!(end.vi.attributes(), before);
}

/// Checks that the VI cannot be destroyed in this state. Returns the unchanged VI.
fn destroying_is_refused<N: Nic>(end: End<'_, N>) -> N::Vi {
    let state = end.vi.state();
    let (vi, illegal) = end.vi.destroy().unwrap_err();
    assert_eq!((illegal.state, vi.state()), (state, state));
    vi
}
