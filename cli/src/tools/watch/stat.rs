//! `sovia stat`: prints rates for each interval, or totals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use sovia_control::{Junk, Reason};
use sovia_stats_page::{Family, Rates, Scan, key, scan_of};

use crate::output;
use crate::watch::busy::{Sum, by_process};
use crate::watch::columns::{Side, columns, json_lines};
use crate::watch::filter::look;
use crate::watch::numbers;
use crate::watch::ps::named;
use crate::watch::units::short;

/// Report what programs under Sovia do in each interval
///
/// Each line shows what a process did per second, on average over the interval. Bytes are counted on TCP and on VIs,
/// messages and sleeps only on VIs.
///
/// SAVED is the number of system calls that VIs saved per second. TCP would have needed one call for each message sent
/// and one for each packet received. From this number, the calls to sleep and to wake a sleeping peer are subtracted.
///
/// With --totals, the report has totals for each family of forked processes, since the family's first process started.
/// The report also has the reasons why connections were on TCP, and includes connections that have ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report this process only
    #[arg(value_name = "PID", value_parser = numbers::pid)]
    pid: Option<i32>,
    /// Seconds between two samples
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Number of intervals to report [default: all until the command is interrupted]
    #[arg(long, short = 'n', value_name = "COUNT")]
    count: Option<u64>,
    /// Report totals since the programs started
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    totals: bool,
    /// Print one JSON object for each process and interval, one per line; with --totals, one for each family of
    /// processes
    #[arg(long)]
    json: bool,
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or("expected a number of seconds from 0.01 to 86400".into())
}

pub(crate) fn stat(args: &Args) -> anyhow::Result<()> {
    let first = look_at(args.pid)?;
    if args.totals {
        let text = if args.json { totals_as_json(&first)? } else { totals(&first) };
        return output::put(text);
    }
    let mut rates = Rates::begin(&first);
    let mut lines = 0;
    for n in 0.. {
        if args.count.is_some_and(|count| n >= count) {
            break;
        }
        sleep(args.interval);
        let scan = look_at(args.pid)?;
        let sums = by_process(&scan, &rates.next(&scan));
        let mut text = if args.json { as_json(&scan, &sums)? } else { table(&scan, &sums) };
        if args.json {
            // Each line is complete.
        } else if args.pid.is_some() {
            // One line after the other, and a header every 20 lines.
            if lines % 20 != 0 {
                text = text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
            }
            lines += 1;
        } else if n != 0 {
            text.insert(0, '\n');
        }
        output::put(text)?;
    }
    Ok(())
}

fn look_at(pid: Option<i32>) -> anyhow::Result<Scan> {
    let Some(pid) = pid else { return look() };
    numbers::ensure_exists(pid)?;
    Ok(scan_of([pid]))
}

/// Rates of a process, in JSON. Keys are stable, and new ones may be added.
#[derive(Default, Serialize)]
pub(super) struct Out<'a> {
    pid: i32,
    program: &'a str,
    uid: u32,
    /// Numbers of connections with at least one direction on a VI, and of others.
    via: usize,
    tcp: usize,
    bytes_sent_per_second: f64,
    bytes_received_per_second: f64,
    messages_sent_per_second: f64,
    calls_saved_per_second: f64,
    sleeps_per_second: f64,
}

fn as_json(scan: &Scan, sums: &BTreeMap<usize, Sum>) -> anyhow::Result<String> {
    json_lines(sums.iter().map(|(&at, Sum { on_vi, on_tcp, rate, .. })| {
        let process = &scan.processes[at];
        Out {
            pid: process.pid,
            program: &process.program,
            uid: process.uid,
            via: *on_vi,
            tcp: *on_tcp,
            bytes_sent_per_second: rate.sent,
            bytes_received_per_second: rate.received,
            messages_sent_per_second: rate.messages_sent,
            calls_saved_per_second: rate.saved(),
            sleeps_per_second: rate.sleeps,
        }
    }))
}

/// Counts of a family, in JSON. Keys are stable, and new ones may be added.
#[derive(Default, Serialize)]
pub(super) struct TotalsOut {
    pids: Vec<i32>,
    programs: Vec<String>,
    connections: usize,
    ends: u64,
    accelerated: u64,
    stayed: u64,
    /// Number of connections by reason.
    stayed_for: BTreeMap<String, u64>,
    /// Number of connections by kind.
    left_aside: BTreeMap<String, u64>,
    bytes_sent: u64,
    bytes_received: u64,
    messages_sent: u64,
    sleeps: u64,
    wakes: u64,
    messages_handled: u64,
    messages_registered: u64,
}

fn totals_as_json(scan: &Scan) -> anyhow::Result<String> {
    json_lines(scan.families.iter().enumerate().filter_map(|(at, family)| {
        let page = family.totals.as_ref()?;
        let open = scan.connections.iter().filter(|connection| connection.family == at);
        let traffic = family.traffic(open.clone());
        let processes = || family.processes.iter().map(|&process| &scan.processes[process]);
        let not_none = |&(_, count): &(String, u64)| count != 0;
        Some(TotalsOut {
            pids: processes().map(|process| process.pid).collect(),
            programs: processes().map(|process| process.program.clone()).collect(),
            connections: open.count(),
            ends: page.recorded(),
            accelerated: page.accelerated(),
            stayed: page.stayed(),
            stayed_for: Reason::ALL
                .iter()
                .map(|&reason| (key(reason), page.stayed_for(reason)))
                .filter(not_none)
                .collect(),
            left_aside: Junk::ALL
                .iter()
                .map(|&junk| (key(junk), page.junk(junk)))
                .filter(not_none)
                .collect(),
            bytes_sent: traffic.bytes_sent,
            bytes_received: traffic.bytes_received,
            messages_sent: traffic.messages_sent,
            sleeps: traffic.sleeps,
            wakes: traffic.rings,
            messages_handled: traffic.messages_handled,
            messages_registered: traffic.messages_registered,
        })
    }))
}

fn table(scan: &Scan, sums: &BTreeMap<usize, Sum>) -> String {
    let line = |(&process, sum): (&usize, &Sum)| -> [String; 8] {
        let rate = &sum.rate;
        [
            format!("{:>7}", sum.on_vi),
            format!("{:>7}", sum.on_tcp),
            format!("{:>7}", short(rate.sent)),
            format!("{:>7}", short(rate.received)),
            format!("{:>7}", short(rate.messages_sent)),
            format!("{:>7}", short(rate.saved())),
            format!("{:>7}", short(rate.sleeps)),
            named(&scan.processes[process]),
        ]
    };
    let lines: Vec<_> = sums.iter().map(line).collect();
    let header = [
        ("VIA", Side::Right),
        ("TCP", Side::Right),
        ("SENT/s", Side::Right),
        ("RCVD/s", Side::Right),
        ("MSGS/s", Side::Right),
        ("SAVED/s", Side::Right),
        ("SLEEPS/s", Side::Right),
        ("PROCESS", Side::Left),
    ];
    columns(header, &lines, |line| line.each_ref())
}

/// Returns the counts of all families.
fn totals(scan: &Scan) -> String {
    let families = scan.families.iter().enumerate();
    families.map(|(at, family)| totals_of(scan, at, family)).collect::<Vec<_>>().join("\n")
}

fn totals_of(scan: &Scan, at: usize, family: &Family) -> String {
    let names = family.processes.iter().map(|&process| named(&scan.processes[process]));
    let mut text = names.collect::<Vec<_>>().join(" ") + "\n";
    let Some(page) = &family.totals else { return text };
    let mut line = |what: &str, count: u64| {
        if count != 0 {
            let _ = writeln!(text, "{count:>14}  {what}");
        }
    };
    let open = scan.connections.iter().filter(|connection| connection.family == at);
    let traffic = family.traffic(open.clone());
    line("connections now", open.count() as u64);
    line("ends of connections so far", page.recorded());
    line("moved to a VI", page.accelerated());
    line("stayed on TCP, or went back to TCP", page.stayed());
    for &reason in Reason::ALL {
        line(&format!("  {}", reason.describe()), page.stayed_for(reason));
    }
    for &junk in Junk::ALL {
        line(
            &format!("messages ignored while ends looked for each other: {}", junk.describe()),
            page.junk(junk),
        );
    }
    line("bytes sent on VIs", traffic.bytes_sent);
    line("messages sent on VIs", traffic.messages_sent);
    line("bytes received on VIs", traffic.bytes_received);
    line("times a thread slept", traffic.sleeps);
    line("times a sleeping peer was woken", traffic.rings);
    line("messages handled by a thread of Sovia", traffic.messages_handled);
    line("messages sent from registered memory", traffic.messages_registered);
    text
}
