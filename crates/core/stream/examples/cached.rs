//! Measures the registration cache: sends of 1 MB from a buffer that stays registered, compared with sends that
//! register the buffer each time.
//!
//!     cargo run --release -p sovia-stream --example cached [PLACE [BYTES]]      # verbs:rxe0, ofi:tcp;ofi_rxm@127.0.0.1
//!
//! Both ends are threads of one process, with a NIC each. The two kinds take turns. The output gives the medians of
//! five turns.

use sovia_nic::AnyNic;
use sovia_stream::{Caching, Configuration, Stack, Stream};
use std::time::{Duration, Instant};
use via::{MemAttributes, Memory, NetAddress, Nic};

const TURNS: usize = 5;
const SENDS: usize = 50;
const LONG: Option<Duration> = Some(Duration::from_secs(60));
const KINDS: [(&str, Caching); 2] =
    [("registered once", Caching::Noticed), ("registered each time", Caching::Off)];

/// Connects, and retries until the other end listens.
fn connected(stack: &Stack<AnyNic>, to: &NetAddress, how: &Configuration) -> Stream<AnyNic> {
    loop {
        match stack.connect(to, how, LONG) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the microseconds for registering and deregistering `len` bytes.
fn registering(nic: &AnyNic, len: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let memory = Memory::zeroed(len);
    memory.write(0, &vec![1; len]);
    let begin = Instant::now();
    for _ in 0..SENDS {
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        nic.deregister_mem(handle)?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / SENDS as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().unwrap_or_else(|| "verbs:rxe0".to_owned());
    let len: usize = arguments.next().map_or(Ok(1 << 20), |len| len.parse())?;
    let how: Configuration = "SOVIA_REG".parse()?;
    let server = Stack::new(AnyNic::open_at(&place)?)?;
    let to = NetAddress::new(&server.nic().attributes().local_address, b"cached");
    let listener = server.listen(&to, &how)?;
    let client = Stack::new(AnyNic::open_at(&place)?)?;
    let mut buffer = vec![7; len];
    let mut took = [const { Vec::new() }; 2];
    let mut alone = Vec::new();
    for _ in 0..TURNS {
        alone.push(registering(client.nic(), len)?);
        for ((_, caching), took) in KINDS.iter().zip(&mut took) {
            client.set_caching(*caching)?;
            std::thread::scope(|s| -> Result<(), Box<dyn std::error::Error>> {
                let reader = s.spawn(|| {
                    let stream = listener.accept_within(Duration::from_secs(60)).expect("one").0;
                    let (mut room, mut all) = (vec![0; len], 0);
                    while all < (SENDS + 1) * len {
                        match stream.read(&mut room).expect("bytes") {
                            0 => break,
                            got => all += got,
                        }
                    }
                    all
                });
                let stream = connected(&client, &to, &how);
                stream.write(&buffer)?;
                let begin = Instant::now();
                for send in 0..SENDS {
                    buffer[0] = send as u8;
                    stream.write(&buffer)?;
                }
                took.push(begin.elapsed().as_secs_f64() * 1e6 / SENDS as f64);
                drop(stream);
                assert_eq!(reader.join().expect("it reads"), (SENDS + 1) * len);
                Ok(())
            })?;
        }
    }
    let [kept, anew] = took.map(median);
    println!("{place}: sends of {len} bytes from one buffer, in microseconds, medians of {TURNS}");
    println!("registered once         {kept:10.1}");
    println!("registered each time    {anew:10.1}");
    println!("registering alone       {:10.1}", median(alone));
    println!("{:.2} times as fast with the cache", anew / kept);
    Ok(())
}
