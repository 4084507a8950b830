use super::*;
use via_sim::{Config, Network, SimNic};

/// Returns two connected ends of a stream. The caller steps `network`.
fn pair(stacks: &[Stack<SimNic>; 2], network: &Network) -> [Stream<SimNic>; 2] {
    let configuration = "SOVIA_DACKS,w=2,t=1,copy".parse().unwrap();
    let ends = stacks.each_ref().map(|stack| stack.unconnected(&configuration).unwrap());
    let [a, b] = stacks.each_ref().map(|stack| stack.nic().address(b"end"));
    ends[0].vi().connect_peer_request(&a, &b, None).unwrap();
    ends[1].vi().connect_peer_request(&b, &a, None).unwrap();
    network.run();
    for end in &ends {
        end.vi().connect_peer_done().unwrap().unwrap();
    }
    let streams = ends.map(Unconnected::connected);
    network.run();
    streams
}

fn stacks(network: &Network) -> [Stack<SimNic>; 2] {
    ["a", "b"].map(|name| Stack::stepped(network.nic(name)).unwrap())
}

/// Writes until the window is used up, and closes the stream with unsent bytes.
fn close_unfinished(stream: Stream<SimNic>) {
    stream.write_within(&[1; 100], Duration::from_millis(1)).unwrap();
    while stream.try_write(&[2; 100]).is_ok() {}
    stream.close();
}

#[test]
fn unfinished_stream_ends_with_its_manually_stepped_stack() {
    let network = Network::new(1, Config::default());
    let [a, b] = stacks(&network);
    let weak = Arc::downgrade(&a.0);
    let stacks = [a, b];
    let [end, peer] = pair(&stacks, &network);
    close_unfinished(end);
    let [a, _b] = stacks;
    assert_eq!(a.step(), 1, "it waits for the window");
    drop(a);
    assert!(weak.upgrade().is_none());
    drop(peer);
}

#[test]
fn an_unfinished_stream_does_not_outlive_its_stack() {
    let network = Network::new(1, Config::default());
    let stacks = stacks(&network);
    let weak = Arc::downgrade(&stacks[0].0);
    let [end, _peer] = pair(&stacks, &network);
    drop(stacks);
    assert!(weak.upgrade().is_some(), "its stream has it");
    close_unfinished(end);
    assert!(weak.upgrade().is_none());
}
