//! Test bytes that depend on their position in the stream.

use super::LONG;
use sovia_stream::{Stream, TransferError};
use via::Nic;

/// Returns byte `at` of stream number `stream`.
pub(crate) fn byte(stream: u8, at: usize) -> u8 {
    (at % 251) as u8 ^ stream ^ (at >> 12) as u8
}

pub(crate) fn bytes(stream: u8, from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| byte(stream, at)).collect()
}

/// Sizes near limits: inline sizes, thresholds, pages and chunks.
pub(crate) const SIZES: [usize; 16] =
    [1, 4, 47, 48, 49, 112, 113, 999, 1000, 2047, 2048, 2049, 4096, 32768, 32769, 70_000];

/// Writes bytes `from..to` in pieces of varying sizes.
pub(crate) fn write<N: Nic + 'static>(end: &Stream<N>, stream: u8, from: usize, to: usize) {
    let mut at = from;
    for n in 0usize.. {
        if at == to {
            return;
        }
        let len = SIZES[n * 7 % SIZES.len()].min(to - at);
        let piece = bytes(stream, at, len);
        assert_eq!(end.write(&piece).unwrap(), len);
        at += len;
    }
}

/// Reads and checks bytes `from..to`, in pieces of varying sizes.
#[track_caller]
pub(crate) fn read<N: Nic + 'static>(end: &Stream<N>, stream: u8, from: usize, to: usize) {
    let mut at = from;
    let mut out = vec![0; 40_000];
    for n in 0usize.. {
        if at == to {
            return;
        }
        let len = SIZES[n * 5 % SIZES.len()].min(to - at).min(out.len());
        let got = end.read_within(&mut out[..len], LONG).unwrap();
        assert!(got > 0, "the stream ends at byte {at} of {to}");
        let wrong = (0..got).find(|&i| out[i] != byte(stream, at + i));
        assert_eq!(wrong.map(|i| at + i), None, "this byte is wrong, of {got} from {at} on");
        at += got;
    }
}

/// Checks that the stream is at its end.
#[track_caller]
pub(crate) fn at_end<N: Nic + 'static>(end: &Stream<N>) {
    assert_eq!(end.read_within(&mut [0; 10], LONG), Ok(0));
}

/// Waits for one byte from the other role, as a signal.
#[track_caller]
pub(crate) fn hear<N: Nic + 'static>(end: &Stream<N>) {
    assert_eq!(end.read_within(&mut [0], LONG), Ok(1));
}

/// Sends one byte to the other role, as a signal.
#[track_caller]
pub(crate) fn say<N: Nic + 'static>(end: &Stream<N>) {
    assert_eq!(end.write(b"!"), Ok(1));
    end.flush();
}

/// Writes until the connection is lost.
#[track_caller]
pub(crate) fn write_until_lost<N: Nic + 'static>(end: &Stream<N>) -> TransferError {
    let begin = std::time::Instant::now();
    while begin.elapsed() < LONG {
        match end.write_within(&[0; 100], LONG) {
            Ok(_) => std::thread::sleep(std::time::Duration::from_micros(100)),
            Err(error) => return error,
        }
    }
    panic!("the connection is never lost");
}
