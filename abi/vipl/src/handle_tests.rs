use super::*;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Instant;

const BAD: ReturnCode = ReturnCode::InvalidParameter;

fn table<T: Send + Sync>() -> &'static Table<T> {
    Box::leak(Box::new(Table::new(Kind::Vi)))
}

fn add<T: Send + Sync>(table: &'static Table<T>, thing: T) -> Handle {
    table.reserve().unwrap().fill(thing)
}

#[test]
fn only_what_lives_is_found() {
    let things = table();
    let other: &'static Table<u32> = Box::leak(Box::new(Table::new(Kind::Cq)));
    let handle = add(things, 7u32);
    assert_eq!(*things.find(handle).unwrap(), 7);
    assert!(other.find(handle).is_err(), "of another kind");
    for stranger in [0, 1, usize::MAX, handle.0 ^ 1, handle.0 ^ 1 << 33, 0xa << 60] {
        assert_eq!(things.find(Handle(stranger)).err(), Some(BAD), "{stranger:#x}");
    }
    assert_eq!(things.remove(handle, Ok), Ok(7));
    assert_eq!(things.find(handle).err(), Some(BAD));
    assert_eq!(things.remove(handle, |_| Ok(())), Err(BAD));
}

#[test]
fn a_place_that_is_used_again_has_another_handle() {
    let things = table();
    let mut seen = std::collections::HashSet::new();
    for i in 0..2000u32 {
        let handle = add(things, i);
        assert!(seen.insert(handle.0));
        things.remove(handle, |_| Ok(())).unwrap();
    }
    assert!(things.free().fresh < 300, "places are used again");
}

#[test]
fn what_is_refused_stays() {
    let things = table();
    let handle = add(things, 1u32);
    assert_eq!(
        things.remove(handle, |thing| Err::<(), _>((thing + 1, ReturnCode::InvalidState))),
        Err(ReturnCode::InvalidState)
    );
    assert_eq!(*things.find(handle).unwrap(), 2);
    let kept = things.find(handle).unwrap().keep();
    assert_eq!(things.remove(handle, |_| Ok(())), Err(ReturnCode::ErrorResource));
    drop(kept);
    let using = things.find(handle).unwrap();
    assert_eq!(things.remove(handle, |_| Ok(())), Err(ReturnCode::ErrorResource));
    drop(using);
    assert_eq!(things.remove(handle, |_| Ok(())), Ok(()));
}

#[test]
fn an_empty_reservation_leaves_nothing() {
    let things: &'static Table<u32> = table();
    let handle = things.reserve().unwrap().handle();
    assert_eq!(things.find(handle).err(), Some(BAD));
}

#[test]
fn there_is_an_end() {
    let things = table();
    let all: Vec<_> = (0..(CHUNK * CHUNKS) as u32).map(|i| add(things, i)).collect();
    assert_eq!(things.reserve().err(), Some(ReturnCode::ErrorResource));
    things.remove(all[5], |_| Ok(())).unwrap();
    assert_eq!(*things.find(add(things, 0)).unwrap(), 0);
    assert_eq!(*things.find(all[65535]).unwrap(), 65535);
}

impl<T: Send + Sync + 'static> fmt::Debug for Reservation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.handle())
    }
}

/// A value that records its own drop. A thread that sees it dropped has used it after its end.
struct Mortal(AtomicBool, &'static AtomicUsize);

impl Drop for Mortal {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// Threads use, keep, destroy and recreate an object in one place, in a race.
#[test]
fn object_in_use_by_a_thread_is_not_destroyed() {
    static DEAD: AtomicUsize = AtomicUsize::new(0);
    let things = table();
    let make = || add(things, Mortal(AtomicBool::new(false), &DEAD));
    let current = AtomicUsize::new(make().0);
    let (found, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let goes_on = || found.load(Ordering::Relaxed) < 10_000 || removed.load(Ordering::Relaxed) < 30;
    thread::scope(|s| {
        for keeps in [false, false, true] {
            let (current, found, goes_on) = (&current, &found, &goes_on);
            s.spawn(move || {
                while goes_on() {
                    for _ in 0..100 {
                        let handle = Handle(current.load(Ordering::Relaxed));
                        let Ok(using) = things.find(handle) else { continue };
                        assert!(!using.0.load(Ordering::SeqCst));
                        if keeps {
                            let kept = using.keep();
                            assert!(!kept.0.load(Ordering::SeqCst));
                        } else {
                            core::hint::spin_loop();
                            assert!(!using.0.load(Ordering::SeqCst));
                        }
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..2 {
            s.spawn(|| {
                while goes_on() {
                    let handle = Handle(current.load(Ordering::Relaxed));
                    if things.remove(handle, |_| Ok(())).is_ok() {
                        removed.fetch_add(1, Ordering::Relaxed);
                        current.store(make().0, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(DEAD.load(Ordering::SeqCst), removed.into_inner());
}

/// Prints the cost of a look-up. The test has no time limit.
#[test]
fn finding_costs_little() {
    let things = table();
    let handle = add(things, 3u64);
    let begin = Instant::now();
    let mut sum = 0;
    for _ in 0..1_000_000 {
        sum += *things.find(std::hint::black_box(handle)).unwrap();
    }
    println!("{} ps to find a thing", begin.elapsed().as_nanos() / 1000);
    assert_eq!(sum, 3_000_000);
}
