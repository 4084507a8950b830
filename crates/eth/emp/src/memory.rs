//! The program's memory, as posted pieces name it.

use core::ptr;

/// The whole of this process's memory. The engine reaches only into what pieces name that are posted and have not ended.
pub(crate) struct Program(());

impl Program {
    /// # Safety
    /// What an engine is lent this for knows no pieces but those that were posted by `Station::post_send` and
    /// `Station::post_receive`, whose callers promise that the memory is there.
    pub(crate) unsafe fn new() -> Program {
        Program(())
    }
}

impl sovia_emp::Memory for Program {
    fn read(&self, address: u64, into: &mut [u8]) {
        // SAFETY: `new`'s contract: the piece is posted, so its memory is valid for reads. The room is the port's own or the
        // engine's, which no piece may name. A program that writes there meanwhile sends bytes of no particular value.
        unsafe {
            ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len());
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        // SAFETY: as above, for writes; the program holds no reference there until the receive has ended.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len());
        }
    }
}
