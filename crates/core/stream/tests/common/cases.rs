//! Cases about bytes and calls.

use super::pattern::{SIZES, at_end, byte, bytes, hear, read, say, write};
use super::{Case, LONG};
use sovia_stream::TransferError;
use std::net::Shutdown;
use std::time::{Duration, Instant};
use via::Nic;

/// Bytes of a long stream.
const MANY: usize = 1_500_000;

pub(crate) fn cases<N: Nic + 'static>() -> Vec<Case<N>> {
    let mut all = vec![
        Case {
            name: "messages of every size are answered",
            server: |cx| {
                let end = cx.accept();
                for size in SIZES {
                    read(&end, 1, 0, size);
                    assert_eq!(end.write(&bytes(2, 0, size)), Ok(size));
                }
                at_end(&end);
            },
            client: |cx| {
                let end = cx.connect();
                for size in SIZES {
                    assert_eq!(end.write(&bytes(1, 0, size)), Ok(size));
                    read(&end, 2, 0, size);
                }
            },
        },
        Case {
            name: "many bytes arrive in order",
            server: |cx| {
                let end = cx.accept();
                read(&end, 1, 0, MANY);
                at_end(&end);
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                write(&end, 1, 0, MANY);
                end.shutdown(Shutdown::Write).unwrap();
                hear(&end);
            },
        },
        Case {
            name: "both ways at once, by two threads at each end",
            server: |cx| {
                let end = cx.accept();
                std::thread::scope(|s| {
                    s.spawn(|| write(&end, 2, 0, MANY));
                    read(&end, 1, 0, MANY);
                });
                hear(&end);
            },
            client: |cx| {
                let end = cx.connect();
                std::thread::scope(|s| {
                    s.spawn(|| write(&end, 1, 0, MANY));
                    read(&end, 2, 0, MANY);
                });
                say(&end);
            },
        },
        Case {
            name: "several threads write to one stream",
            server: |cx| {
                let end = cx.accept();
                let (mut counts, mut out) = ([0; 4], [0; 1000]);
                loop {
                    let got = end.read_within(&mut out, LONG).unwrap();
                    if got == 0 {
                        break;
                    }
                    out[..got].iter().for_each(|&value| counts[usize::from(value)] += 1);
                }
                assert_eq!(counts, [20_000; 4]);
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                std::thread::scope(|s| {
                    for value in 0..4 {
                        let end = &end;
                        s.spawn(move || {
                            for _ in 0..200 {
                                assert_eq!(end.write(&[value; 100]), Ok(100));
                            }
                        });
                    }
                });
                end.shutdown(Shutdown::Write).unwrap();
                hear(&end);
            },
        },
        Case {
            name: "a read that waits gets what its buffer has room for",
            server: |cx| {
                let end = cx.accept();
                say(&end);
                // Reads of more bytes than any write has, of fewer, and of as many.
                let (mut all, mut round) = (0, 0);
                while all < MANY {
                    let mut out = vec![0xee; [70_000, 100, 4096, 1, 3000][round % 5]];
                    let got = end.read(&mut out).unwrap();
                    assert!((1..=out.len()).contains(&got));
                    assert!((0..got).all(|i| out[i] == byte(9, all + i)), "from {all} on");
                    assert!(out[got..].iter().all(|&left| left == 0xee), "beyond {got} bytes");
                    (all, round) = (all + got, round + 1);
                }
                assert_eq!(end.read(&mut [0; 5000]), Ok(0));
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                hear(&end);
                let (mut all, mut round) = (0, 0);
                while all < MANY {
                    let len = [1, 5000, 40_000, 300][round % 4].min(MANY - all);
                    assert_eq!(end.write(&bytes(9, all, len)), Ok(len));
                    (all, round) = (all + len, round + 1);
                }
                end.shutdown(Shutdown::Write).unwrap();
                hear(&end);
            },
        },
        Case {
            name: "several threads read from one stream",
            server: |cx| {
                let end = cx.accept();
                let counts = std::thread::scope(|s| {
                    let reader = |limit: usize| {
                        let mut counts = [0usize; 4];
                        let mut out = vec![0; limit];
                        loop {
                            // Some reads wait without limit, others time out.
                            let got = match limit % 2 {
                                0 => end.read(&mut out).unwrap(),
                                _ => end.read_within(&mut out, LONG).unwrap(),
                            };
                            if got == 0 {
                                return counts;
                            }
                            out[..got].iter().for_each(|&value| counts[usize::from(value)] += 1);
                        }
                    };
                    let threads = [5000, 4001, 3000, 7].map(|limit| s.spawn(move || reader(limit)));
                    threads.into_iter().fold([0; 4], |sum, thread| {
                        let counts = thread.join().unwrap();
                        core::array::from_fn(|i| sum[i] + counts[i])
                    })
                });
                assert_eq!(counts, [100_000; 4]);
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                for round in 0..100 {
                    for value in 0..4 {
                        let len = if round % 2 == 0 { 1900 } else { 100 };
                        assert_eq!(end.write(&vec![value; len]), Ok(len));
                    }
                }
                end.shutdown(Shutdown::Write).unwrap();
                hear(&end);
            },
        },
        Case {
            name: "a call that may not wait does not",
            server: |cx| {
                let end = cx.accept();
                hear(&end);
                assert_eq!(end.try_read(&mut [0]), Err(TransferError::WouldBlock));
                say(&end);
                // Give the client time to fill the window.
                std::thread::sleep(Duration::from_millis(20));
                let (mut all, mut out) = (0, [0; 5000]);
                loop {
                    match end.read_within(&mut out, LONG).unwrap() {
                        0 => break,
                        got => {
                            assert!((0..got).all(|i| out[i] == byte(7, all + i)));
                            all += got;
                        }
                    }
                }
                assert_eq!(end.write(&(all as u64).to_le_bytes()), Ok(8));
                end.flush();
                at_end(&end);
            },
            client: |cx| {
                let end = cx.connect();
                say(&end);
                hear(&end);
                let (mut all, mut full) = (0, 0);
                let begin = Instant::now();
                while full < 100 && begin.elapsed() < LONG {
                    match end.try_write(&bytes(7, all, 3000)) {
                        Ok(written) => all += written,
                        Err(TransferError::WouldBlock) => {
                            full += 1;
                            std::thread::sleep(Duration::from_micros(500));
                        }
                        Err(error) => panic!("{error}"),
                    }
                    if all > 3_000_000 {
                        break;
                    }
                }
                end.shutdown(Shutdown::Write).unwrap();
                let mut count = [0; 8];
                let mut got = 0;
                while got < 8 {
                    got += end.read_within(&mut count[got..], LONG).unwrap();
                }
                assert_eq!(u64::from_le_bytes(count), all as u64);
            },
        },
        Case {
            name: "time runs out",
            server: |cx| {
                let end = cx.accept();
                hear(&end);
                say(&end);
                at_end(&end);
            },
            client: |cx| {
                let end = cx.connect();
                let begin = Instant::now();
                let soon = Duration::from_millis(30);
                assert_eq!(end.read_within(&mut [0], soon), Err(TransferError::TimedOut));
                let waited = begin.elapsed();
                assert!(waited >= soon && waited < Duration::from_secs(5), "{waited:?}");
                say(&end);
                hear(&end);
            },
        },
        Case {
            name: "lent buffers travel whole and come back",
            server: |cx| {
                let end = cx.accept();
                let mut at = 0;
                while let Some(packet) = end.borrow().unwrap() {
                    let right = packet.iter().enumerate().all(|(i, &v)| v == byte(3, at + i));
                    assert!(right, "from {at} on");
                    at += packet.len();
                }
                assert_eq!(at, 100 * 900);
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                let mut free: Vec<_> = (0..4).map(|_| cx.stack.buffer(900).unwrap()).collect();
                for n in 0..100 {
                    let mut buffer = match free.pop() {
                        Some(buffer) => buffer,
                        None => end.reclaim().unwrap(),
                    };
                    buffer.copy_from_slice(&bytes(3, n * 900, 900));
                    end.lend(buffer, 900).unwrap();
                }
                for _ in free.len()..4 {
                    assert_eq!(end.reclaim().unwrap().len(), 900);
                }
                assert!(end.reclaim().is_none());
                let long = cx.stack.buffer(1 << 20).unwrap();
                let (_, error) = end.lend(long, 1 << 20).unwrap_err();
                assert!(matches!(error, TransferError::TooLong { .. }), "{error}");
                end.shutdown(Shutdown::Write).unwrap();
                hear(&end);
            },
        },
    ];
    all.extend(super::ends::cases());
    all
}
