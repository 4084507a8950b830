//! Compares the rings with a queue, and tests them against a process that writes anything.

use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;

const AT: Address = Address::Mac([2, 0, 0, 0, 0, 9]);

/// Returns the agent's ends and the program's ends.
fn rings(frame_max: usize) -> ((Consumer, Producer), (Producer, Consumer)) {
    let geometry = Geometry::of(frame_max).unwrap();
    let (consumer, producer, file) = make(geometry).unwrap();
    ((consumer, producer), attach(&file, geometry).unwrap())
}

fn bytes(dice: &mut ChaCha8Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    dice.fill_bytes(&mut bytes);
    bytes
}

#[test]
fn rings_are_queues() {
    for seed in 0..20 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let longest = 1 + dice.next_u32() as usize % 3000;
        let ((mut heard, mut told), (mut sent, mut came)) = rings(longest);
        // Starts shortly before the counters wrap.
        let start = 0u32.wrapping_sub(dice.next_u32() % 100);
        for (producer, consumer) in [(&mut sent, &mut heard), (&mut told, &mut came)] {
            (producer.next, producer.taken, consumer.next) = (start, start, start);
            consumer.ring.taken().store(start, Ordering::Relaxed);
            let mut queue = VecDeque::new();
            let count = consumer.ring.geometry().count as usize;
            // Writes the stamps of the lap before.
            for n in (1..=count as u32).map(|back| start.wrapping_sub(back)) {
                let slot = consumer.ring.slot(n);
                let stamp = u64::from(n.wrapping_add(1));
                consumer.ring.slot_word(slot, 0).store(stamp, Ordering::Relaxed);
            }
            for _ in 0..4000 {
                let leans = dice.next_u32() % 100 < 55;
                if leans {
                    let len = dice.next_u32() as usize % (longest + 1);
                    let frame = bytes(&mut dice, len);
                    let put = if dice.next_u32() % 2 == 0 {
                        producer.put(&AT, &frame).unwrap()
                    } else {
                        let slot = producer.slot().map(|slot| slot[..len].copy_from_slice(&frame));
                        assert_eq!(slot.is_some(), producer.commit(&AT, len));
                        slot.is_some()
                    };
                    assert_eq!(put, queue.len() < count);
                    if put {
                        queue.push_back(frame);
                    }
                } else if dice.next_u32() % 2 == 0 {
                    let mut frame = Vec::new();
                    let address = consumer.peek(&mut frame).unwrap();
                    assert_eq!(address.map(|at| (at, frame)), queue.pop_front().map(|f| (AT, f)));
                    if address.is_some() {
                        consumer.advance();
                    }
                } else {
                    let expected = queue.pop_front();
                    let lent =
                        consumer.lend(|_, frame| assert_eq!(Some(frame), expected.as_deref()));
                    assert_eq!(lent, Ok(expected.is_some()));
                }
                assert_eq!(consumer.is_empty(), queue.is_empty());
            }
        }
    }
}

#[test]
fn frame_longer_than_the_rings_are_for_is_refused() {
    let ((_, mut told), (mut sent, _)) = rings(100);
    assert_eq!(told.put(&AT, &[0; 101]), Ok(false));
    assert!(!sent.commit(&AT, 101));
}

/// Writes what a program can write: heads, addresses and counters.
#[test]
fn what_cannot_be_true_is_broken() {
    let ((heard, _), (sent, _)) = rings(100);
    let slot = sent.ring.slot(0);
    let head = |len: u64| sent.ring.slot_word(slot, 0).store(1 | len << 32, Ordering::Relaxed);
    let address = |words: [u64; 3]| {
        for (n, word) in words.into_iter().enumerate() {
            sent.ring.slot_word(slot, 1 + n).store(word, Ordering::Relaxed);
        }
    };
    let mut frame = Vec::new();
    address(AT.words());
    for len in [101, 1 << 16, u64::from(u32::MAX)] {
        head(len);
        assert_eq!(heard.peek(&mut frame), Err(Broken));
        assert!(!heard.is_empty(), "a thread that slept here would not find it out");
    }
    head(100);
    assert_eq!(heard.peek(&mut frame), Ok(Some(AT)));
    address([77, 0, 0]);
    assert_eq!(heard.peek(&mut frame), Err(Broken));

    let ((_, mut told), (_, came)) = rings(100);
    let count = told.ring.geometry().count;
    (0..count).for_each(|_| assert_eq!(told.put(&AT, b"frame"), Ok(true)));
    for taken in [u32::MAX, count + 1, 1 << 31] {
        came.ring.taken().store(taken, Ordering::Relaxed);
        assert_eq!(told.put(&AT, b"frame"), Err(Broken));
    }
    came.ring.taken().store(count, Ordering::Relaxed);
    assert_eq!(told.put(&AT, b"frame"), Ok(true));
    // The consumer had already taken more frames.
    came.ring.taken().store(1, Ordering::Relaxed);
    assert_eq!(told.has_room(count), Err(Broken));
}

/// Whatever the other process writes at any time, the agent's end finds whole frames, nothing, or [`Broken`].
#[test]
fn scribbles_end_as_frames_or_errors() {
    for seed in 0..200 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let ((mut heard, mut told), (sent, _)) = rings(200);
        let mapping = &sent.ring.memory.mapping;
        let words = mapping.len() / 8;
        let mut frame = Vec::new();
        for _ in 0..2000 {
            let at = match dice.next_u32() % 3 {
                0 => dice.next_u32() as usize % words,
                1 => (dice.next_u32() as usize % 4) * APART / 8,
                _ => (sent.ring.slot(heard.next).addr() - mapping.base().addr()) / 8,
            };
            let word = match dice.next_u32() % 3 {
                0 => dice.next_u64(),
                1 => u64::from(heard.next.wrapping_add(1)) | u64::from(dice.next_u32() % 300) << 32,
                _ => u64::from(dice.next_u32() % 8),
            };
            // SAFETY: `at` is less than the number of words, so the word lies in the mapping.
            unsafe { AtomicU64::from_ptr(mapping.base().cast::<u64>().add(at)) }
                .store(word, Ordering::Relaxed);
            if let Ok(Some(_)) = heard.peek(&mut frame) {
                assert!(frame.len() <= 200);
                heard.advance();
            }
            let _ = told.put(&AT, &frame[..frame.len().min(200)]);
            heard.announce_sleep();
            told.is_to_ring();
        }
    }
}

/// Runs two threads. The consumer sleeps whenever it finds no frame.
#[test]
fn consumer_that_sleeps_is_rung() {
    const FRAMES: u32 = 200_000;
    let ((mut heard, _), (mut sent, _)) = rings(64);
    let (ring, rung) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(move || {
            for n in 0..FRAMES {
                while sent.put(&AT, &n.to_ne_bytes()) != Ok(true) {
                    std::thread::yield_now();
                }
                if sent.is_to_ring() {
                    ring.send(()).unwrap();
                }
            }
        });
        let mut frame = Vec::new();
        for n in 0..FRAMES {
            while heard.peek(&mut frame) == Ok(None) {
                if heard.announce_sleep() {
                    let _ = rung.recv();
                }
            }
            assert_eq!(frame, n.to_ne_bytes());
            heard.advance();
        }
    });
}
