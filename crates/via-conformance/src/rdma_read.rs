//! RDMA reads from the peer's memory, without its program.

use super::prelude::*;

group! { "rdma":
    both a_read_brings_every_size [RdmaRead],
    both a_read_scatters [RdmaRead],
    both a_read_needs_no_call_of_the_target [RdmaRead],
    both a_read_takes_no_receive [RdmaRead],
    both reads_go_both_ways [RdmaRead],
    both a_read_of_no_bytes_is_done [RdmaRead],
    both the_longest_read_and_one_byte_more [RdmaRead],
    both a_read_into_memory_of_another_tag_is_a_protection_error [RdmaRead],
}

pub(super) const LEVEL: Reliability = Reliability::RELIABLE_DELIVERY;
/// Seed of the pattern in the target's memory.
pub(super) const SEED: usize = 11;
pub(super) const FILLED: usize = 1 << 19;

/// Makes the server's end with its line, and fills its memory. The client gets the memory's address.
pub(super) fn source<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>) {
    let (line, end) = (Line::server(cx), End::open(cx, LEVEL));
    end.fill(0, FILLED, SEED);
    end.post_recv(0, FILLED, 64);
    end.accept(cx);
    line.tell(&end.target().words());
    (line, end)
}

/// Makes the client's end with its line. Returns the memory to read.
pub(super) fn reader<'n, N: Nic>(cx: &Context<'n, N>) -> (Line<'n, N>, End<'n, N>, Target) {
    let (line, end) = (Line::client(cx), End::open(cx, LEVEL));
    end.request(cx).unwrap();
    let target = Target::heard(&line.hear());
    (line, end, target)
}

/// Checks that the next send was a read of `len` bytes.
#[track_caller]
pub(super) fn has_read<N: Nic>(end: &End<'_, N>, len: usize) {
    let sent = end.sent();
    assert_eq!(sent.result(), Ok(len as u32));
    assert_eq!(sent.status & Status::OP_MASK, Status::OP_RDMA_READ);
}

/// Runs a role that waits until the other role has finished.
pub(super) fn is_read<N: Nic>(cx: &Context<'_, N>) {
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

/// The read has as many data segments as possible beside the address segment.
mod a_read_scatters {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        is_read(cx);
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = reader(cx);
        for (count, len) in [(2, 5000), (30, 31), (251, 20)] {
            // The segments are in reverse order, with gaps. The second one is empty.
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

/// The target only waits on the line.
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
