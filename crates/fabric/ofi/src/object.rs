//! libfabric's objects, which are closed when they are dropped.

use core::ptr::NonNull;
use sovia_fi_types::{Fid, FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr};

/// A structure that begins with a `struct fid`.
///
/// # Safety
/// The first field of the type must be a `struct fid`, and the type must have C's layout.
pub(crate) unsafe trait HasFid {}

// SAFETY: the type is `repr(C)`, and its first field is a `Fid`.
unsafe impl HasFid for FidFabric {}
// SAFETY: the type is `repr(C)`, and its first field is a `Fid`.
unsafe impl HasFid for FidDomain {}
// SAFETY: the type is `repr(C)`, and its first field is a `Fid`.
unsafe impl HasFid for FidAv {}
// SAFETY: the type is `repr(C)`, and its first field is a `Fid`.
unsafe impl HasFid for FidCq {}
// SAFETY: the type is `repr(C)`, and its first field is a `Fid`.
unsafe impl HasFid for FidEp {}
// SAFETY: the type is `repr(C)`, and its first field is a `Fid`.
unsafe impl HasFid for FidMr {}

/// An open object. Drop it before the objects from which it was made.
#[derive(Debug)]
pub(crate) struct Object<T: HasFid>(NonNull<T>);

// SAFETY: the domain is opened for use by one thread at a time, and this thread may change.
unsafe impl<T: HasFid> Send for Object<T> {}

impl<T: HasFid> Object<T> {
    /// Takes ownership of an object that a function of libfabric has made; `None` for null.
    ///
    /// # Safety
    /// The object must be open, and no other code may close it.
    pub(crate) unsafe fn new(object: *mut T) -> Option<Object<T>> {
        NonNull::new(object).map(Object)
    }

    /// Returns the pointer for a call.
    pub(crate) fn raw(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Returns the pointer to the object's first field.
    pub(crate) fn fid(&self) -> *mut Fid {
        self.0.as_ptr().cast()
    }
}

impl<T: HasFid> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: `new`'s caller promises that the object is open and that no other code closes it.
        unsafe { ((*(*self.fid()).ops).close)(self.fid()) };
    }
}
