//! No memory is accessed without a right to it.

group! { "memory":
    both foreign_memory_is_not_sent,
    both foreign_memory_is_not_received_into,
    both memory_behind_a_message_is_not_looked_at,
    both handles_and_tags_are_checked,
}

/// Faults of a data segment.
mod wrong {
    use crate::{Context, End};
    use via::{DataSegment, MemAttributes, Memory, Nic};

    pub(super) const WAYS: usize = 6;

    /// Returns a segment of 100 bytes that the VI must not access, and memory to keep meanwhile.
    pub(super) fn segment<N: Nic>(
        cx: &Context<'_, N>,
        end: &End<'_, N>,
        way: usize,
    ) -> (DataSegment, Memory) {
        let other = Memory::zeroed(4096);
        let whole = MemAttributes::default();
        let good = end.data(0, 100);
        let segment = match way {
            0 => DataSegment { handle: 0, ..good },
            1 => DataSegment { handle: u32::MAX, ..good },
            // The segment exceeds the region by a byte.
            2 => end.memory.segment(end.memory.len() - 99, 100, end.handle),
            // The segment begins before the region.
            3 => DataSegment { address: end.memory.address(0) - 1, ..good },
            // The region is deregistered.
            4 => {
                let handle = cx.nic.register_mem(&other, whole).unwrap();
                cx.nic.deregister_mem(handle).unwrap();
                other.segment(0, 100, handle)
            }
            // The region has another tag.
            _ => {
                let ptag = Some(cx.nic.create_ptag().unwrap());
                let handle = cx.nic.register_mem(&other, MemAttributes { ptag, ..whole }).unwrap();
                other.segment(0, 100, handle)
            }
        };
        (segment, other)
    }
}

/// A send uses memory that the VI has no right to.
pub(super) mod foreign_memory_is_not_sent {
    use super::wrong;
    use crate::{Context, End};
    use via::{Nic, Status, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        for _ in 0..wrong::WAYS {
            let end = End::new(cx);
            end.post_recv(0, 0, 1000);
            end.accept(cx);
            let done = end.received();
            assert!(done.result().unwrap_err().contains(Status::DESC_FLUSHED_ERROR));
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        for way in 0..wrong::WAYS {
            let end = End::requested(cx);
            let (segment, _memory) = wrong::segment(cx, &end, way);
            let data = if way % 2 == 0 { vec![segment] } else { vec![end.data(0, 50), segment] };
            end.vi.post_send(end.descriptor(0, &data, None)).unwrap();
            let status = end.sent().result().unwrap_err();
            assert!(status.contains(Status::PROTECTION_ERROR), "{way}: {status:?}");
            assert_eq!(end.vi.state(), ViState::Error);
        }
    }
}

/// A receive uses memory that the VI has no right to.
pub(super) mod foreign_memory_is_not_received_into {
    use super::wrong;
    use crate::{Context, End};
    use via::{Cause, Nic, Status, Vi, ViState};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        for way in 0..wrong::WAYS {
            let end = End::new(cx);
            let (segment, memory) = wrong::segment(cx, &end, way);
            let data = if way % 2 == 0 { vec![segment] } else { vec![end.data(0, 50), segment] };
            end.vi.post_recv(end.descriptor(0, &data, None)).unwrap();
            end.accept(cx);
            let status = end.received().result().unwrap_err();
            assert!(status.contains(Status::PROTECTION_ERROR), "{way}: {status:?}");
            assert_eq!(end.vi.state(), ViState::Error);
            let mut bytes = [0; 100];
            assert!(memory.read(0, &mut bytes) && bytes == [0; 100]);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        for _ in 0..wrong::WAYS {
            let end = End::requested(cx);
            end.fill(0, 100, 1);
            end.post_send(0, 0, 100);
            end.await_state(ViState::Error);
            assert_eq!(end.vi.cause(), Some(Cause::PeerBroke));
        }
    }
}

/// A receive includes memory that the VI has no right to, but the message does not reach it.
pub(super) mod memory_behind_a_message_is_not_looked_at {
    use super::wrong;
    use crate::{Context, End};
    use via::{Nic, Vi};

    pub(crate) fn server<N: Nic>(cx: &Context<'_, N>) {
        let end = End::new(cx);
        let mut foreign = Vec::new();
        for way in 0..wrong::WAYS {
            let (segment, memory) = wrong::segment(cx, &end, way);
            let slot = 2 * way;
            let alone = end.descriptor(slot, &[segment], None);
            let second = end.descriptor(slot + 1, &[end.data(50 * way, 50), segment], None);
            end.vi.post_recv(alone).unwrap();
            end.vi.post_recv(second).unwrap();
            foreign.push(memory);
        }
        end.accept(cx);
        for _ in 0..wrong::WAYS {
            assert_eq!(end.received().result().unwrap(), 0);
            assert_eq!(end.received().result().unwrap(), 50);
        }
    }

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let end = End::requested(cx);
        for _ in 0..wrong::WAYS {
            end.post_send(0, 0, 0);
            assert!(end.sent().result().is_ok());
            end.post_send(0, 0, 50);
            assert!(end.sent().result().is_ok());
        }
    }
}

/// Checks of handles and tags by the NIC.
pub(super) mod handles_and_tags_are_checked {
    use crate::{Context, End};
    use via::error::{CreateViError, MemError, PtagError, RegisterError};
    use via::{MemAttributes, Memory, Nic, Vi, ViAttributes};

    pub(crate) fn server<N: Nic>(_: &Context<'_, N>) {}

    pub(crate) fn client<N: Nic>(cx: &Context<'_, N>) {
        let nic = cx.nic;
        let memory = Memory::zeroed(8192);
        let ptag = nic.create_ptag().unwrap();
        let of = |ptag| MemAttributes { ptag: Some(ptag), ..MemAttributes::default() };
        let handle = nic.register_mem(&memory, of(ptag)).unwrap();
        assert_ne!(handle, nic.register_mem(&memory, of(ptag)).unwrap());
        let (same, attributes) = nic.query_mem(handle).unwrap();
        assert_eq!((same.address(0), same.len()), (memory.address(0), 8192));
        assert_eq!(attributes.ptag, Some(ptag));
        assert_eq!(nic.destroy_ptag(ptag), Err(PtagError::InUse));

        let attributes = ViAttributes { ptag: Some(ptag), ..ViAttributes::default() };
        let end = End::with(cx, 100, attributes);
        assert_eq!(end.vi.attributes().ptag, Some(ptag));
        end.post_recv(0, 0, 100);
        let plain = End::new(cx);
        let descriptor = plain.descriptor(0, &[], None);
        assert!(end.vi.post_recv(descriptor).is_err(), "a descriptor of another tag");
        nic.set_mem_attributes(plain.handle, of(ptag)).unwrap();
        assert!(end.vi.post_recv(descriptor).is_ok());
        assert!(plain.vi.post_recv(descriptor).is_err());

        nic.deregister_mem(handle).unwrap();
        assert_eq!(nic.deregister_mem(handle), Err(MemError::UnknownHandle));
        assert!(nic.query_mem(handle).is_err());
        let unused = nic.create_ptag().unwrap();
        assert_eq!(nic.destroy_ptag(unused), Ok(()));
        assert_eq!(nic.destroy_ptag(unused), Err(PtagError::Unknown));
        assert_eq!(nic.register_mem(&memory, of(unused)), Err(RegisterError::UnknownPtag));
        let attributes = ViAttributes { ptag: Some(unused), ..ViAttributes::default() };
        assert_eq!(nic.create_vi(attributes).err(), Some(CreateViError::UnknownPtag));
    }
}
