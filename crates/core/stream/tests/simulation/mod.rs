//! Streams over a simulated network, in which a seed determines every step. Programs write, read, stall, close and
//! abort. The network loses, duplicates, corrupts and delays packets, and partitions break connections. A failure
//! prints its seed, and `SEED=n` repeats the failure. `SEED_FIRST` and `SCHEDULES` choose other seeds, and their
//! number.

mod choices;
mod end;

use choices::Choices;
use core::time::Duration;
use end::End;
use sovia_stream::configuration::Handshake;
use sovia_stream::{Reset, Stack};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use via::{Connection, Vi};
use via_sim::{Change, Config, Link, Network, SimNic};

/// Connects two ends of a stream, between two nodes.
fn connect(
    network: &Network,
    choices: &mut Choices,
    stacks: &[Stack<SimNic>],
    number: u8,
) -> [End; 2] {
    let handshake = match choices.below(10) {
        0 => Handshake::ThreeWay,
        1 => Handshake::Rdma,
        _ => Handshake::TwoWay,
    };
    let nodes = [(); 2].map(|()| choices.below(stacks.len()));
    let [a, b] =
        nodes.map(|node| stacks[node].unconnected(&choices.configuration(handshake)).unwrap());
    let nics = nodes.map(|node| stacks[node].nic());
    let places = [nics[0].address(&[b'a', number]), nics[1].address(&[b'b', number])];
    if choices.once_in(3) {
        // Both ends request the connection at once.
        let patience = Some(Duration::from_secs(60));
        a.vi().connect_peer_request(&places[0], &places[1], patience).unwrap();
        network.run_for(choices.micros(100));
        b.vi().connect_peer_request(&places[1], &places[0], patience).unwrap();
        a.vi().connect_peer_wait().unwrap();
        b.vi().connect_peer_wait().unwrap();
    } else {
        let listener = nics[1].listen(&places[1]).unwrap();
        a.vi().request(&places[0], &places[1], Some(Duration::from_secs(60))).unwrap();
        let request = loop {
            match listener.poll() {
                Some(request) => break request,
                None => assert!(network.step()),
            }
        };
        request.accept(b.vi()).unwrap();
        while a.vi().request_done().is_none() {
            assert!(network.step());
        }
    }
    let (x, y) = (number * 2, number * 2 + 1);
    [End::new(a.connected(), [x, y]), End::new(b.connected(), [y, x])]
}

/// Runs one schedule.
fn schedule(seed: u64) {
    let choices = &mut Choices::new(seed);
    let fault = if choices.once_in(2) { 0.0 } else { choices.below(4) as f64 / 100.0 };
    let network = Network::new(seed, Config::default().over(Link::faulty(fault)));
    let stacks: Vec<_> = (0..2 + choices.below(3))
        .map(|node| Stack::stepped(network.nic(&node.to_string())).unwrap())
        .collect();
    let streams = 1 + choices.below(3);
    let mut pairs: Vec<_> =
        (0..streams).map(|n| connect(&network, choices, &stacks, n as u8)).collect();
    let partition = choices.once_in(6);
    if partition {
        let at = network.now().after(choices.micros(3000));
        network.change(at, Change::Partition([stacks[0].nic().node()].into()));
        if choices.once_in(2) {
            network.change(at.after(Duration::from_millis(100)), Change::Heal);
        }
    }
    for _ in 0..choices.below(150) {
        // An end that is not chosen stalls.
        let pair = choices.below(streams);
        pairs[pair][choices.below(2)].act(choices);
        if choices.once_in(3) {
            for stack in &stacks {
                stack.step();
            }
        }
        network.run_for(choices.micros(60));
    }
    for pair in &mut pairs {
        finish(&network, &stacks, pair, partition);
    }
}

/// Finishes: both programs write some last bytes, close their sending halves and read to the end.
fn finish(network: &Network, stacks: &[Stack<SimNic>], pair: &mut [End; 2], partition: bool) {
    let mut left = [2000; 2];
    for round in 0.. {
        // A stream detects a lost connection after a quarter of a second.
        assert!(round < 40_000, "it goes on for ever: {pair:#?}");
        for (end, left) in pair.iter_mut().zip(&mut left) {
            while *left > 0 && !end.shut && end.lost.is_none() {
                match end.write(*left) {
                    0 => break,
                    written => *left -= written,
                }
            }
            if *left == 0 && !end.shut {
                end.shutdown();
            }
            if let Some(stream) = &end.stream {
                stream.flush();
            }
            while end.read(700) > 0 {}
        }
        for stack in stacks {
            stack.step();
        }
        network.run_for(Duration::from_micros(50));
        let over = |end: &End| end.stream.is_none() || end.ended || end.lost.is_some();
        let said = |end: &End| end.shut || end.lost.is_some();
        if pair.iter().all(|end| over(end) && said(end)) {
            break;
        }
        // An end with no packets in flight does not learn that the other end has aborted, like TCP without keep-alive.
        if partition && round > 8_000 && pair.iter().any(End::is_lost) {
            break;
        }
    }
    for i in 0..2 {
        let (reader, writer) = (&pair[i], &pair[i ^ 1]);
        assert!(reader.read <= writer.written);
        let whole = reader.ended && !reader.deaf;
        assert!(!whole || reader.read == writer.written, "bytes are missing before the end");
        // Without a partition only the peer's program can end a connection, and a close loses no bytes.
        if let (Some(reset), false, false) = (reader.lost, partition, reader.deaf) {
            assert!(writer.stream.is_none(), "{reset}");
            assert!(matches!(reset, Reset::PeerClosed), "{reset}");
        }
    }
}

fn seeds(count: u64) {
    let run = |seed: u64| {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| schedule(seed))) {
            eprintln!("SEED={seed} replays it");
            resume_unwind(why);
        }
    };
    let variable = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    match variable("SEED") {
        Some(seed) => run(seed),
        None => {
            let first = variable("SEED_FIRST").unwrap_or(0);
            let count = variable("SCHEDULES").unwrap_or(count);
            (first..first + count).for_each(run);
            println!("{count} schedules of streams over a simulated network");
        }
    }
}

#[test]
fn streams_under_many_schedules() {
    seeds(500);
}

#[test]
#[ignore = "takes an hour or two"]
fn streams_under_a_million_schedules() {
    seeds(1_000_000);
}
