//! RDMA reads among other transfers: their order, and the effect of fences.

use super::prelude::*;
use super::rdma_read::{FILLED, LEVEL, SEED, has_read, is_read, reader, source};

group! { "rdma":
    both a_read_sees_what_was_written_before_it [RdmaRead],
    both reads_and_sends_complete_in_order [RdmaRead],
    both a_fenced_send_waits_for_the_reads_before_it [RdmaRead],
    both a_fenced_write_carries_what_was_read [RdmaRead],
    both many_reads_are_under_way [RdmaRead],
    both disconnecting_during_reads_ends_each [RdmaRead],
}

mod a_read_sees_what_was_written_before_it {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        if !cx.nic.attributes().capabilities.rdma_write {
            return line.meet();
        }
        for i in 0..30 {
            end.fill(0, 3000, i);
            end.post_write(0, 0, 3000, target.at(100));
            end.post_read(1, 50_000, 3000, target.at(100));
            assert_eq!(end.sent().result(), Ok(3000));
            has_read(&end, 3000);
            end.expect(50_000, 3000, i);
        }
        line.meet();
    }
}

/// Completions are in order, although a send could complete sooner than a read before it.
mod reads_and_sends_complete_in_order {
    use super::*;

    const ROUNDS: usize = 40;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = source(cx);
        for i in 1..ROUNDS {
            end.post_recv(i, FILLED + i * 64, 64);
        }
        line.meet();
        for _ in 0..ROUNDS {
            assert_eq!(end.received().result(), Ok(8));
        }
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        line.meet();
        for i in 0..ROUNDS {
            end.post_read(i * 2, 0, 5000, target.at(0));
            end.post_send(i * 2 + 1, 0, 8);
        }
        for i in 0..ROUNDS {
            let read = end.sent();
            assert_eq!(read.descriptor.address, end.address(i * 2));
            assert_eq!(read.result(), Ok(5000));
            assert_eq!(end.sent().descriptor.address, end.address(i * 2 + 1));
        }
        line.meet();
    }
}

/// The send carries the bytes that were read.
mod a_fenced_send_waits_for_the_reads_before_it {
    use super::*;

    const LEN: usize = 60_000;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = (Line::server(cx), End::open(cx, LEVEL));
        for i in 0..10 {
            end.post_recv(i, FILLED, LEN);
        }
        end.accept(cx);
        line.tell(&end.target().words());
        for i in 0..10 {
            end.fill(0, LEN, i);
            line.meet();
            assert_eq!(end.received().result(), Ok(LEN as u32));
            end.expect(FILLED, LEN, i);
            line.meet();
        }
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for _ in 0..10 {
            line.meet();
            end.write(0, &vec![0; LEN]);
            let fenced = end.descriptor(1, &[end.data(0, LEN)], None);
            end.place(1).set_control(Control::QFENCE);
            end.post_read(0, 0, LEN, target.at(0));
            end.vi.post_send(fenced).unwrap();
            has_read(&end, LEN);
            assert_eq!(end.sent().result(), Ok(LEN as u32));
            line.meet();
        }
    }
}

mod a_fenced_write_carries_what_was_read {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = source(cx);
        if cx.nic.attributes().capabilities.rdma_write {
            assert!(end.received().result().is_ok());
            end.expect(100_000, 20_000, SEED);
        }
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        if cx.nic.attributes().capabilities.rdma_write {
            let data = [end.data(0, 20_000)];
            let control = Control::OP_RDMAWRITE | Control::QFENCE;
            end.post_read(0, 0, 20_000, target.at(0));
            end.vi.post_send(end.rdma(1, control, target.at(100_000), &data, None)).unwrap();
            has_read(&end, 20_000);
            assert_eq!(end.sent().result(), Ok(20_000));
            end.send(2, 0, 0);
        }
        line.meet();
    }
}

mod many_reads_are_under_way {
    use super::*;

    const READS: usize = 250;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for i in 0..READS {
            end.post_read(i, i * 2000, 2000, target.at(i * 2000));
        }
        for _ in 0..READS {
            has_read(&end, 2000);
        }
        end.expect(0, READS * 2000, SEED);
        line.meet();
    }
}

/// Each descriptor is completed or flushed, in order.
mod disconnecting_during_reads_ends_each {
    use super::*;

    const READS: usize = 100;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = source(cx);
        line.meet();
        end.vi.disconnect();
        end.received_in(Status::DESC_FLUSHED_ERROR);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for i in 0..READS {
            end.post_read(i, 0, 60_000, target.at(0));
        }
        line.meet();
        let mut over = false;
        for i in 0..READS {
            let sent = end.sent();
            assert_eq!(sent.descriptor.address, end.address(i));
            match sent.result() {
                Ok(len) => assert!(len == 60_000 && !over),
                Err(status) => {
                    let lost = Status::DESC_FLUSHED_ERROR | Status::TRANSPORT_ERROR;
                    assert!(status.intersects(lost), "{status:?}");
                    over = true;
                }
            }
        }
        end.nothing_posted();
        line.meet();
    }
}
