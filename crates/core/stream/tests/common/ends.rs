//! Cases about beginnings and ends of streams.

use super::pattern::{at_end, bytes, hear, read, say, write, write_until_lost};
use super::{Case, Context, LONG};
use sovia_stream::{Reset, State, Stream, TransferError};
use std::net::Shutdown;
use std::thread::sleep;
use std::time::{Duration, Instant};
use via::Nic;

pub(crate) fn cases<N: Nic + 'static>() -> Vec<Case<N>> {
    vec![
        Case {
            name: "a listener accepts while its program is busy",
            server: |cx| {
                let listener = cx.listen();
                sleep(Duration::from_millis(200));
                let (end, _) = listener.accept_within(LONG).unwrap();
                read(&end, 1, 0, 10);
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                write(&end, 1, 0, 10);
                end.flush();
                hear(&end);
            },
        },
        Case {
            name: "either half closes by itself",
            server: |cx| {
                let end = cx.accept();
                read(&end, 1, 0, 100_000);
                at_end(&end);
                assert_eq!(end.state(), State::CloseWait);
                write(&end, 2, 0, 100_000);
            },
            client: |cx| {
                let end = cx.connect();
                write(&end, 1, 0, 100_000);
                end.shutdown(Shutdown::Write).unwrap();
                assert_eq!(end.write(b"x"), Err(TransferError::Shut));
                read(&end, 2, 0, 100_000);
                at_end(&end);
            },
        },
        Case {
            name: "a read that waits ends with its half, whatever the peer has leave for",
            server: |cx| {
                let end = cx.accept();
                std::thread::scope(|s| {
                    let reader = s.spawn(|| {
                        let mut out = vec![7; 5000];
                        (end.read(&mut out), out.iter().all(|&byte| byte == 7))
                    });
                    // The peer has asked for permission, and makes no call before the signal.
                    sleep(Duration::from_millis(20));
                    end.shutdown(Shutdown::Read).unwrap();
                    assert_eq!(reader.join().unwrap(), (Ok(0), true));
                });
                say(&end);
            },
            client: |cx| {
                let end = cx.connect();
                if cx.configuration.handshake.asks() {
                    assert_eq!(end.try_write(&[9; 3000]), Err(TransferError::WouldBlock));
                }
                hear(&end);
                // The earlier request now has permission. The stream drops the bytes.
                let _ = end.try_write(&[9; 3000]);
            },
        },
        Case {
            name: "both close at once",
            server: |cx| both_close(cx, &cx.accept(), [2, 1]),
            client: |cx| both_close(cx, &cx.connect(), [1, 2]),
        },
        Case {
            name: "close returns at once and what was written arrives",
            server: |cx| {
                let listener = cx.listen();
                let (end, _) = listener.accept_within(LONG).unwrap();
                // The first stream has closed, and the server has not read from it.
                hear(&listener.accept_within(LONG).unwrap().0);
                let three = cx.configuration.handshake.asks();
                let len = if three { 0 } else { 300 };
                read(&end, 1, 0, len);
                at_end(&end);
            },
            client: |cx| {
                let end = cx.connect();
                // Writes only one message, because without flow control a second write waits until the first message is
                // read. With the three-way handshake even the first write waits.
                if !cx.configuration.handshake.asks() {
                    assert_eq!(end.write(&bytes(1, 0, 300)), Ok(300));
                }
                let begin = Instant::now();
                end.close();
                assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
                say(&cx.connect());
            },
        },
        Case {
            name: "bytes that the window holds back outlive the close",
            server: |cx| {
                let listener = cx.listen();
                let (end, _) = listener.accept_within(LONG).unwrap();
                sleep(Duration::from_millis(50));
                let mut out = vec![0; 1 << 20];
                let mut all = 0;
                loop {
                    match end.read_within(&mut out, LONG).unwrap() {
                        0 => break,
                        got => {
                            assert_eq!(out[..got], bytes(5, all, got));
                            all += got;
                        }
                    }
                }
                assert!(all >= 100, "{all}");
                say(&listener.accept_within(LONG).unwrap().0);
            },
            client: |cx| {
                let end = cx.connect();
                let mut all = 0;
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(30) || all == 0 {
                    match end.try_write(&bytes(5, all, 1000)) {
                        Ok(written) => all += written,
                        Err(TransferError::WouldBlock) => sleep(Duration::from_millis(1)),
                        Err(error) => panic!("{error}"),
                    }
                    if all > 2_000_000 {
                        break;
                    }
                }
                end.close();
                // The process must not exit before the close thread has sent all bytes.
                hear(&cx.connect());
            },
        },
        Case {
            name: "a peer that gives up resets the connection",
            server: |cx| {
                let end = cx.accept();
                hear(&end);
                end.abort();
            },
            client: |cx| {
                let end = cx.connect();
                say(&end);
                let error = end.read_within(&mut [0; 10], LONG).unwrap_err();
                assert_eq!(error, TransferError::Reset(Reset::PeerClosed));
                assert!(matches!(end.write(b"x"), Err(TransferError::Reset(_))));
                assert_eq!(end.state(), State::Reset);
            },
        },
        Case {
            name: "writing to a peer that has closed ends in a reset",
            server: |cx| {
                let end = cx.accept();
                hear(&end);
                end.close();
            },
            client: |cx| {
                let end = cx.connect();
                say(&end);
                let error = write_until_lost(&end);
                assert!(matches!(error, TransferError::Reset(_)), "{error}");
                at_end(&end);
            },
        },
        Case {
            name: "combined bytes go when their time is over, or combining is switched off",
            server: |cx| {
                let end = cx.accept();
                for n in 0..3 {
                    read(&end, n, 0, 20);
                    say(&end);
                }
                at_end(&end);
            },
            client: |cx| {
                let end = cx.connect();
                // Poll for the answer, because a waiting read would flush.
                let poll = || {
                    let begin = Instant::now();
                    while end.readable() == 0 {
                        assert!(begin.elapsed() < LONG);
                        sleep(Duration::from_micros(100));
                    }
                };
                let three = cx.configuration.handshake.asks();
                for n in 0..3 {
                    assert_eq!(end.write(&bytes(n, 0, 20)), Ok(20));
                    match n {
                        0 => {}
                        1 => end.flush(),
                        _ => end.set_combining(false),
                    }
                    if !three {
                        poll();
                    }
                    hear(&end);
                }
            },
        },
    ]
}

/// Both ends send one message and close at once. With the three-way handshake no end can send before the other one
/// reads.
fn both_close<N: Nic + 'static>(cx: &Context<N>, end: &Stream<N>, [mine, theirs]: [u8; 2]) {
    let three = cx.configuration.handshake.asks();
    let len = if three { 0 } else { 500 };
    if !three {
        assert_eq!(end.write(&bytes(mine, 0, len)), Ok(len));
    }
    end.shutdown(Shutdown::Write).unwrap();
    read(end, theirs, 0, len);
    at_end(end);
}
