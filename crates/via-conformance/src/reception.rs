//! Reliable reception: a completed send has arrived.

use super::prelude::*;
use via::DataSegment;

group! { "reliable reception":
    alone what_is_sent_is_placed [Reception],
    alone after_its_send_a_receive_is_done_without_a_call [Reception],
    both reception_keeps_order_and_sizes [Reception],
    both sends_are_received_while_the_receiver_computes [Reception],
    both too_short_a_receive_is_told_to_the_sender [Reception],
    both a_receive_into_foreign_memory_is_told_to_the_sender [Reception],
    both a_message_that_meets_no_receive_is_not_done [Reception],
    both a_refused_write_is_told_in_its_descriptor [Reception, RdmaWrite],
    both a_write_that_is_done_is_placed [Reception, RdmaWrite],
    both a_read_at_reliable_reception [ReceptionRead],
}

const LEVEL: Reliability = Reliability::RELIABLE_RECEPTION;

fn attributes() -> ViAttributes {
    ViAttributes { reliability: LEVEL, ..ViAttributes::default() }
}

/// The memory is checked at the moment when the send completes.
fn what_is_sent_is_placed<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, attributes());
    for i in 0..200 {
        let len = [8, 100, 4000, 32 << 10][i % 4];
        b.post_recv(0, 0, len);
        a.send_pattern(0, 0, len, i);
        b.expect(0, len, i);
        b.received();
    }
}

/// The data is there when the send completes. The descriptor may be marked complete slightly later.
fn after_its_send_a_receive_is_done_without_a_call<N: Nic>(cx: &Context<'_, N>) {
    let (a, b) = pair(cx, attributes());
    for i in 0..200 {
        b.post_recv(0, 0, 1000);
        a.send_pattern(0, 0, 1000, i);
        eventually("the receive is done", || b.place(0).status().is_done());
        assert_eq!(b.vi.recv_done().completion().unwrap().result(), Ok(1000));
    }
}

mod reception_keeps_order_and_sizes {
    use super::*;

    const MESSAGES: usize = 100;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, MESSAGES * 5000, attributes());
        for i in 0..MESSAGES {
            end.post_recv(i, i * 5000, 5000);
        }
        end.accept(cx);
        for i in 0..MESSAGES {
            end.receives(i * 5000, i * 50, i);
        }
        end.await_state(ViState::Error);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::with(cx, MESSAGES * 5000, attributes());
        end.request(cx).unwrap();
        for i in 0..MESSAGES {
            end.fill(i * 5000, i * 50, i);
            end.post_send(i, i * 5000, i * 50);
        }
        for i in 0..MESSAGES {
            let sent = end.sent();
            assert_eq!(
                (sent.descriptor.address, sent.result()),
                (end.address(i), Ok(i as u32 * 50))
            );
        }
    }
}

/// The receiver makes no call on the VI until all sends are complete.
mod sends_are_received_while_the_receiver_computes {
    use super::*;

    const MESSAGES: usize = 100;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::with(cx, MESSAGES * 8, attributes()));
        for i in 0..MESSAGES {
            end.post_recv(i, i * 8, 8);
        }
        end.accept(cx);
        line.hear();
        eventually("the last is done", || end.place(MESSAGES - 1).status().is_done());
        for i in 0..MESSAGES {
            assert!(end.vi.recv_done().completion().unwrap().result().is_ok());
            end.expect(i * 8, 8, i);
        }
        line.tell(&[]);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 8, attributes()));
        end.request(cx).unwrap();
        for i in 0..MESSAGES {
            end.send_pattern(0, 0, 8, i);
        }
        line.meet();
    }
}

/// Runs the sender of a message that its receiver could not accept.
fn refused_sender<N: Nic>(cx: &Context<'_, N>) {
    let (line, end) = (Line::client(cx), End::with(cx, 100, attributes()));
    end.request(cx).unwrap();
    line.meet();
    end.post_send(0, 0, 51);
    end.sent_in(Status::REMOTE_DESC_ERROR);
    end.await_state(ViState::Error);
    line.meet();
}

mod too_short_a_receive_is_told_to_the_sender {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::with(cx, 100, attributes()));
        end.post_recv(0, 0, 50);
        end.accept(cx);
        line.meet();
        end.received_in(Status::LENGTH_ERROR);
        end.await_state(ViState::Error);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        refused_sender(cx);
    }
}

mod a_receive_into_foreign_memory_is_told_to_the_sender {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::with(cx, 100, attributes()));
        let foreign = DataSegment { handle: 0, ..end.data(0, 60) };
        end.vi.post_recv(end.descriptor(0, &[foreign], None)).unwrap();
        end.accept(cx);
        line.meet();
        end.received_in(Status::PROTECTION_ERROR);
        end.await_state(ViState::Error);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        refused_sender(cx);
    }
}

mod a_message_that_meets_no_receive_is_not_done {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::with(cx, 100, attributes()));
        end.accept(cx);
        line.meet();
        end.await_state(ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::ReceiveQueueEmpty));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::with(cx, 100, attributes()));
        end.request(cx).unwrap();
        line.meet();
        end.post_send(0, 0, 8);
        assert!(end.sent().result().is_err());
        end.await_state(ViState::Error);
        line.meet();
    }
}

fn target<'n, N: Nic>(cx: &Context<'n, N>, enable_rdma_write: bool) -> (Line<'n, N>, End<'n, N>) {
    let attributes = ViAttributes { enable_rdma_write, ..attributes() };
    let (line, end) = (Line::server(cx), End::with(cx, 1 << 16, attributes));
    end.accept(cx);
    line.tell(&end.target().words());
    (line, end)
}

fn writer<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>, Target) {
    let (line, end) = (Line::client(cx), End::with(cx, 1 << 16, attributes()));
    end.request(cx).unwrap();
    let target = Target::heard(&line.hear());
    (line, end, target)
}

/// With reliable delivery, the descriptor need not have the error.
mod a_refused_write_is_told_in_its_descriptor {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, false);
        end.await_state(ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::Rdma(ErrorCode::RdmawProt)));
        assert_eq!(end.bytes(0, 100), [0; 100]);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        end.fill(0, 100, 3);
        end.post_write(0, 0, 100, target.at(0));
        end.sent_in(Status::RDMA_PROT_ERROR | Status::OP_RDMA_WRITE);
        end.await_state(ViState::Error);
        line.meet();
    }
}

mod a_write_that_is_done_is_placed {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, true);
        for i in 0..30 {
            line.hear();
            end.expect(i, 20_000, i);
            line.tell(&[]);
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        for i in 0..30 {
            end.fill(0, 20_000, i);
            end.post_write(0, 0, 20_000, target.at(i));
            assert_eq!(end.sent().result(), Ok(20_000));
            line.meet();
        }
    }
}

mod a_read_at_reliable_reception {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::open(cx, LEVEL));
        end.fill(0, 50_000, 7);
        end.accept(cx);
        line.tell(&end.target().words());
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::client(cx), End::open(cx, LEVEL));
        end.request(cx).unwrap();
        let target = Target::heard(&line.hear());
        end.post_read(0, 100, 50_000, target.at(0));
        assert_eq!(end.sent().result(), Ok(50_000));
        end.expect(100, 50_000, 7);
        line.meet();
    }
}
