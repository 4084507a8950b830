//! Where a lane's packets come from, and where they go.

use sovia_sys::Result;
use sovia_sys::tun::Tun;

/// A device whose packets a lane carries.
pub trait Device: Send + Sync + 'static {
    /// Waits for a packet that is to be sent, and copies it; its length.
    ///
    /// # Errors
    /// The device is gone for good: the lane ends.
    fn receive(&self, buffer: &mut [u8]) -> Result<usize>;

    /// Hands over a packet that has come.
    ///
    /// # Errors
    /// It is not taken, and the lane drops it.
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
