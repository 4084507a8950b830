//! A queue entry: the reader must find the whole message, and the writer may overwrite it only after the reader has
//! finished.

use super::*;

fn send(slot: &Slot, n: u32, bytes: &[u8]) {
    slot.copy_in(bytes);
    let entry = Entry { immediate: n ^ 7, len: bytes.len() as u32, pool_offset: None };
    slot.publish(n, entry);
}

/// Sends two messages through one slot. The writer may write the second one only after the reader has finished with the
/// first.
fn two_laps(receive: fn(&Slot, &Credit, u32) -> Option<[u8; 12]>) {
    let shared = Arc::new((Slot::new(), Credit::new()));
    shared.1.post(1);
    let writer = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (slot, credit) = &*shared;
            send(slot, 0, &[1; 12]);
            // Without credit the writer gives up here.
            let lap = credit.posted() > SLOTS;
            if lap {
                send(slot, SLOTS, &[2; 12]);
            }
            lap
        })
    };
    let (slot, credit) = &*shared;
    let first = receive(slot, credit, 0);
    assert!(first.is_none_or(|bytes| bytes == [1; 12]), "a torn message");
    let second = first.and_then(|_| receive(slot, credit, SLOTS));
    assert!(second.is_none_or(|bytes| bytes == [2; 12]), "a torn message");
    let lap = writer.join().unwrap();
    if lap && first.is_some() && second.is_none() {
        assert_eq!(receive(slot, credit, SLOTS), Some([2; 12]));
    }
}

fn take(slot: &Slot, n: u32) -> Option<[u8; 12]> {
    let entry = slot.read(n)?;
    assert_eq!((entry.immediate, entry.len, entry.pool_offset), (n ^ 7, 12, None));
    let mut bytes = [0; 12];
    assert_eq!(slot.copy_out(0, &mut bytes), 12);
    Some(bytes)
}

#[test]
fn a_slot_is_handed_over_whole_and_back() {
    check(|| {
        two_laps(|slot, credit, n| {
            let bytes = take(slot, n)?;
            credit.post(n + SLOTS + 1);
            Some(bytes)
        });
    });
}

#[test]
#[should_panic(expected = "torn")]
fn a_message_is_torn_if_credit_is_posted_before_the_copy() {
    check(|| {
        two_laps(|slot, credit, n| {
            slot.read(n)?;
            credit.post(n + SLOTS + 1);
            let mut bytes = [0; 12];
            slot.copy_out(0, &mut bytes);
            Some(bytes)
        });
    });
}

/// The reader's last load from the pool must come before its release.
#[test]
fn what_is_released_has_been_read() {
    check(|| {
        let shared = Arc::new((AtomicU64::new(1), Credit::new()));
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let seen = shared.0.load(Ordering::Relaxed);
                shared.1.release(64);
                seen
            })
        };
        if shared.1.released() == 64 {
            shared.0.store(2, Ordering::Relaxed);
        }
        assert_eq!(reader.join().unwrap(), 1);
    });
}
