//! A request that reaches the server, and that the client gives up before the server answers.

use super::prelude::*;

/// Returns the time for each round of both roles. Even with a slow NIC, a later round is long enough.
fn rounds() -> impl Iterator<Item = Duration> {
    (0..10).map(|round| Duration::from_millis(50 << round))
}

/// Returns a request that the client has given up.
pub(super) fn received<N: Nic>(cx: &Context<'_, N>, line: &Line<'_, N>) -> N::Connection {
    for time in rounds() {
        let request = cx.nic.connect_wait(&cx.server, Some(time));
        line.tell(&[u64::from(request.is_ok())]);
        // The client has given up every request of this round.
        line.hear();
        match request {
            Ok(request) => return request,
            Err(error) => assert_eq!(error, ConnectError::Timeout),
        }
    }
    panic!("no request comes");
}

/// Requests until the server has a request that has timed out at the client.
pub(super) fn request<N: Nic>(cx: &Context<'_, N>, line: &Line<'_, N>, end: &End<'_, N>) {
    let mut has_timed_out = false;
    for time in rounds() {
        let begin = Instant::now();
        loop {
            match end.vi.connect_request(&cx.client(), &cx.server, Some(time)).unwrap_err() {
                // The server does not wait yet, or does not wait any more.
                ConnectError::NoMatch if begin.elapsed() < time => {
                    thread::sleep(Duration::from_millis(1));
                }
                ConnectError::NoMatch => break,
                error => {
                    assert_eq!((error, end.vi.state()), (ConnectError::Timeout, ViState::Idle));
                    has_timed_out = true;
                    break;
                }
            }
        }
        line.tell(&[]);
        if line.hear() == [1] {
            assert!(has_timed_out, "the server has a request that was refused");
            return;
        }
    }
    panic!("no request comes there");
}
