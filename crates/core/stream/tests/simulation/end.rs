//! A program at one end of a stream.

use super::choices::Choices;
use sovia_stream::{Reset, State, Stream, TransferError};
use std::net::Shutdown;
use via_sim::SimNic;

fn byte(stream: u8, at: u64) -> u8 {
    (at as u8).wrapping_mul(29) ^ (at >> 8) as u8 ^ stream
}

/// One end, and the state of its program.
#[derive(Debug)]
pub(crate) struct End {
    /// The stream; `None` after the program has closed it.
    pub(crate) stream: Option<Stream<SimNic>>,
    /// Numbers of the stream that the program writes, and of the stream that it reads.
    names: [u8; 2],
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) shut: bool,
    pub(crate) ended: bool,
    /// Set once the connection is lost.
    pub(crate) lost: Option<Reset>,
    /// Set if the program will not read to the end, because it has closed the stream or its receiving half.
    pub(crate) deaf: bool,
}

impl End {
    pub(crate) fn new(stream: Stream<SimNic>, names: [u8; 2]) -> End {
        End {
            stream: Some(stream),
            names,
            written: 0,
            read: 0,
            shut: false,
            ended: false,
            lost: None,
            deaf: false,
        }
    }

    /// Returns true if the connection is lost, even if the program has not received the error.
    pub(crate) fn is_lost(&self) -> bool {
        let reset = |stream: &Stream<SimNic>| stream.state() == State::Reset;
        // A program that has closed its stream receives no error, so count the connection as lost.
        self.lost.is_some() || self.stream.as_ref().is_none_or(reset)
    }

    fn failed(&mut self, error: TransferError) {
        match error {
            TransferError::WouldBlock => {}
            TransferError::Shut => assert!(self.shut),
            TransferError::Reset(reset) => self.lost = Some(reset),
            error => panic!("{error}"),
        }
    }

    /// Writes up to `len` bytes. Returns the number of written bytes.
    pub(crate) fn write(&mut self, len: usize) -> usize {
        let Some(stream) = &self.stream else { return 0 };
        let bytes = (self.written..).map(|at| byte(self.names[0], at)).take(len);
        match stream.try_write(&bytes.collect::<Vec<_>>()) {
            Ok(written) => {
                assert!(!self.shut && (1..=len).contains(&written));
                self.written += written as u64;
                written
            }
            Err(error) => {
                self.failed(error);
                0
            }
        }
    }

    fn check(&mut self, bytes: &[u8]) {
        for &value in bytes {
            assert_eq!(value, byte(self.names[1], self.read), "byte {}", self.read);
            self.read += 1;
        }
    }

    /// Reads up to `len` bytes. Returns the number of bytes read.
    pub(crate) fn read(&mut self, len: usize) -> usize {
        let Some(stream) = &self.stream else { return 0 };
        let mut out = vec![0; len];
        match stream.try_read(&mut out) {
            Ok(0) => self.ended = true,
            Ok(got) => {
                assert!(!self.ended, "bytes behind the end");
                self.check(&out[..got]);
                return got;
            }
            Err(error) => self.failed(error),
        }
        0
    }

    /// Borrows a packet and gives it back.
    fn borrow(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        match stream.try_borrow() {
            Ok(Some(packet)) => self.check(&packet),
            Ok(None) => self.ended = true,
            Err(error) => self.failed(error),
        }
        self.stream = Some(stream);
    }

    pub(crate) fn shutdown(&mut self) {
        if let Some(stream) = &self.stream {
            stream.shutdown(Shutdown::Write).unwrap();
            self.shut = true;
        }
    }

    /// Does a random action of a program.
    pub(crate) fn act(&mut self, choices: &mut Choices) {
        match choices.below(24) {
            0..9 => drop(self.write(choices.length())),
            9..16 => drop(self.read(choices.length())),
            16..18 => self.borrow(),
            18 => {
                if let Some(stream) = &self.stream {
                    stream.flush();
                }
            }
            19 => {
                if let Some(stream) = &self.stream {
                    stream.set_combining(choices.once_in(2));
                }
            }
            20 if choices.once_in(8) => self.shutdown(),
            21 if choices.once_in(12) => {
                if let Some(stream) = self.stream.take() {
                    self.deaf = true;
                    self.shut = true;
                    if choices.once_in(3) {
                        // After an abort the written bytes need not arrive.
                        self.lost = Some(Reset::Aborted);
                        stream.abort();
                    }
                }
            }
            22 if choices.once_in(12) => {
                if let Some(stream) = &self.stream {
                    stream.shutdown(Shutdown::Read).unwrap();
                    self.deaf = true;
                }
            }
            _ => {}
        }
    }
}
