//! One end of a connection over any layer, with the operations that the scenarios need.

pub(super) mod bytes;
pub(super) mod eventfd;
pub(super) mod native;
pub(super) mod netpipe;
pub(super) mod region;
pub(super) mod slots;
pub(super) mod socket;
pub(super) mod sovia;
pub(super) mod tcp;
pub(super) mod unix;
pub(super) mod via;

use std::io;

/// One end of a connection.
pub(super) trait Link {
    /// Sends all of `data`.
    fn send(&mut self, data: &[u8]) -> io::Result<()>;

    /// Sends bytes that the layer holds back to combine them with later ones.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Receives at least one byte and at most `data.len()` bytes. Returns the number of bytes. The end of the
    /// connection is an error.
    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize>;

    /// Receives `data.len()` bytes.
    fn receive_all(&mut self, mut data: &mut [u8]) -> io::Result<()> {
        while !data.is_empty() {
            let len = self.receive(data)?;
            data = &mut data[len..];
        }
        Ok(())
    }
}

/// Spins until `ready` returns a value.
fn spin<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    loop {
        // The other end answers within some hundred rounds, unless its process does not run.
        for _ in 0..1 << 16 {
            if let Some(value) = ready() {
                return value;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}
