//! A checked copy of a descriptor, which a NIC in software or a driver reads once.

use super::{DataSegment, DescriptorRef, RemoteSegment};
use crate::cq::WorkQueueKind;
use crate::flags::{Control, Status};
use smallvec::SmallVec;

/// Data segments; most descriptors have few.
pub type Segments = SmallVec<[DataSegment; 4]>;

/// A checked copy of a descriptor. A program may change the descriptor at any time, but not the copy.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// The operation and its flags. Reserved bits are zero.
    pub control: Control,
    /// Position in the peer's memory; `None` if the operation is not an RDMA.
    pub remote: Option<RemoteSegment>,
    /// Memory to send from or receive into. The NIC has not checked yet that the memory may be used.
    pub data: Segments,
    /// Immediate data to send.
    pub immediate: Option<u32>,
}

impl Work {
    /// Number of bytes of all data segments; saturates at `u32::MAX`.
    #[inline]
    pub fn length(&self) -> u32 {
        self.data.iter().fold(0, |sum, segment| sum.saturating_add(segment.length))
    }

    /// Returns the status bits for a send descriptor's operation.
    #[inline]
    pub fn operation(&self) -> Status {
        self.control.operation_status()
    }
}

/// A copy of a descriptor with one non-empty data segment, the most frequent kind.
#[derive(Debug, Clone, Copy)]
pub struct One {
    /// Memory to send from or receive into. The NIC has not checked yet that the memory may be used.
    pub data: DataSegment,
    /// Immediate data to send.
    pub immediate: Option<u32>,
    /// Set if the operation must wait until all earlier RDMA reads of the queue are complete.
    pub is_fenced: bool,
}

impl DescriptorRef<'_> {
    /// Reads a send or a receive with one non-empty segment; for NICs. Loads each field once. Returns `None` for any
    /// other descriptor, including illegal ones; read those with [`DescriptorRef::work`].
    #[inline]
    pub fn one(&self, queue: WorkQueueKind) -> Option<One> {
        let control = self.control();
        if control.intersects(Control::RESERVED | Control::OP_MASK) || self.seg_count() != 1 {
            return None;
        }
        let data = self.segment(0).filter(|data| data.length > 0)?;
        let is_sent = queue == WorkQueueKind::Send && control.contains(Control::IMMEDIATE);
        let immediate = is_sent.then(|| self.immediate());
        Some(One { data, immediate, is_fenced: control.contains(Control::QFENCE) })
    }

    /// Reads and checks a descriptor of the given queue; for NICs. Loads each field once.
    ///
    /// # Errors
    /// [`Status::FORMAT_ERROR`] for reserved bits, an unknown operation, or too many segments for the region. The same
    /// error for an RDMA without an address segment, or in the receive queue.
    pub fn work(&self, queue: WorkQueueKind) -> Result<Work, Status> {
        let mut work = Work::default();
        self.read(queue, &mut work).map(|()| work)
    }

    /// Like [`DescriptorRef::work`], but writes into `work` and so saves a copy.
    ///
    /// # Errors
    /// Like [`DescriptorRef::work`]. The contents of `work` are then meaningless.
    #[inline]
    pub fn read(&self, queue: WorkQueueKind, work: &mut Work) -> Result<(), Status> {
        let (control, count) = (self.control(), self.seg_count());
        let is_receive = queue == WorkQueueKind::Recv;
        let is_rdma = control.operation() != Control::OP_SENDRECV;
        let bad = control.intersects(Control::RESERVED)
            || control.operation() == Control::OP_MASK
            || count > self.room()
            || is_rdma && (is_receive || count == 0);
        if bad {
            return Err(Status::FORMAT_ERROR);
        }
        let immediate = control.contains(Control::IMMEDIATE) && !is_receive;
        work.control = control;
        work.remote = self.remote().filter(|_| is_rdma);
        work.immediate = immediate.then(|| self.immediate());
        work.data.clear();
        for i in usize::from(is_rdma)..count {
            work.data.extend(self.segment(i));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Descriptor;

    const DATA: DataSegment = DataSegment { address: 0x1000, handle: 7, length: 100 };

    #[test]
    fn a_send_and_a_receive_are_read_as_they_were_prepared() {
        let storage = Descriptor::default();
        storage.as_ref().prepare(&[DATA, DATA], Some(5)).unwrap();
        let sent = storage.as_ref().work(WorkQueueKind::Send).unwrap();
        assert_eq!(
            (&sent.data[..], sent.immediate, sent.remote),
            (&[DATA, DATA][..], Some(5), None)
        );
        assert_eq!((sent.length(), sent.operation()), (200, Status::OP_SEND));
        let received = storage.as_ref().work(WorkQueueKind::Recv).unwrap();
        assert_eq!((received.data.len(), received.immediate), (2, None));
    }

    #[test]
    fn the_first_segment_of_an_rdma_is_its_address() {
        let storage = Descriptor::default();
        let remote = RemoteSegment { address: 0x9000, handle: 3 };
        for (control, status) in [
            (Control::OP_RDMAWRITE, Status::OP_RDMA_WRITE),
            (Control::OP_RDMAREAD, Status::OP_RDMA_READ),
        ] {
            storage.as_ref().prepare_rdma(control, remote, &[DATA], None).unwrap();
            let work = storage.as_ref().work(WorkQueueKind::Send).unwrap();
            assert_eq!((work.remote, &work.data[..]), (Some(remote), &[DATA][..]));
            assert_eq!(work.operation(), status);
            // A receive descriptor must not have an RDMA operation.
            let received = storage.as_ref().work(WorkQueueKind::Recv);
            assert_eq!(received.err(), Some(Status::FORMAT_ERROR));
        }
    }

    #[test]
    fn a_message_of_one_segment_is_read_as_one_and_nothing_else_is() {
        let storage = Descriptor::default();
        let d = storage.as_ref();
        d.prepare(&[DATA], Some(5)).unwrap();
        let sent = d.one(WorkQueueKind::Send).unwrap();
        assert_eq!((sent.data, sent.immediate, sent.is_fenced), (DATA, Some(5), false));
        assert_eq!(d.one(WorkQueueKind::Recv).unwrap().immediate, None);
        d.set_control(Control::QFENCE);
        assert!(d.one(WorkQueueKind::Send).unwrap().is_fenced);
        for control in
            [Control::RESERVED, Control::OP_MASK, Control::OP_RDMAREAD, Control::OP_RDMAWRITE]
        {
            d.set_control(control);
            assert!(d.one(WorkQueueKind::Send).is_none(), "{control:?}");
        }
        d.set_control(Control::OP_SENDRECV);
        for count in [0, 2, 3, u16::MAX] {
            d.set_seg_count(count);
            assert!(d.one(WorkQueueKind::Recv).is_none(), "{count}");
        }
        d.prepare(&[DataSegment { length: 0, ..DATA }], None).unwrap();
        assert!(d.one(WorkQueueKind::Send).is_none());
    }

    #[test]
    fn what_makes_no_sense_is_a_format_error() {
        type Spoil = fn(DescriptorRef<'_>);
        let spoils: [Spoil; 4] = [
            |d| d.set_control(Control::RESERVED),
            |d| d.set_control(Control::OP_MASK),
            |d| d.set_seg_count(3),
            |d| {
                d.set_control(Control::OP_RDMAWRITE);
                d.set_seg_count(0);
            },
        ];
        for spoil in spoils {
            let storage = Descriptor::default();
            storage.as_ref().prepare(&[DATA], None).unwrap();
            spoil(storage.as_ref());
            for queue in [WorkQueueKind::Send, WorkQueueKind::Recv] {
                assert_eq!(storage.as_ref().work(queue).err(), Some(Status::FORMAT_ERROR));
            }
        }
    }
}
