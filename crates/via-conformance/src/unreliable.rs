//! The unreliable level: a message that does not arrive is dropped, and the connection stays.
//!
//! Any message may be lost, so these cases send until one arrives.

use super::prelude::*;
use via::DataSegment;

group! { "unreliable":
    alone an_unreliable_message_arrives_whole_or_not [Unreliable],
    both an_unreliable_message_arrives_at_most_once [Unreliable],
    both without_a_receive_a_message_is_dropped_and_told [Unreliable],
    alone too_long_a_message_is_dropped [Unreliable],
    alone a_malformed_send_leaves_the_vi_connected [Unreliable],
    alone a_send_from_foreign_memory_leaves_the_vi_connected [Unreliable],
    alone too_long_a_send_leaves_the_vi_connected [Unreliable],
    alone a_receive_into_foreign_memory_leaves_the_vi_connected [Unreliable],
    both the_end_of_an_unreliable_connection_is_told [Unreliable],
    both a_refused_unreliable_write_is_dropped_and_told [UnreliableRdma],
    both an_unreliable_write_arrives [UnreliableRdma],
}

const LEVEL: Reliability = Reliability::UNRELIABLE;

fn attributes() -> ViAttributes {
    ViAttributes { reliability: LEVEL, ..ViAttributes::default() }
}

/// Sends until the other end of this role has received a complete message. Both ends must still be connected.
#[track_caller]
fn still_works<N: Nic>(a: &End<'_, N>, b: &End<'_, N>) {
    b.post_recv(900, 3000, 100);
    a.fill(3000, 100, 4);
    let mut got = Done::NotDone;
    eventually("one arrives", || {
        a.send(901, 3000, 100);
        let begin = Instant::now();
        while got == Done::NotDone && begin.elapsed() < Duration::from_millis(20) {
            got = b.vi.recv_done();
        }
        got != Done::NotDone
    });
    assert_eq!(got.completion().unwrap().result(), Ok(100));
    b.expect(3000, 100, 4);
    assert_eq!((a.vi.state(), b.vi.state()), (ViState::Connected, ViState::Connected));
}

fn an_unreliable_message_arrives_whole_or_not<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, attributes());
    still_works(&a, &b);
    still_works(&b, &a);
    assert_eq!((a.vi.cause(), b.vi.cause()), (None, None));
}

/// The message has only its own bytes.
mod an_unreliable_message_arrives_at_most_once {
    use super::*;

    const MESSAGES: usize = 200;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::with(cx, MESSAGES * 1000, attributes()));
        for i in 0..MESSAGES {
            end.post_recv(i, i * 1000, 1000);
        }
        end.accept(cx);
        line.meet();
        line.meet();
        // The end of the connection has arrived, so no further message will arrive.
        end.await_state(ViState::Error);
        let mut seen = [false; MESSAGES];
        for i in 0..MESSAGES {
            let Ok(len) = end.received().result() else { break };
            let number: [u8; 8] = end.bytes(i * 1000, 8).try_into().unwrap();
            let n = u64::from_le_bytes(number) as usize;
            assert_eq!(len as usize, 8 + n);
            end.expect(i * 1000 + 8, n, n);
            assert!(!core::mem::replace(&mut seen[n], true), "message {n} twice");
        }
        assert!(seen.contains(&true), "not one");
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 1000, attributes()));
        end.request(cx).unwrap();
        line.meet();
        for n in 0..MESSAGES {
            end.write(0, &(n as u64).to_le_bytes());
            end.fill(8, n, n);
            end.send(0, 0, 8 + n);
        }
        line.meet();
        end.vi.disconnect();
    }
}

/// The receiver's error handler reports the loss. The sender's send is complete.
mod without_a_receive_a_message_is_dropped_and_told {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, told) = (Line::server(cx), Told::by(cx.nic));
        let attach = Attach { context: 12, ..Attach::default() };
        let end = End::attached(cx, 100, attributes(), attach);
        end.accept(cx);
        line.meet();
        let error = told.code(12, ErrorCode::RecvqEmpty);
        assert_eq!(error.resource, Resource::Vi);
        assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Connected, None));
        line.meet();
        end.post_recv(0, 0, 8);
        line.meet();
        assert_eq!(end.received().result(), Ok(8));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 100, attributes()));
        end.request(cx).unwrap();
        line.meet();
        // Sends several messages, because one may be lost.
        for _ in 0..20 {
            end.send(0, 0, 8);
        }
        line.meet();
        assert_eq!(end.vi.state(), ViState::Connected);
        line.meet();
        for _ in 0..20 {
            end.send(0, 0, 8);
        }
        // The server may disconnect after this meeting.
        assert_eq!(end.vi.state(), ViState::Connected);
        line.meet();
    }
}

fn too_long_a_message_is_dropped<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, attributes());
    b.post_recv(0, 0, 50);
    let mut got = Done::NotDone;
    eventually("one arrives", || {
        a.send(0, 0, 51);
        got = b.vi.recv_wait(ms(20)).map_or(got, Done::Completion);
        got != Done::NotDone
    });
    let status = got.completion().unwrap().result().expect_err("received");
    assert!(status.contains(Status::LENGTH_ERROR), "{status:?}");
    assert_eq!(b.bytes(0, 51), [0; 51], "nothing is written");
    still_works(&a, &b);
}

#[track_caller]
fn bad_send<N: Nic>(cx: &Context<'_, N>, error: Status, post: impl Fn(&End<'_, N>)) {
    let (a, b) = pair(cx, attributes());
    post(&a);
    let status = a.sent().result().expect_err("carried out");
    assert!(status.contains(error), "{status:?}");
    assert_eq!(a.vi.state(), ViState::Connected);
    still_works(&a, &b);
}

fn a_malformed_send_leaves_the_vi_connected<N: Nic>(cx: &Context<'_, N>) {
    bad_send(cx, Status::FORMAT_ERROR, |a| {
        let descriptor = a.descriptor(0, &[a.data(0, 8)], None);
        a.place(0).set_control(Control::RESERVED);
        a.vi.post_send(descriptor).unwrap();
    });
}

fn a_send_from_foreign_memory_leaves_the_vi_connected<N: Nic>(cx: &Context<'_, N>) {
    bad_send(cx, Status::PROTECTION_ERROR, |a| {
        let foreign = DataSegment { handle: 0, ..a.data(0, 8) };
        a.vi.post_send(a.descriptor(0, &[foreign], None)).unwrap();
    });
}

fn too_long_a_send_leaves_the_vi_connected<N: Nic>(cx: &Context<'_, N>) {
    bad_send(cx, Status::LENGTH_ERROR, |a| {
        a.post_send(0, 0, attributes().max_transfer_size as usize + 1);
    });
}

fn a_receive_into_foreign_memory_leaves_the_vi_connected<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, attributes());
    let foreign = DataSegment { handle: 0, ..b.data(0, 8) };
    b.vi.post_recv(b.descriptor(0, &[foreign], None)).unwrap();
    let mut got = Done::NotDone;
    eventually("one arrives", || {
        a.send(0, 0, 8);
        got = b.vi.recv_wait(ms(20)).map_or(got, Done::Completion);
        got != Done::NotDone
    });
    let status = got.completion().unwrap().result().expect_err("received");
    assert!(status.contains(Status::PROTECTION_ERROR), "{status:?}");
    still_works(&a, &b);
}

mod the_end_of_an_unreliable_connection_is_told {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, told) = (Line::server(cx), Told::by(cx.nic));
        let attach = Attach { context: 12, ..Attach::default() };
        let end = End::attached(cx, 100, attributes(), attach);
        end.post_recv(0, 0, 8);
        end.accept(cx);
        line.meet();
        end.received_in(Status::DESC_FLUSHED_ERROR);
        end.await_state(ViState::Error);
        told.code(12, ErrorCode::ConnLost);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 100, attributes()));
        end.request(cx).unwrap();
        line.meet();
        end.vi.disconnect();
        line.meet();
    }
}

/// Makes a target to which the peer may write, or may not.
fn written<'n, N: Nic>(cx: &Context<'n, N>, enable_rdma_write: bool) -> End<'n, N> {
    let attributes = ViAttributes { enable_rdma_write, ..attributes() };
    let attach = Attach { context: 12, ..Attach::default() };
    let end = End::attached(cx, 1 << 16, attributes, attach);
    end.accept(cx);
    end
}

mod a_refused_unreliable_write_is_dropped_and_told {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, told, end) = (Line::server(cx), Told::by(cx.nic), written(cx, false));
        line.tell(&end.target().words());
        told.code(12, ErrorCode::RdmawProt);
        assert_eq!(end.bytes(0, 100), [0; 100]);
        assert_eq!(end.vi.state(), ViState::Connected);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 1000, attributes()));
        end.request(cx).unwrap();
        let target = Target::heard(&line.hear());
        end.fill(0, 100, 3);
        for _ in 0..20 {
            end.post_write(0, 0, 100, target.at(0));
            end.sent();
        }
        // The server may disconnect after this meeting.
        assert_eq!(end.vi.state(), ViState::Connected);
        line.meet();
    }
}

mod an_unreliable_write_arrives {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), written(cx, true));
        line.tell(&end.target().words());
        eventually("a write is there", || end.bytes(0, 5000) == [9; 5000]);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 5000, attributes()));
        end.request(cx).unwrap();
        let target = Target::heard(&line.hear());
        end.write(0, &[9; 5000]);
        for _ in 0..20 {
            end.post_write(0, 0, 5000, target.at(0));
            assert_eq!(end.sent().result(), Ok(5000));
        }
        line.meet();
    }
}
