//! libfabric's objects, which are closed when they are dropped.

use core::ptr::NonNull;
use sovia_fi_types::{Fid, FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr};

/// What begins with a `struct fid`.
///
/// # Safety
/// It does.
pub(crate) unsafe trait HasFid {}

// SAFETY: its first field is one, and it is laid out as C does.
unsafe impl HasFid for FidFabric {}
// SAFETY: as above.
unsafe impl HasFid for FidDomain {}
// SAFETY: as above.
unsafe impl HasFid for FidAv {}
// SAFETY: as above.
unsafe impl HasFid for FidCq {}
// SAFETY: as above.
unsafe impl HasFid for FidEp {}
// SAFETY: as above.
unsafe impl HasFid for FidMr {}

/// An open object. What it is made from is dropped after it.
#[derive(Debug)]
pub(crate) struct Object<T: HasFid>(NonNull<T>);

// SAFETY: the domain is opened for use by one thread at a time, which need not be the same one.
unsafe impl<T: HasFid> Send for Object<T> {}

impl<T: HasFid> Object<T> {
    /// An object that a function of libfabric's has made.
    ///
    /// # Safety
    /// It is open, and nothing else closes it.
    pub(crate) unsafe fn new(object: *mut T) -> Option<Object<T>> {
        NonNull::new(object).map(Object)
    }

    /// The object, for a call.
    pub(crate) fn raw(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Its beginning.
    pub(crate) fn fid(&self) -> *mut Fid {
        self.0.as_ptr().cast()
    }
}

impl<T: HasFid> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: it is open; `new`'s contract.
        unsafe { ((*(*self.fid()).ops).close)(self.fid()) };
    }
}
