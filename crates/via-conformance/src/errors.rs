//! Errors break a reliable connection, in order and on both sides.

group! { "errors":
    both too_long_a_message_breaks,
    both no_posted_receive_breaks,
    both disconnecting_flushes_and_breaks_the_far_side,
    both what_was_sent_before_the_end_arrives,
    both illegal_posts_are_refused,
    both malformed_descriptors_end_in_error,
}

/// A message is longer than its receive.
pub(super) mod too_long_a_message_breaks {
    use crate::{Context, End};
    use via::{Cause, Nic, Status, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        for len in [10, 5000] {
            let end = End::new(cx);
            end.post_recv(0, 0, len);
            end.post_recv(1, 8192, len - 1);
            end.post_recv(2, 0, 100);
            end.accept(cx);
            assert_eq!(end.received().result(), Ok(len as u32));
            let status = end.received().result().unwrap_err();
            assert!(status.contains(Status::DONE | Status::LENGTH_ERROR | Status::OP_RECEIVE));
            assert_eq!(end.bytes(8192, len), vec![0; len], "nothing is written");
            let status = end.received().result().unwrap_err();
            assert!(status.contains(Status::DONE | Status::DESC_FLUSHED_ERROR));
            assert_eq!(end.vi.state(), ViState::Error);
            assert!(matches!(end.vi.cause(), Some(Cause::Descriptor(_))));
            end.vi.disconnect();
            assert_eq!(end.vi.state(), ViState::Idle);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        for len in [10, 5000] {
            let end = End::new(cx);
            end.fill(0, len, 3);
            end.post_recv(9, 0, 1);
            end.request(cx).unwrap();
            end.send(0, 0, len);
            end.post_send(1, 0, len);
            end.await_state(ViState::Error);
            // The moment of its completion decides whether the second send itself is reported.
            assert!(matches!(end.vi.cause(), Some(Cause::PeerBroke)), "{:?}", end.vi.cause());
            assert!(end.received().result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
            end.sent();
        }
    }
}

/// A message finds no posted receive.
pub(super) mod no_posted_receive_breaks {
    use crate::{Context, End};
    use via::error::WaitError;
    use via::{Cause, Nic, Status, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(0, 0, 100);
        end.accept(cx);
        assert_eq!(end.received().result(), Ok(4));
        end.await_state(ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::ReceiveQueueEmpty));
        assert_eq!(end.vi.recv_wait(crate::SOON), Err(WaitError::Empty));
        // In state ERROR, posted descriptors are accepted and flushed.
        end.post_recv(1, 0, 8);
        end.post_send(2, 0, 8);
        for done in [end.received(), end.sent()] {
            assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        end.post_recv(9, 0, 1);
        end.request(cx).unwrap();
        end.send(0, 0, 4);
        end.post_send(1, 0, 4);
        end.post_send(2, 0, 4);
        let status = end.sent().result().unwrap_err();
        assert!(status.contains(Status::TRANSPORT_ERROR), "{status:?}");
        assert!(end.sent().result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        assert!(end.received().result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        assert_eq!(end.vi.state(), ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::ReceiveQueueEmpty));
    }
}

/// One side disconnects.
pub(super) mod disconnecting_flushes_and_breaks_the_far_side {
    use crate::{Context, End};
    use via::{Cause, ErrorCode, Nic, Status, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let posted: Vec<_> = (0..40).map(|i| end.post_recv(i, i * 8, 8)).collect();
        end.accept(cx);
        end.vi.disconnect();
        assert_eq!(end.vi.state(), ViState::Idle);
        for descriptor in posted {
            let done = end.received();
            assert_eq!((done.descriptor, done.length), (descriptor, 0));
            assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        }
        end.nothing_posted();
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let posted: Vec<_> = (0..40).map(|i| end.post_recv(i, i * 8, 8)).collect();
        end.request(cx).unwrap();
        for descriptor in posted {
            let done = end.received();
            assert_eq!(done.descriptor, descriptor);
            assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        }
        assert_eq!(end.vi.state(), ViState::Error);
        assert_eq!(end.vi.cause().map(|c| c.code()), Some(ErrorCode::ConnLost));
        assert_eq!(end.vi.cause(), Some(Cause::PeerDisconnected));
        end.vi.disconnect();
        assert_eq!((end.vi.state(), end.vi.cause()), (ViState::Idle, None));
    }
}

/// A message whose send is complete is received, although its sender has disconnected.
pub(super) mod what_was_sent_before_the_end_arrives {
    use crate::{Context, End};
    use via::{Nic, Status, Vi, ViState};

    const MESSAGES: usize = 30;

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        for i in 0..=MESSAGES {
            end.post_recv(i, i * 5000, 5000);
        }
        end.accept(cx);
        end.await_state(ViState::Error);
        for i in 0..MESSAGES {
            let len = if i % 2 == 0 { 20 } else { 5000 };
            assert_eq!(end.received().result(), Ok(len));
            end.expect(i * 5000, len as usize, i);
        }
        assert!(end.received().result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        for i in 0..MESSAGES {
            let len = if i % 2 == 0 { 20 } else { 5000 };
            end.fill(0, len, i);
            end.send(0, 0, len);
        }
        end.vi.disconnect();
    }
}

/// Posts that a NIC refuses.
pub(super) mod illegal_posts_are_refused {
    use crate::{Context, End};
    use via::error::PostError;
    use via::{DescriptorAddress, Memory, Nic, Vi, ViState};

    pub(crate) fn server<N: Nic>(_: &Context<'_, N>) {}

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let good = end.descriptor(0, &[end.data(0, 8)], None);
        assert_eq!(end.vi.post_send(good), Err(PostError::State(ViState::Idle)));
        let other = Memory::zeroed(4096);
        let stale = cx.nic.register_mem(&other, Default::default()).unwrap();
        let foreign = DescriptorAddress { address: good.address, handle: stale };
        assert_eq!(end.vi.post_recv(foreign), Err(PostError::Descriptor));
        cx.nic.deregister_mem(stale).unwrap();
        let gone = DescriptorAddress { address: other.address(0), handle: stale };
        assert_eq!(end.vi.post_recv(gone), Err(PostError::Descriptor));
        for off in [8, 32] {
            let askew = DescriptorAddress { address: good.address + off, ..good };
            assert_eq!(end.vi.post_recv(askew), Err(PostError::Descriptor));
        }
        let beyond = end.memory.address(end.memory.len());
        let beyond = DescriptorAddress { address: beyond, ..good };
        assert_eq!(end.vi.post_recv(beyond), Err(PostError::Descriptor));
        end.nothing_posted();
    }
}

/// A descriptor's error is in its status, and breaks the connection.
pub(super) mod malformed_descriptors_end_in_error {
    use crate::{Context, End};
    use via::{Control, DescriptorRef, Nic, Status, Vi, ViState};

    const WAYS: usize = 4;

    fn spoil(descriptor: DescriptorRef<'_>, way: usize) {
        match way {
            0 => descriptor.set_seg_count(253),
            1 => descriptor.set_control(Control::RESERVED),
            2 => descriptor.set_control(Control::OP_MASK),
            _ => {}
        }
    }

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        for _ in 0..WAYS {
            let end = End::new(cx);
            end.post_recv(0, 0, 8);
            end.accept(cx);
            let status = end.received().result().unwrap_err();
            assert!(status.contains(Status::DESC_FLUSHED_ERROR), "{status:?}");
            end.await_state(ViState::Error);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        for way in 0..WAYS {
            let end = End::requested(cx);
            let max = cx.nic.attributes().max_transfer_size as usize;
            let len = if way == 3 { max + 1 } else { 8 };
            let at = end.descriptor(0, &[end.data(0, len)], None);
            spoil(end.memory.descriptor_at(at.address).unwrap(), way);
            end.vi.post_send(at).unwrap();
            let status = end.sent().result().unwrap_err();
            let error = if way == 3 { Status::LENGTH_ERROR } else { Status::FORMAT_ERROR };
            assert!(status.contains(error), "{way}: {status:?}");
            assert_eq!(end.vi.state(), ViState::Error);
        }
    }
}
