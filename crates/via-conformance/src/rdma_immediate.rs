//! RDMA writes that consume a receive at the target: those with immediate data.

use super::prelude::*;
use super::rdma_write::{target, writer, wrote};

group! { "rdma":
    both a_write_without_immediate_data_takes_no_receive [RdmaWrite],
    both a_write_with_immediate_data_takes_a_receive [RdmaWrite],
    both a_write_of_immediate_data_alone_takes_a_receive [RdmaWrite],
    both a_write_with_immediate_data_needs_a_receive [RdmaWrite],
}

/// Posts a write with immediate data.
fn post_immediate<N: Nic>(end: &End<'_, N>, len: usize, to: RemoteSegment, immediate: u32) {
    let data = [end.data(0, len)];
    let descriptor = end.rdma(0, Control::OP_RDMAWRITE, to, &data, Some(immediate));
    end.vi.post_send(descriptor).unwrap();
}

mod a_write_without_immediate_data_takes_no_receive {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 2);
        line.meet();
        // Messages of another connection do not wait for these writes.
        eventually("the last write is there", || end.bytes(1000, 1) == [1]);
        end.expect(0, 100, 2);
        assert_eq!(end.vi.recv_done(), Done::NotDone);
        line.meet();
        // The following send uses the first receive.
        let got = end.received();
        assert_eq!((got.descriptor.address, got.result()), (end.memory.address(0), Ok(8)));
        assert_eq!(end.vi.recv_done(), Done::NotDone);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        end.fill(0, 100, 2);
        for _ in 0..10 {
            end.post_write(0, 0, 100, target.at(0));
            wrote(&end, 100);
        }
        end.write(1000, &[1]);
        end.post_write(0, 1000, 1, target.at(1000));
        wrote(&end, 1);
        line.meet();
        line.meet();
        end.send(0, 0, 8);
        line.meet();
    }
}

mod a_write_with_immediate_data_takes_a_receive {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 3);
        end.write(1 << 19, &[0x11; 200]);
        line.meet();
        for i in 0..3 {
            let got = end.received();
            assert_eq!(got.immediate, Some(100 + i as u32));
            let expected = Status::DONE | Status::OP_REMOTE_RDMA_WRITE | Status::IMMEDIATE;
            assert_eq!(got.status, expected);
            end.expect(i * 5000, 5000, i);
        }
        assert_eq!(end.bytes(1 << 19, 192), [0x11; 192], "the receives' own memory is not used");
        assert_eq!(end.vi.recv_done(), Done::Empty);
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        line.meet();
        for i in 0..3 {
            end.fill(0, 5000, i);
            post_immediate(&end, 5000, target.at(i * 5000), 100 + i as u32);
            wrote(&end, 5000);
        }
        line.meet();
    }
}

mod a_write_of_immediate_data_alone_takes_a_receive {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 1);
        assert_eq!(end.received().immediate, Some(77));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        let descriptor = end.rdma(0, Control::OP_RDMAWRITE, target.at(0), &[], Some(77));
        end.vi.post_send(descriptor).unwrap();
        wrote(&end, 0);
        line.meet();
    }
}

/// Without a receive, the connection breaks, as for a message.
mod a_write_with_immediate_data_needs_a_receive {
    use super::*;

    pub(super) fn server<N: Nic>(cx: &Context<'_, N>) {
        let (line, end) = target(cx, 0);
        end.await_state(ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::ReceiveQueueEmpty));
        line.meet();
    }

    pub(super) fn client<N: Nic>(cx: &Context<'_, N>) {
        let (line, end, target) = writer(cx);
        post_immediate(&end, 8, target.at(0), 1);
        end.await_state(ViState::Error);
        line.meet();
    }
}
