//! The trait of all ports.

use crate::Address;
use sovia_sys::Errno;
use sovia_sys::call::RawFd;

/// Sends and receives frames. No call blocks.
///
/// Sending takes three steps. [`slot`](Port::slot) lends memory in the port's buffer, where the caller writes the
/// frame. [`commit`](Port::commit) sets length and destination. [`flush`](Port::flush) hands all committed frames to
/// the kernel, in as few system calls as possible. The port hands over committed frames in order, or counts them in
/// [`Counters`].
///
/// An owner that sleeps polls the [`descriptors`](Port::descriptors). An owner that spins calls [`check`](Port::check)
/// from time to time.
pub trait Port {
    /// Returns the current maximum length of a frame. The length depends on the MTU, and changes only in
    /// [`check`](Port::check) and [`flush`](Port::flush).
    fn frame_max(&self) -> usize;

    /// Lends memory for the next frame: [`frame_max`](Port::frame_max) bytes with any contents. Returns `None` while
    /// the port is full. Then [`flush`](Port::flush) makes room, at once or when the descriptor is writable. A slot
    /// that is not committed is lent again.
    fn slot(&mut self) -> Option<&mut [u8]>;

    /// Adds the first `len` bytes of the slot as a frame for `to`.
    ///
    /// # Errors
    /// Returns [`Refused`]. The port then counts the frame and drops it.
    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused>;

    /// Hands committed frames to the kernel, and returns the number of frames for which the kernel had no room. These
    /// frames stay in the port. The descriptor is writable when the kernel has room.
    ///
    /// # Errors
    /// Returns an [`Error`]. The port keeps the frames that it still holds.
    fn flush(&mut self) -> Result<usize, Error>;

    /// Passes arrived frames to `take`, with their senders' addresses, and returns their number. One call passes a
    /// limited number of frames. The bytes are lent for the duration of the call. A port with several queues may look
    /// only at the busiest queue in most calls. The descriptor is readable while any queue has frames.
    ///
    /// # Errors
    /// Returns an [`Error`].
    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error>;

    /// Like [`receive`](Port::receive), for an owner that handles joined frames together. `take` gets consecutive
    /// frames and their length. The last frame may be shorter.
    ///
    /// # Errors
    /// Returns an [`Error`].
    fn receive_joined(
        &mut self,
        take: &mut dyn FnMut(&Address, &[u8], usize),
    ) -> Result<usize, Error> {
        self.receive(&mut |from, frame| take(from, frame, frame.len()))
    }

    /// Notes that the owner has slept on the descriptors, and does not know which queue has frames. The next
    /// [`receive`](Port::receive) looks at all queues.
    fn slept(&mut self) {}

    /// Checks that the device exists, and reads its MTU. Call it when [`Descriptors::news`] is readable.
    ///
    /// # Errors
    /// Returns an [`Error`].
    fn check(&mut self) -> Result<(), Error>;

    /// Returns the descriptors to poll.
    fn descriptors(&self) -> Descriptors;

    /// Returns the counters since the port was opened.
    fn counters(&mut self) -> Counters;

    /// Returns a description of the mode in use, for users.
    fn describe(&self) -> String;

    /// Prepares for sleep on the [`descriptors`](Port::descriptors): from now on, arriving frames make them readable.
    /// Returns false if the caller must first look for frames once more.
    fn about_to_sleep(&mut self) -> bool {
        true
    }

    /// Starts or stops listening for connections at a discriminator of this port's address. If several ports share an
    /// address, the first one to listen at a discriminator owns it.
    fn listen(&mut self, discriminator: &[u8], listens: Listens) {
        let _ = (discriminator, listens);
    }

    /// Returns the first 16 bits of the names of all ends on this port, if the port shares its address with other
    /// ports. Frames to the port's own address then go through the port as well.
    fn prefix(&self) -> Option<u16> {
        None
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn frame_max(&self) -> usize {
        (**self).frame_max()
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        (**self).slot()
    }

    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused> {
        (**self).commit(len, to)
    }

    fn flush(&mut self) -> Result<usize, Error> {
        (**self).flush()
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        (**self).receive(take)
    }

    fn receive_joined(
        &mut self,
        take: &mut dyn FnMut(&Address, &[u8], usize),
    ) -> Result<usize, Error> {
        (**self).receive_joined(take)
    }

    fn slept(&mut self) {
        (**self).slept();
    }

    fn check(&mut self) -> Result<(), Error> {
        (**self).check()
    }

    fn descriptors(&self) -> Descriptors {
        (**self).descriptors()
    }

    fn counters(&mut self) -> Counters {
        (**self).counters()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn about_to_sleep(&mut self) -> bool {
        (**self).about_to_sleep()
    }

    fn listen(&mut self, discriminator: &[u8], listens: Listens) {
        (**self).listen(discriminator, listens);
    }

    fn prefix(&self) -> Option<u16> {
        (**self).prefix()
    }
}

/// State of a port's listening at a discriminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// The port listens.
    Now,
    /// The port does not listen, but may listen again soon.
    Again,
    /// The port does not listen any more.
    Never,
}

/// The descriptors of a port, valid while the port exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Readable when frames have arrived.
    pub frames: RawFd,
    /// Writable when more frames fit. Most ports use the descriptor of `frames`.
    pub room: RawFd,
    /// Readable when the device may have changed; `None` for a port without a device.
    pub news: Option<RawFd>,
}

/// Counters of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames that the kernel has taken.
    pub sent: u64,
    /// Frames passed to the owner.
    pub received: u64,
    /// Committed frames that the kernel has refused for a reason other than a full queue.
    pub unsendable: u64,
    /// The last such reason.
    pub why_unsendable: Option<Errno>,
    /// Frames that [`Port::commit`] refused because they were too long.
    pub refused_length: u64,
    /// Frames that [`Port::commit`] refused because the address was of another kind.
    pub refused_address: u64,
    /// Frames that [`Port::commit`] refused because no slot was lent.
    pub refused_full: u64,
    /// Incoming frames that the kernel dropped because the port's queue was full. Joined frames count once.
    pub missed: u64,
    /// Received frames for another address.
    pub foreign: u64,
    /// Received frames that were truncated, too short, or outside the memory for frames.
    pub malformed: u64,
}

/// Reason why a port refuses a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The frame is longer than [`Port::frame_max`].
    #[error("the frame is longer than the MTU allows")]
    Length,
    /// The address is of another kind than the port's address.
    #[error("the address is not of the kind that this port uses")]
    Address,
    /// No slot was lent.
    #[error("the port is full")]
    Full,
}

/// Reason why a port does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The device no longer exists, so the port is useless.
    #[error("the network device is gone")]
    Gone,
    /// The device is down. The port works again when the device is up.
    #[error("the network device is down")]
    Down,
    /// The kernel refused a call for another reason.
    #[error("the kernel refused a call of the port: {}", sovia_sys::described(*.0))]
    Kernel(Errno),
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        match errno {
            Errno::ENODEV | Errno::ENXIO => Error::Gone,
            Errno::ENETDOWN => Error::Down,
            errno => Error::Kernel(errno),
        }
    }
}

/// Reason why a port cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot open the port: {what}: {}", sovia_sys::described(*.why))]
pub struct OpenError {
    /// The step that failed.
    pub what: &'static str,
    /// The kernel's error.
    pub why: Errno,
}

/// Adds the name of a step to the kernel's errors.
pub(crate) trait Step<T> {
    /// Returns an [`OpenError`] with the name of the step, if the step has failed.
    fn step(self, what: &'static str) -> Result<T, OpenError>;
}

impl<T> Step<T> for sovia_sys::Result<T> {
    fn step(self, what: &'static str) -> Result<T, OpenError> {
        self.map_err(|why| OpenError { what, why })
    }
}
