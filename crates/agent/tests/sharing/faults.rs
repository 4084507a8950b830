//! Tests in which agents and programs are killed.

use crate::common::{agent, name};
use crate::process::{Part, at};
use std::thread;
use via::error::{Cause, ConnectError};
use via::{NetAddress, Nic, Vi, ViState};
use via_conformance::{Context, End};
use via_eth::{Config, EthNic, Place};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("agent_that_is_killed_breaks_vis_and_the_next_one_serves", agent_is_killed),
    ("acceptor_that_is_killed_is_found_out_by_a_peer_that_waits", acceptor_is_killed),
    ("requester_that_is_killed_is_found_out_by_a_peer_that_waits", requester_is_killed),
    ("program_that_is_killed_with_a_request_rejects_it", program_with_a_request_is_killed),
    ("connections_between_other_programs_outlive_one_that_is_killed", others_go_on),
];

const UDP: &str = "udp:127.0.0.1:0";

pub(crate) fn context(nic: &EthNic) -> Context<'_, EthNic> {
    Context { nic, server: nic.address(b"server") }
}

/// Requests a connection until the other end waits for one.
pub(crate) fn request(cx: &Context<'_, EthNic>, end: &End<'_, EthNic>) {
    let ask = || end.vi.connect_request(&cx.own(1), &cx.server, None);
    let answer = loop {
        match ask() {
            Err(ConnectError::NoMatch) => {}
            answer => break answer,
        }
    };
    assert_eq!(answer.map(drop), Ok(()));
}

fn requested<'n>(cx: &Context<'n, EthNic>) -> End<'n, EthNic> {
    let end = End::new(cx);
    request(cx, &end);
    end
}

/// Connects two NICs and sends messages in both directions.
pub(crate) fn converse(server: &EthNic, client: &EthNic) {
    let place = server.address(b"talk");
    let talk = |end: &End<'_, EthNic>| {
        for i in 0..100 {
            end.send(i + 100, 0, 64);
            end.received().result().unwrap();
        }
    };
    thread::scope(|s| {
        s.spawn(|| {
            let cx = Context { nic: server, server: place.clone() };
            let end = End::new(&cx);
            (0..100).for_each(|i| _ = end.post_recv(i, 0, 64));
            end.accept(&cx);
            talk(&end);
            // The other end disconnects.
            end.await_state(ViState::Error);
        });
        let cx = Context { nic: client, server: place.clone() };
        let end = End::new(&cx);
        (0..100).for_each(|i| _ = end.post_recv(i, 0, 64));
        request(&cx, &end);
        talk(&end);
        end.vi.disconnect();
    });
}

fn agent_is_killed() {
    let name = name();
    let mut agent = Part::start(&format!("agent {name} {UDP}"));
    agent.says("ready");
    let shared = Config::new(Place::Agent(name.clone()));
    let (nic, other) = (shared.open_shared().unwrap(), at(&name));
    let (cx, far) = (context(&nic), Context { nic: &other, server: nic.address(b"server") });
    let (server, client) = thread::scope(|s| {
        let server = s.spawn(|| End::accepted(&cx));
        let client = requested(&far);
        (server.join().unwrap(), client)
    });
    // One end waits. The other end makes no more calls.
    server.post_recv(0, 0, 64);
    client.post_recv(0, 0, 64);
    thread::scope(|s| {
        let waits = s.spawn(|| nic.connect_wait(&nic.address(b"other"), None).map(drop));
        let asks = s.spawn(|| {
            let end = End::new(&cx);
            end.vi.connect_request(&cx.own(3), &NetAddress::new(&[10, 255, 0, 1, 0, 9], b""), None)
        });
        let receives = s.spawn(|| server.vi.recv_wait(None));
        agent.kill();
        let is_gone = |result| assert!(matches!(result, Err(ConnectError::NotReachable(_))));
        is_gone(waits.join().unwrap());
        is_gone(asks.join().unwrap().map(drop));
        assert!(receives.join().unwrap().unwrap().result().is_err());
    });
    for end in [&server, &client] {
        end.await_state(ViState::Error);
        assert_eq!(end.vi.cause(), Some(Cause::PeerDied));
    }
    server.vi.disconnect();
    let again = server.vi.connect_request(&cx.own(2), &cx.server, None);
    assert!(matches!(again, Err(ConnectError::NotReachable(_))), "{again:?}");
    assert!(shared.open_shared().is_err(), "there is no agent");
    let mut agent = Part::start(&format!("agent {name} {UDP}"));
    agent.says("ready");
    converse(&shared.open_shared().unwrap(), &at(&name));
}

/// Kills a program with `SIGKILL` after it has connected. Checks that its peer, which sends nothing, notices.
fn killed(part: &str, near: &str, far: &str) {
    let nic = at(near);
    let cx = context(&nic);
    let host: Vec<String> = cx.server.host.iter().map(u8::to_string).collect();
    let (program, end) = if part == "requests" {
        thread::scope(|s| {
            let accepts = s.spawn(|| End::accepted(&cx));
            let mut program = Part::start(&format!("requests {far} {}", host.join(",")));
            program.says("connected");
            (program, accepts.join().unwrap())
        })
    } else {
        let mut program = Part::start(&format!("accepts {far}"));
        program.says("ready");
        let server = at(far).address(b"server");
        let end = requested(&Context { nic: &nic, server });
        program.says("connected");
        (program, end)
    };
    end.post_recv(0, 0, 64);
    program.kill();
    assert!(end.vi.recv_wait(None).unwrap().result().is_err());
    assert_eq!(end.vi.cause(), Some(Cause::PeerDied));
}

fn two_agents() -> [String; 2] {
    let agents = [name(), name()];
    agents.iter().for_each(|name| agent(name, UDP).expect("an agent"));
    agents
}

fn acceptor_is_killed() {
    let [near, far] = two_agents();
    killed("accepts", &near, &far);
    killed("accepts", &near, &near);
}

fn requester_is_killed() {
    let [near, far] = two_agents();
    killed("requests", &near, &far);
    killed("requests", &near, &near);
}

fn program_with_a_request_is_killed() {
    let [near, far] = two_agents();
    let mut program = Part::start(&format!("holds {far}"));
    program.says("ready");
    let nic = at(&near);
    let cx = Context { nic: &nic, server: at(&far).address(b"server") };
    let end = End::new(&cx);
    thread::scope(|s| {
        let asks = s.spawn(|| {
            loop {
                let result = end.vi.connect_request(&cx.own(1), &cx.server, None);
                if result != Err(ConnectError::NoMatch) {
                    break result;
                }
            }
        });
        program.says("asked");
        program.kill();
        assert_eq!(asks.join().unwrap().map(drop), Err(ConnectError::Rejected));
    });
}

fn others_go_on() {
    let [near, far] = two_agents();
    let (server, client) = (at(&near), at(&far));
    thread::scope(|s| {
        let talks = s.spawn(|| (0..5).for_each(|_| converse(&server, &client)));
        while !talks.is_finished() {
            let mut program = Part::start(&format!("accepts {near}"));
            program.says("ready");
            program.kill();
        }
        talks.join().unwrap();
    });
}
