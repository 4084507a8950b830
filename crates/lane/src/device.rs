//! Source and destination of a lane's IP packets.

use sovia_sys::Result;
use sovia_sys::tun::Tun;

/// Device whose packets a lane carries.
pub trait Device: Send + Sync + 'static {
    /// Waits for an outgoing packet, copies it into `buffer` and returns its length.
    ///
    /// # Errors
    /// An error other than `EINTR` and `EAGAIN` ends the lane: the device is gone.
    fn receive(&self, buffer: &mut [u8]) -> Result<usize>;

    /// Delivers a packet received from a peer.
    ///
    /// # Errors
    /// The device refused the packet. The lane drops it.
    fn send(&self, packet: &[u8]) -> Result<()>;
}

impl Device for Tun {
    fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        Tun::receive(self, buffer)
    }

    fn send(&self, packet: &[u8]) -> Result<()> {
        Tun::send(self, packet)
    }
}
