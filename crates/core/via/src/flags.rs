//! The control and status words of a descriptor, with VIPL's values.

use bitflags::bitflags;

bitflags! {
    /// What a descriptor asks for (16 bits; `VIP_CONTROL_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Control: u16 {
        /// The operation is an RDMA write.
        const OP_RDMAWRITE = 1;
        /// The operation is an RDMA read.
        const OP_RDMAREAD = 2;
        /// The descriptor carries 32 bits of immediate data.
        const IMMEDIATE = 4;
        /// Start only when all earlier RDMA reads of the queue are complete.
        const QFENCE = 8;
        /// Bits that must be zero.
        const RESERVED = 0xfff0;
    }
}

impl Control {
    /// Send or receive: the operation whose value is 0 (`VIP_CONTROL_OP_SENDRECV`).
    pub const OP_SENDRECV: Control = Control::empty();
    /// Which bits tell the operation (`VIP_CONTROL_OP_MASK`).
    pub const OP_MASK: Control = Control::OP_RDMAWRITE.union(Control::OP_RDMAREAD);

    /// The operation alone.
    #[inline]
    pub fn operation(self) -> Control {
        self & Control::OP_MASK
    }

    /// What a send descriptor's operation is called in its status.
    pub fn operation_status(self) -> Status {
        match self.operation() {
            Control::OP_RDMAWRITE => Status::OP_RDMA_WRITE,
            Control::OP_RDMAREAD => Status::OP_RDMA_READ,
            _ => Status::OP_SEND,
        }
    }
}

bitflags! {
    /// What became of a descriptor (32 bits; `VIP_STATUS_*`). All zero: not done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Status: u32 {
        /// The NIC is finished with the descriptor; without an error bit, successfully.
        const DONE = 0x1;
        /// The descriptor itself makes no sense: too many segments, reserved bits, operation.
        const FORMAT_ERROR = 0x2;
        /// A memory handle, range or protection tag does not allow the access.
        const PROTECTION_ERROR = 0x4;
        /// Longer than the maximum transfer size, or than the receive it met.
        const LENGTH_ERROR = 0x8;
        /// An error struck when part of the data had been transferred.
        const PARTIAL_ERROR = 0x10;
        /// The connection ended before the descriptor's turn came.
        const DESC_FLUSHED_ERROR = 0x20;
        /// The transport lost the data, or the connection under it.
        const TRANSPORT_ERROR = 0x40;
        /// The far side's memory did not allow the RDMA.
        const RDMA_PROT_ERROR = 0x80;
        /// The far side's descriptor was in error (reliable reception).
        const REMOTE_DESC_ERROR = 0x100;
        /// The descriptor was a receive.
        const OP_RECEIVE = 0x1_0000;
        /// The descriptor was an RDMA write.
        const OP_RDMA_WRITE = 0x2_0000;
        /// The descriptor was an RDMA read.
        const OP_RDMA_READ = 0x4_0000;
        /// Immediate data came with it.
        const IMMEDIATE = 0x8_0000;
        /// Bits that are zero.
        const RESERVED = 0xfff0_fe00;
    }
}

impl Status {
    /// The descriptor was a send: the operation whose value is 0.
    pub const OP_SEND: Status = Status::empty();
    /// A receive that was consumed by the peer's RDMA write with immediate data.
    pub const OP_REMOTE_RDMA_WRITE: Status = Status::OP_RECEIVE.union(Status::OP_RDMA_WRITE);
    /// Which bits tell the operation (`VIP_STATUS_OP_MASK`).
    pub const OP_MASK: Status = Status::OP_REMOTE_RDMA_WRITE.union(Status::OP_RDMA_READ);
    /// Which bits tell of an error (`VIP_STATUS_ERROR_MASK`).
    pub const ERROR_MASK: Status = Status::from_bits_retain(0x1fe);

    /// The error bits alone.
    #[inline]
    pub fn errors(self) -> Status {
        self & Status::ERROR_MASK
    }

    /// Whether the NIC is finished with the descriptor.
    #[inline]
    pub fn is_done(self) -> bool {
        self.contains(Status::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_vipls() {
        assert_eq!(Control::OP_MASK.bits(), 3);
        assert_eq!(Control::all().bits(), 0xffff);
        assert_eq!(Status::OP_MASK.bits(), 0x7_0000);
        assert_eq!(Status::OP_REMOTE_RDMA_WRITE.bits(), 0x3_0000);
        assert_eq!(Status::all().bits(), u32::MAX);
        let errors = Status::FORMAT_ERROR
            | Status::PROTECTION_ERROR
            | Status::LENGTH_ERROR
            | Status::PARTIAL_ERROR
            | Status::DESC_FLUSHED_ERROR
            | Status::TRANSPORT_ERROR
            | Status::RDMA_PROT_ERROR
            | Status::REMOTE_DESC_ERROR;
        assert_eq!(errors, Status::ERROR_MASK);
    }
}
