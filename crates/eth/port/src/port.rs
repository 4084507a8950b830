//! What every port does.

use crate::Address;
use sovia_sys::Errno;
use sovia_sys::call::RawFd;

/// A way for frames. No call blocks.
///
/// A frame is sent in three steps: [`slot`](Port::slot) lends room in the port's own buffer, in which the caller
/// writes the frame; [`commit`](Port::commit) says its length and destination; [`flush`](Port::flush) hands all committed
/// frames to the kernel, in as few system calls as there can be. What has been committed is handed over in that order,
/// or counted in [`Counters`].
///
/// The owner of a port that waits for news polls [`descriptors`](Port::descriptors). One that spins calls
/// [`check`](Port::check) now and then.
pub trait Port {
    /// Bytes that a frame may have now. It changes with the MTU, in [`check`](Port::check) and in [`flush`](Port::flush)
    /// only.
    fn frame_max(&self) -> usize;

    /// Room for the next frame, [`frame_max`](Port::frame_max) bytes with any content. `None` while the port is full: then
    /// [`flush`](Port::flush) makes room, at once or when the descriptor is writable. Room that is not committed is lent
    /// again.
    fn slot(&mut self) -> Option<&mut [u8]>;

    /// Takes the first `len` bytes of the slot as a frame for `to`.
    ///
    /// # Errors
    /// [`Refused`], and the frame is counted and forgotten.
    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused>;

    /// Hands committed frames to the kernel, and gives how many it had no room for. These stay in the port, and the
    /// descriptor is writable when there is room for them.
    ///
    /// # Errors
    /// [`Error`]; no frame that the port still holds is forgotten.
    fn flush(&mut self) -> Result<usize, Error>;

    /// Hands frames that have come to `take`, with their senders' addresses, and gives how many: none if none are there,
    /// and not more than a bounded number in one call. The bytes are lent for the duration of the call. A port with several
    /// queues may look at the liveliest alone in most calls; the descriptor is readable while any of them has frames.
    ///
    /// # Errors
    /// [`Error`].
    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error>;

    /// As [`receive`](Port::receive), for an owner that takes together what the network has joined: frames one behind the other, each
    /// of the length that is told, but for the last one, which may be shorter.
    ///
    /// # Errors
    /// [`Error`].
    fn receive_joined(
        &mut self,
        take: &mut dyn FnMut(&Address, &[u8], usize),
    ) -> Result<usize, Error> {
        self.receive(&mut |from, frame| take(from, frame, frame.len()))
    }

    /// The owner has slept on the descriptors, and knows of no frame where it is: the next [`receive`](Port::receive) looks
    /// everywhere.
    fn slept(&mut self) {}

    /// Asks after the device: whether it is there, and its MTU. To be called when [`Descriptors::news`] is readable.
    ///
    /// # Errors
    /// [`Error`].
    fn check(&mut self) -> Result<(), Error>;

    /// What to poll.
    fn descriptors(&self) -> Descriptors;

    /// What has become of frames since the port was opened.
    fn counters(&mut self) -> Counters;

    /// The mode that is really in use, for people.
    fn describe(&self) -> String;

    /// A thread is about to sleep on [`descriptors`](Port::descriptors): from now on frames that come make them readable. False
    /// if it must look once more instead.
    fn about_to_sleep(&mut self) -> bool {
        true
    }

    /// Whether connections may be asked for at that discriminator of this port's address. Of ports that share an address the first
    /// that listens at one has it.
    fn listen(&mut self, discriminator: &[u8], listens: Listens) {
        let _ = (discriminator, listens);
    }

    /// The first 16 bits that names of ends have which send by this port, where it shares its address with other ports: frames
    /// to its own address go by the port as well.
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

/// Whether a port listens at a discriminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// It does.
    Now,
    /// It does not, and may do so again soon.
    Again,
    /// It does not any more.
    Never,
}

/// The descriptors of a port, valid as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Readable when frames have come.
    pub frames: RawFd,
    /// Writable when there is room for more frames; of most ports the same descriptor.
    pub room: RawFd,
    /// Readable when the device may have changed, of a port that has one.
    pub news: Option<RawFd>,
}

/// Numbers of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Taken by the kernel.
    pub sent: u64,
    /// Handed to the owner.
    pub received: u64,
    /// Committed, but not taken by the kernel, for a reason other than a full queue.
    pub unsendable: u64,
    /// The last such reason.
    pub why_unsendable: Option<Errno>,
    /// Refused by [`Port::commit`], since they were too long.
    pub refused_length: u64,
    /// Refused by [`Port::commit`], since the address is not of the port's kind.
    pub refused_address: u64,
    /// Refused by [`Port::commit`], since there was no slot.
    pub refused_full: u64,
    /// Lost by the kernel on their way in, since the port's queue was full. Frames that it has joined count once.
    pub missed: u64,
    /// Come, but for another address.
    pub foreign: u64,
    /// Come, but cut, too short to be frames, or outside the memory in which frames come.
    pub malformed: u64,
}

/// Why a port does not take a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is longer than [`Port::frame_max`].
    #[error("the frame is longer than the MTU allows")]
    Length,
    /// The address is not of the kind that the port has.
    #[error("the address is not of the kind that this port uses")]
    Address,
    /// No slot was lent.
    #[error("the port is full")]
    Full,
}

/// Why a port does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The device does not exist any more; the port is of no use.
    #[error("the network device is gone")]
    Gone,
    /// The device is down; the port works again when it is up.
    #[error("the network device is down")]
    Down,
    /// The kernel refuses for another reason.
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

/// Why a port cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot open the port: {what}: {}", sovia_sys::described(*.why))]
pub struct OpenError {
    /// The step that failed.
    pub what: &'static str,
    /// What the kernel says.
    pub why: Errno,
}

/// What the kernel says of a step of opening.
pub(crate) trait Step<T> {
    /// Names the step that has failed, if it has.
    fn step(self, what: &'static str) -> Result<T, OpenError>;
}

impl<T> Step<T> for sovia_sys::Result<T> {
    fn step(self, what: &'static str) -> Result<T, OpenError> {
        self.map_err(|why| OpenError { what, why })
    }
}
