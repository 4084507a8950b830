//! The control and status words of a descriptor, with VIPL's values.

use bitflags::bitflags;

bitflags! {
    /// Control word of a descriptor (16 bits; `VIP_CONTROL_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Control: u16 {
        /// The operation is an RDMA write.
        const OP_RDMAWRITE = 1;
        /// The operation is an RDMA read.
        const OP_RDMAREAD = 2;
        /// The descriptor carries 32 bits of immediate data.
        const IMMEDIATE = 4;
        /// The operation must wait until all earlier RDMA reads of the queue are complete.
        const QFENCE = 8;
        /// Bits that must be zero.
        const RESERVED = 0xfff0;
    }
}

impl Control {
    /// Send or receive: the operation whose value is 0 (`VIP_CONTROL_OP_SENDRECV`).
    pub const OP_SENDRECV: Control = Control::empty();
    /// Bits that give the operation (`VIP_CONTROL_OP_MASK`).
    pub const OP_MASK: Control = Control::OP_RDMAWRITE.union(Control::OP_RDMAREAD);

    /// Returns only the bits of the operation.
    #[inline]
    pub fn operation(self) -> Control {
        self & Control::OP_MASK
    }

    /// Returns the status bits for a send descriptor's operation.
    pub fn operation_status(self) -> Status {
        match self.operation() {
            Control::OP_RDMAWRITE => Status::OP_RDMA_WRITE,
            Control::OP_RDMAREAD => Status::OP_RDMA_READ,
            _ => Status::OP_SEND,
        }
    }
}

bitflags! {
    /// Status of a descriptor (32 bits; `VIP_STATUS_*`). Zero while the descriptor is not done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Status: u32 {
        /// The NIC has completed the descriptor; successfully, if there is no error bit.
        const DONE = 0x1;
        /// The descriptor is malformed: its number of segments, its reserved bits or its operation.
        const FORMAT_ERROR = 0x2;
        /// A memory handle, range or protection tag does not allow the access.
        const PROTECTION_ERROR = 0x4;
        /// The message is longer than the maximum transfer size, or than its receive.
        const LENGTH_ERROR = 0x8;
        /// An error occurred after part of the data had been transferred.
        const PARTIAL_ERROR = 0x10;
        /// The connection ended before the NIC processed the descriptor.
        const DESC_FLUSHED_ERROR = 0x20;
        /// The transport lost the data or the connection.
        const TRANSPORT_ERROR = 0x40;
        /// The peer's memory did not allow the RDMA.
        const RDMA_PROT_ERROR = 0x80;
        /// The peer's descriptor was in error (reliable reception).
        const REMOTE_DESC_ERROR = 0x100;
        /// The descriptor was a receive.
        const OP_RECEIVE = 0x1_0000;
        /// The descriptor was an RDMA write.
        const OP_RDMA_WRITE = 0x2_0000;
        /// The descriptor was an RDMA read.
        const OP_RDMA_READ = 0x4_0000;
        /// The descriptor has immediate data.
        const IMMEDIATE = 0x8_0000;
        /// Bits that are zero.
        const RESERVED = 0xfff0_fe00;
    }
}

impl Status {
    /// The descriptor was a send: the operation whose value is 0.
    pub const OP_SEND: Status = Status::empty();
    /// The peer's RDMA write with immediate data consumed a receive.
    pub const OP_REMOTE_RDMA_WRITE: Status = Status::OP_RECEIVE.union(Status::OP_RDMA_WRITE);
    /// Bits that give the operation (`VIP_STATUS_OP_MASK`).
    pub const OP_MASK: Status = Status::OP_REMOTE_RDMA_WRITE.union(Status::OP_RDMA_READ);
    /// Bits that show errors (`VIP_STATUS_ERROR_MASK`).
    pub const ERROR_MASK: Status = Status::from_bits_retain(0x1fe);

    /// Returns only the error bits.
    #[inline]
    pub fn errors(self) -> Status {
        self & Status::ERROR_MASK
    }

    /// Returns true if the NIC has completed the descriptor.
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
