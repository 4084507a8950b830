//! Tests of streams that share a bottleneck, in virtual time: the share of each, and its longest stall.

use super::{Ends, TIMING, Timing};
use crate::Time;
use crate::stream::control::{Controller, KernelCubic};
use crate::stream::{Control, Tx, Verdict};
use crate::wire::{Report, Sending};
use core::time::Duration;
use proptest::prelude::*;
use sovia_simnet::{Change, Event, Link, Net, NodeId};

/// Bytes of a frame.
const FRAME: u64 = 1000;
/// Largest number of frames of one stream in flight.
const WINDOW: usize = 8192;
/// Number of frames that one acknowledgement covers, and how long a frame waits for others.
const TOGETHER: u32 = 8;
const ACK_WAIT: Duration = Duration::from_micros(100);
/// Bytes of a report.
const REPORT: u32 = 100;

/// Amount of data that a stream sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Endless,
    /// Always data to send, but at most this number of frames in flight or behind a missing frame, like a program with
    /// a finite buffer.
    UpTo(usize),
    /// This number of frames once per interval.
    Portions(u32, Duration),
}

#[derive(Debug, Clone)]
enum Packet {
    Item(usize, Sending, u32),
    Ack(usize, Report),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// The timer of a sender.
    Sender(usize),
    /// A receiver owes an acknowledgement.
    Owes(usize),
    /// The next portion is due.
    Portion(usize),
}

/// A stream from one end of the bottleneck to the other.
struct Flow {
    tx: Ends,
    rx: Ends,
    source: Source,
    begins: Time,
    pushed: u32,
    timer: Option<Time>,
    owed: u32,
    owes_timer: bool,
    /// Number of frames received in order, the time of the last one, and the longest time between two.
    got: u32,
    got_at: Time,
    stall: Duration,
}

/// The bottleneck and the streams that share it.
struct Scene {
    net: Net<Packet, Timer>,
    ends: [NodeId; 2],
    flows: Vec<Flow>,
}

/// A gigabit per second and five milliseconds in each direction. The queue holds ten milliseconds of data.
fn gigabit() -> Link {
    Link {
        latency: Duration::from_millis(5),
        bandwidth: Some(125_000_000),
        queue: Some(1_250_000),
        ..Link::perfect()
    }
}

/// Like [`gigabit`], with a tenth of the rate.
fn tenth() -> Link {
    Link { bandwidth: Some(12_500_000), queue: Some(125_000), ..gigabit() }
}

fn seconds(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9) as u64)
}

fn of(time: Time) -> sovia_simnet::Time {
    sovia_simnet::Time::from_nanos(time.nanos())
}

impl Scene {
    fn new(seed: u64, link: Link) -> Scene {
        let mut net = Net::new(seed, link);
        let ends = [net.add_node(), net.add_node()];
        Scene { net, ends, flows: Vec::new() }
    }

    /// Adds a stream that begins at second `begins`.
    fn flow(self, begins: f64, source: Source) -> Scene {
        self.controlled(begins, source, Controller::new(Control::Bbr, FRAME as u32))
    }

    /// Adds a stream that behaves like the kernel's TCP.
    fn cubic(self, begins: f64) -> Scene {
        self.controlled(begins, Source::Endless, Controller::Kernel(KernelCubic::new(FRAME as u32)))
    }

    fn controlled(mut self, begins: f64, source: Source, control: Controller) -> Scene {
        let timing = Timing { longest: Duration::from_millis(250), tries: None, ..TIMING };
        let end = || Ends::new(timing, WINDOW, (0, 0));
        let tx = Ends { tx: Tx::new(timing, WINDOW, control, 0), ..end() };
        let begins = seconds(begins);
        self.net.set_timer(of(begins), Timer::Portion(self.flows.len()));
        self.flows.push(Flow {
            tx,
            rx: end(),
            source,
            begins,
            pushed: 0,
            timer: None,
            owed: 0,
            owes_timer: false,
            got: 0,
            got_at: begins,
            stall: Duration::ZERO,
        });
        self
    }

    /// Replaces the link in both directions at second `at`.
    fn becomes(mut self, at: f64, link: Link) -> Scene {
        let [a, b] = self.ends;
        for (from, to) in [(a, b), (b, a)] {
            self.net.change(of(seconds(at)), Change::Link(from, to, link));
        }
        self
    }

    /// Runs until second `until`. Returns the number of frames that each stream received in order meanwhile.
    fn until(&mut self, until: f64) -> Vec<u32> {
        let before: Vec<u32> = self.flows.iter().map(|flow| flow.got).collect();
        let until = seconds(until);
        while self.net.next_time().is_some_and(|next| next.nanos() < until.nanos()) {
            match self.net.step() {
                Some(Event::Packet(packet)) if packet.corrupt => {}
                Some(Event::Packet(packet)) => match packet.payload {
                    Packet::Item(flow, sending, item) => self.came(flow, sending, item),
                    Packet::Ack(flow, report) => {
                        let at = Time::from_nanos(self.net.now().nanos());
                        assert!(self.flows[flow].tx.acknowledged(&report, at).is_some());
                        self.pump(flow);
                    }
                },
                Some(Event::Timer(timer)) => self.timer(timer),
                Some(Event::Changed) | None => {}
            }
        }
        for flow in self.flows.iter_mut().filter(|flow| flow.source == Source::Endless) {
            flow.stall = flow.stall.max(until.since(flow.got_at.max(flow.begins)));
        }
        self.flows.iter().zip(before).map(|(flow, before)| flow.got - before).collect()
    }

    fn came(&mut self, id: usize, sending: Sending, item: u32) {
        let at = Time::from_nanos(self.net.now().nanos());
        let flow = &mut self.flows[id];
        flow.rx.came(sending, item, at);
        while let Some((_, item)) = flow.rx.take() {
            assert_eq!(item, flow.got, "in order, and once");
            flow.got += 1;
            if flow.source == Source::Endless {
                flow.stall = flow.stall.max(at.since(flow.got_at));
            }
            flow.got_at = at;
        }
        flow.owed += 1;
        if flow.owed >= TOGETHER {
            self.report(id);
        } else if !core::mem::replace(&mut flow.owes_timer, true) {
            self.net.set_timer(of(at.after(ACK_WAIT)), Timer::Owes(id));
        }
    }

    fn report(&mut self, id: usize) {
        let at = Time::from_nanos(self.net.now().nanos());
        let flow = &mut self.flows[id];
        flow.owed = 0;
        let [sender, receiver] = self.ends;
        self.net.send(receiver, sender, REPORT, Packet::Ack(id, flow.rx.report(at)));
    }

    fn timer(&mut self, timer: Timer) {
        let at = Time::from_nanos(self.net.now().nanos());
        match timer {
            Timer::Sender(id) => {
                let flow = &mut self.flows[id];
                if flow.timer.is_some_and(|timer| timer <= at) {
                    flow.timer = None;
                }
                assert_ne!(flow.tx.tick(at), Verdict::Hopeless);
                self.pump(id);
            }
            Timer::Owes(id) => {
                self.flows[id].owes_timer = false;
                if self.flows[id].owed > 0 {
                    self.report(id);
                }
            }
            Timer::Portion(id) => {
                let flow = &mut self.flows[id];
                if let Source::Portions(count, pause) = flow.source {
                    for n in 0..count {
                        flow.tx.push(flow.pushed + n);
                    }
                    flow.pushed += count;
                    self.net.set_timer(of(at.after(pause)), timer);
                }
                self.pump(id);
            }
        }
    }

    /// Sends all frames that may be sent, and sets the timer.
    fn pump(&mut self, id: usize) {
        let at = Time::from_nanos(self.net.now().nanos());
        let flow = &mut self.flows[id];
        let most = match flow.source {
            Source::Endless => 2 * WINDOW,
            Source::UpTo(most) => most,
            Source::Portions(..) => 0,
        };
        while flow.tx.backlog() < most {
            flow.tx.push(flow.pushed);
            flow.pushed += 1;
        }
        let [from, to] = self.ends;
        while let Some((sending, item)) = flow.tx.next_out(at) {
            self.net.send(from, to, FRAME as u32, Packet::Item(id, sending, *item));
        }
        if let Some(deadline) = flow.tx.deadline()
            && flow.timer.is_none_or(|timer| timer > deadline)
        {
            flow.timer = Some(deadline);
            self.net.set_timer(of(deadline), Timer::Sender(id));
        }
    }
}

/// Returns the share of the bottleneck that `frames` frames in `seconds` seconds use.
fn share(link: &Link, frames: u32, seconds: f64) -> f64 {
    let bandwidth = link.bandwidth.expect("it has a rate") as f64;
    f64::from(frames) * FRAME as f64 / (bandwidth * seconds)
}

/// Returns Jain's index: 1 for equal shares, and 1/n if one of n streams has everything.
fn index(got: &[u32]) -> f64 {
    let sum: f64 = got.iter().copied().map(f64::from).sum();
    let squares: f64 = got.iter().map(|&n| f64::from(n).powi(2)).sum();
    sum.powi(2) / (squares * got.len() as f64)
}

/// A link that loses, reorders, duplicates and corrupts frames.
fn bad(link: Link) -> Link {
    Link {
        loss: 0.05,
        reorder: 0.1,
        reorder_delay: Duration::from_millis(2),
        duplicate: 0.01,
        corrupt: 0.01,
        ..link
    }
}

#[test]
fn single_stream_fills_the_bottleneck_and_leaves_its_queue_room() {
    let mut scene = Scene::new(1, gigabit()).flow(0.0, Source::Endless);
    scene.until(1.0);
    let before = scene.net.counters();
    let got = scene.until(6.0);
    let share = share(&gigabit(), got[0], 5.0);
    assert!(share > 0.9, "{share}");
    let overflowed = scene.net.counters().overflowed - before.overflowed;
    assert!(overflowed < 100, "{overflowed} frames of {} lost in the queue", got[0]);
}

#[test]
fn one_percent_of_loss_leaves_most_of_the_bottleneck() {
    for link in [gigabit(), tenth()] {
        let mut scene = Scene::new(2, Link { loss: 0.01, ..link }).flow(0.0, Source::Endless);
        scene.until(1.0);
        let got = scene.until(6.0);
        let share = share(&link, got[0], 5.0);
        assert!(share > 0.7, "{share} of {:?} bytes a second", link.bandwidth);
    }
}

/// In the end neither stream has more than twice the other's share.
#[test]
fn stream_that_comes_later_has_its_share() {
    for loss in [0.0, 0.01] {
        let link = Link { loss, ..gigabit() };
        let mut scene = Scene::new(3, link).flow(0.0, Source::Endless).flow(2.0, Source::Endless);
        scene.until(10.0);
        let before = scene.net.counters();
        let got = scene.until(25.0);
        let (index, share) = (index(&got), share(&link, got.iter().sum(), 15.0));
        assert!(index > 0.9 && share > 0.85, "{got:?}: {index}, {share}");
        let lost = scene.net.counters().overflowed - before.overflowed;
        assert!(
            u64::from(got.iter().sum::<u32>()) > 20 * lost,
            "{got:?}, {lost} lost in the queue"
        );
    }
}

#[test]
fn eight_streams_share_a_slower_bottleneck() {
    let mut scene = Scene::new(4, tenth());
    for n in 0..8 {
        scene = scene.flow(0.1 * f64::from(n), Source::Endless);
    }
    scene.until(10.0);
    let got = scene.until(30.0);
    let (index, share) = (index(&got), share(&tenth(), got.iter().sum(), 20.0));
    assert!(index > 0.8 && share > 0.8, "{got:?}: {index}, {share}");
}

#[test]
fn bottleneck_that_becomes_narrow_and_wide_again_is_filled() {
    let mut scene = Scene::new(5, gigabit())
        .flow(0.0, Source::Endless)
        .becomes(3.0, tenth())
        .becomes(8.0, gigabit());
    scene.until(5.0);
    let narrow = share(&tenth(), scene.until(8.0)[0], 3.0);
    scene.until(12.0);
    let wide = share(&gigabit(), scene.until(14.0)[0], 2.0);
    assert!(narrow > 0.7 && wide > 0.7, "{narrow}, {wide}");
    assert!(scene.flows[0].stall < Duration::from_secs(1), "{:?}", scene.flows[0].stall);
}

/// A program sends little for a while and then much. The stream has the path's rate at once.
#[test]
fn little_to_send_does_not_make_a_stream_forget_the_rate() {
    let mut scene = Scene::new(6, gigabit()).flow(0.0, Source::Endless);
    scene.until(2.0);
    // Items pushed before still go out.
    scene.flows[0].source = Source::Portions(20, Duration::from_millis(5));
    scene.net.set_timer(of(seconds(2.2)), Timer::Portion(0));
    scene.until(6.0);
    scene.flows[0].source = Source::Endless;
    scene.until(6.1);
    let share = share(&gigabit(), scene.until(6.6)[0], 0.5);
    assert!(share > 0.8, "{share}");
}

/// After an idle time a stream continues, paced, with its model of the path.
#[test]
fn stream_that_was_idle_goes_on_as_fast_as_before() {
    let mut scene = Scene::new(7, gigabit()).flow(0.0, Source::Endless);
    scene.until(2.0);
    scene.flows[0].source = Source::Portions(0, Duration::from_secs(3));
    scene.until(5.0);
    assert_eq!((scene.flows[0].tx.in_flight(), scene.flows[0].tx.backlog()), (0, 0));
    let before = scene.net.counters();
    scene.flows[0].source = Source::Endless;
    scene.pump(0);
    scene.until(5.1);
    let share = share(&gigabit(), scene.until(5.6)[0], 0.5);
    assert!(share > 0.8, "{share}");
    let overflowed = scene.net.counters().overflowed - before.overflowed;
    assert!(overflowed < 100, "{overflowed} frames lost in the queue");
}

/// The program's buffer limits the stream. A loss of 1 % delays later frames but lowers no bound.
#[test]
fn loss_does_not_slow_down_a_stream_that_its_program_limits() {
    let mut scene = Scene::new(8, Link { loss: 0.01, ..gigabit() }).flow(0.0, Source::UpTo(560));
    let (first, second) = (scene.until(4.0)[0], scene.until(8.0)[0]);
    assert!(
        first > 100_000 && second > 100_000,
        "{first} and {second} frames in four seconds each"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_stream_stands_still_on_a_bad_network(seed: u64, streams in 1usize..4) {
        let mut scene = Scene::new(seed, bad(tenth()));
        for _ in 0..streams {
            scene = scene.flow(0.0, Source::Endless);
        }
        let got = scene.until(6.0);
        let stall = scene.flows.iter().map(|flow| flow.stall).max().expect("a stream");
        prop_assert!(stall < Duration::from_secs(1), "{:?}", stall);
        prop_assert!(got.iter().all(|&got| got > 600), "{:?}", got);
    }

    #[test]
    fn one_percent_of_loss_leaves_most_to_streams_whatever_is_lost(seed: u64) {
        let link = Link { loss: 0.01, ..tenth() };
        let mut scene = Scene::new(seed, link).flow(0.0, Source::Endless).flow(0.5, Source::Endless);
        scene.until(2.0);
        let got = scene.until(8.0);
        let share = share(&link, got.iter().sum(), 6.0);
        prop_assert!(share > 0.7, "{:?}: {}", got, share);
    }
}

/// Compares a CUBIC stream with a stream of this crate in the second half minute, whichever began first. Their shares
/// differ at most by `factor`. Two CUBIC streams can differ by two in that time, because CUBIC's cycle takes 15 seconds
/// on the faster path.
fn share_beside_cubic(link: &Link, quarters: u64, factor: f64) {
    let link = Link { queue: link.queue.map(|queue| queue * quarters / 4), ..*link };
    for (cubic, stream) in [(0.0, 6.0), (6.0, 0.0)] {
        let mut scene = Scene::new(9, link).cubic(cubic).flow(stream, Source::Endless);
        scene.until(30.0);
        let got = scene.until(60.0);
        let ours = f64::from(got[1]) / f64::from(got[0]);
        let share = share(&link, got.iter().sum(), 30.0);
        let holds = ours < factor && ours > 0.35 && share > 0.95;
        assert!(holds, "{got:?} where {:?} bytes wait: {ours}, {share}", link.queue);
    }
}

#[test]
fn cubic_keeps_its_share_where_a_queue_holds_what_the_path_does() {
    share_beside_cubic(&gigabit(), 4, 2.5);
    share_beside_cubic(&tenth(), 4, 1.5);
}

#[test]
fn cubic_keeps_its_share_where_a_queue_holds_twice_what_the_path_does() {
    share_beside_cubic(&gigabit(), 8, 1.5);
    share_beside_cubic(&tenth(), 8, 1.5);
}

#[test]
fn cubic_keeps_its_share_where_a_queue_holds_half_of_what_the_path_does() {
    share_beside_cubic(&tenth(), 2, 1.5);
}
