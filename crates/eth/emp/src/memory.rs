//! Access to the program's memory.

use core::ptr;

/// All memory of this process. The engine accesses only pieces of posts that have not ended.
pub(crate) struct Program(());

impl Program {
    /// # Safety
    /// The engine that borrows this value must know only pieces from `Station::post_send` and `Station::post_receive`.
    /// The callers of these functions promise that the memory is valid.
    pub(crate) unsafe fn new() -> Program {
        Program(())
    }
}

impl sovia_emp::Memory for Program {
    fn read(&self, address: u64, into: &mut [u8]) {
        // SAFETY: by the contract of `new`, the piece belongs to a current post, so its memory is valid for reads.
        // `into` belongs to the port or the engine, so no piece overlaps it. If the program writes meanwhile, the sent
        // bytes are unspecified.
        unsafe {
            ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len());
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        // SAFETY: by the contract of `new`, the piece belongs to a current receive, so its memory is valid for writes.
        // The program holds no reference to the memory until the receive has ended.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len());
        }
    }
}
