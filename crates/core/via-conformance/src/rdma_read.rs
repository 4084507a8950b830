//! RDMA reads: out of the peer's memory, without its program.

use super::prelude::*;

group! { "rdma":
    both a_read_brings_every_size [RdmaRead],
    both a_read_scatters [RdmaRead],
    both a_read_needs_no_call_of_the_target [RdmaRead],
    both a_read_takes_no_receive [RdmaRead],
    both a_read_sees_what_was_written_before_it [RdmaRead],
    both reads_and_sends_complete_in_order [RdmaRead],
    both a_fenced_send_waits_for_the_reads_before_it [RdmaRead],
    both a_fenced_write_carries_what_was_read [RdmaRead],
    both many_reads_are_under_way [RdmaRead],
    both reads_go_both_ways [RdmaRead],
    both a_read_of_no_bytes_is_done [RdmaRead],
    both the_longest_read_and_one_byte_more [RdmaRead],
    both a_read_into_memory_of_another_tag_is_a_protection_error [RdmaRead],
    both disconnecting_during_reads_ends_each [RdmaRead],
}

const LEVEL: Reliability = Reliability::RELIABLE_DELIVERY;
/// The target's memory holds a pattern of this seed.
const SEED: usize = 11;
const FILLED: usize = 1 << 19;

/// The server's end with its line, its memory filled; the client knows where it is.
fn source<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>) {
    let (line, end) = (Line::server(cx), End::open(cx, LEVEL));
    end.fill(0, FILLED, SEED);
    end.post_recv(0, FILLED, 64);
    end.accept(cx);
    line.tell(&end.target().words());
    (line, end)
}

/// The client's end with its line, and where to read.
fn reader<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>, Target) {
    let (line, end) = (Line::client(cx), End::open(cx, LEVEL));
    end.request(cx).unwrap();
    let target = Target::heard(&line.hear());
    (line, end, target)
}

/// The next send was a read of so many bytes.
#[track_caller]
fn has_read<N: Nic>(end: &End<'_, N>, len: usize) {
    let sent = end.sent();
    assert_eq!(sent.result(), Ok(len as u32));
    assert_eq!(sent.status & Status::OP_MASK, Status::OP_RDMA_READ);
}

/// A role that only stays until the other is finished.
fn is_read<N: Nic>(cx: &Context<'_, N>) {
    source(cx).0.meet();
}

mod a_read_brings_every_size {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for len in [1, 8, 48, 64, 113, 1000, 4097, 32768, 65536] {
            end.write(0, &vec![0xbb; len + 1]);
            end.post_read(0, 0, len, target.at(0));
            has_read(&end, len);
            end.expect(0, len, SEED);
            assert_eq!(end.bytes(len, 1), [0xbb], "one byte too many");
        }
        line.meet();
    }
}

/// To as many places as there can be beside the address segment.
mod a_read_scatters {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for (count, len) in [(2, 5000), (30, 31), (251, 20)] {
            // Backwards, with gaps; the second of them is empty.
            let places: Vec<_> =
                (0..count).rev().map(|i| (i * (len + 9), if i == 1 { 0 } else { len })).collect();
            let data: Vec<_> = places.iter().map(|&(at, len)| end.data(at, len)).collect();
            let descriptor = end.rdma(0, Control::OP_RDMAREAD, target.at(0), &data, None);
            end.vi.post_send(descriptor).unwrap();
            let total = len * (count - 1);
            has_read(&end, total);
            let bytes: Vec<u8> = places.iter().flat_map(|&(at, len)| end.bytes(at, len)).collect();
            crate::end::check(&bytes, SEED);
        }
        line.meet();
    }
}

/// It waits on the line alone.
mod a_read_needs_no_call_of_the_target {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = source(cx);
        line.hear();
        assert_eq!(end.vi.state(), ViState::Connected);
        line.tell(&[]);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for i in 0..20 {
            end.post_read(i, 0, 30_000, target.at(0));
            has_read(&end, 30_000);
        }
        end.expect(0, 30_000, SEED);
        line.meet();
    }
}

mod a_read_takes_no_receive {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = source(cx);
        line.meet();
        assert_eq!(end.vi.recv_done(), Done::NotDone);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        end.post_read(0, 0, 100, target.at(0));
        has_read(&end, 100);
        line.meet();
        line.meet();
    }
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

/// Though a send is over sooner than a read before it could be.
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

/// What it sends is what was read.
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

mod reads_go_both_ways {
    use super::*;

    fn exchange<N: Nic>(line: &Line<'_, N>, end: &End<'_, N>, from: Target) {
        for i in 0..20 {
            end.post_read(900 + i, FILLED + 1000, 10_000, from.at(0));
        }
        for _ in 0..20 {
            has_read(end, 10_000);
        }
        end.expect(FILLED + 1000, 10_000, SEED);
        line.meet();
    }

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = source(cx);
        let from = Target::heard(&line.hear());
        exchange(&line, &end, from);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, from) = reader(cx);
        end.fill(0, 10_000, SEED);
        line.tell(&end.target().words());
        exchange(&line, &end, from);
    }
}

mod a_read_of_no_bytes_is_done {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        end.vi.post_send(end.rdma(0, Control::OP_RDMAREAD, target.at(0), &[], None)).unwrap();
        has_read(&end, 0);
        line.meet();
    }
}

mod the_longest_read_and_one_byte_more {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        let max = end.vi.attributes().max_transfer_size as usize;
        let len = max.min(FILLED);
        end.post_read(0, 0, len, target.at(0));
        has_read(&end, len);
        end.expect(0, len, SEED);
        let data: Vec<_> = (0..250).map(|_| end.data(0, max / 250 + 1)).collect();
        end.vi.post_send(end.rdma(0, Control::OP_RDMAREAD, target.at(0), &data, None)).unwrap();
        end.sent_in(Status::LENGTH_ERROR);
        line.meet();
    }
}

mod a_read_into_memory_of_another_tag_is_a_protection_error {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        let other = Memory::zeroed(100);
        let ptag = Some(cx.nic.create_ptag().unwrap());
        let rights = MemAttributes { ptag, ..MemAttributes::default() };
        let handle = cx.nic.register_mem(&other, rights).unwrap();
        let data = [end.data(0, 50), other.segment(0, 50, handle)];
        end.vi.post_send(end.rdma(0, Control::OP_RDMAREAD, target.at(0), &data, None)).unwrap();
        end.sent_in(Status::PROTECTION_ERROR | Status::OP_RDMA_READ);
        end.await_state(ViState::Error);
        let mut bytes = [0; 100];
        assert!(other.read(0, &mut bytes) && bytes == [0; 100]);
        line.meet();
    }
}

/// Done or flushed, in order, and none is forgotten.
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
