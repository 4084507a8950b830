//! One process of a measurement: `sovia endpoint`. Only `sovia bench` calls it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, RawFd};

use ::via::Nic;
use anyhow::Context;
use sovia_nic::AnyNic;
use via_shm::ShmNic;

use super::layer::Layer;
use super::link::bytes::Bytes;
use super::link::eventfd::Eventfds;
use super::link::region::Region;
use super::link::slots::{self, Slots};
use super::link::{tcp, unix, via};
use super::process::WATCHDOG_SECONDS;
use super::task::{Errand, Figure, Role, Scenario};
use super::{cpus, scenario};

// The process's task.
#[derive(clap::Args)]
pub(crate) struct Args {
    errand: String,
    /// The errand is of the papers' benchmarks
    #[arg(long)]
    papers: bool,
    /// The errand is of `bench connections`
    #[arg(long, conflicts_with = "papers")]
    connections: bool,
    /// The errand is of `bench idle`
    #[arg(long, conflicts_with_all = ["papers", "connections"])]
    idle: bool,
}

/// Does this process's part of the measurement. A requester prints its figures in JSON. A responder that chooses the
/// address prints the address. Nothing else goes to standard output.
pub(crate) fn endpoint(args: &Args) -> anyhow::Result<i32> {
    if args.papers {
        super::papers::endpoint(&args.errand)?;
        return Ok(0);
    }
    if args.connections {
        super::connections::endpoint(&args.errand)?;
        return Ok(0);
    }
    if args.idle {
        super::idle::endpoint(&args.errand)?;
        return Ok(0);
    }
    let errand: Errand = serde_json::from_str(&args.errand)
        .context("cannot read the task of this benchmark process")?;
    let limit = errand.task.seconds.ceil() as u32 + WATCHDOG_SECONDS;
    // SAFETY: alarm has no preconditions. The default action of its signal ends this process.
    unsafe { libc::alarm(limit) };
    if let Some(cpu) = errand.cpu {
        cpus::pin(cpu)?;
    }
    // The priority is raised only now: while this process starts, it must not keep the waiting parent off its
    // processor. The parent must not be raised either, because its wait for a zombie could then spin for ever.
    if let Some(priority) = errand.task.realtime {
        cpus::raise(priority)?;
    }
    let figures = play(&errand)?;
    if errand.role == Role::Requester {
        say(&serde_json::to_string(&figures)?)?;
    }
    Ok(0)
}

fn play(errand: &Errand) -> anyhow::Result<Vec<Figure>> {
    let Errand { task, role, .. } = errand;
    match task.layer {
        Layer::Ring => {
            let [file] = inherited(errand)?;
            let region = Region::map(&file)?;
            if task.size_bytes <= slots::MESSAGE_BYTES_MAX {
                scenario::play(&mut Slots::new(region.slots(*role), task.size_bytes), task, *role)
            } else {
                scenario::play(&mut Bytes::new(region.bytes(*role)), task, *role)
            }
        }
        Layer::Eventfd => {
            let [there, back] = inherited(errand)?;
            scenario::play(&mut Eventfds::new(there, back, *role), task, *role)
        }
        Layer::Via => {
            let own = format!("bench-{}", std::process::id());
            let nic = ShmNic::open(errand.place.as_ref().unwrap_or(&own))?;
            if errand.place.is_none() {
                say(&own)?;
            }
            let host = nic.attributes().local_address.clone();
            play_on(nic, &host, errand)
        }
        Layer::Nic => {
            let places = task
                .nic
                .as_ref()
                .context("the layer `nic` needs the place of a NIC: use --nic PLACE")?;
            let nic = AnyNic::open_at(places.of(*role))?;
            let host = match &errand.place {
                Some(host) => serde_json::from_str(host)
                    .context("cannot read the address of the other end's NIC")?,
                None => {
                    let host = nic.attributes().local_address.clone();
                    say(&serde_json::to_string(&host)?)?;
                    host
                }
            };
            play_on(nic, &host, errand)
        }
        Layer::Tcp | Layer::Sovia if task.scenario == Scenario::Connect => match &errand.place {
            Some(port) => scenario::connect::request(port, task),
            None => {
                let (listener, port) = tcp::listen()?;
                say(&port)?;
                scenario::connect::respond(&listener, task)?;
                Ok(Vec::new())
            }
        },
        Layer::Tcp | Layer::Sovia => {
            let mut socket = match &errand.place {
                Some(port) => tcp::connect(port, task)?,
                None => {
                    let (listener, port) = tcp::listen()?;
                    say(&port)?;
                    tcp::accept(&listener, task)?
                }
            };
            scenario::play(&mut socket, task, *role)
        }
        Layer::Unix => {
            let mut socket = match &errand.place {
                Some(name) => unix::connect(name, task)?,
                None => {
                    let (listener, name) = unix::listen()?;
                    say(&name)?;
                    unix::accept(&listener, task)?
                }
            };
            scenario::play(&mut socket, task, *role)
        }
    }
}

/// Measures over VIs of a NIC. The responder's NIC has the host address `host`.
fn play_on<N: Nic>(nic: N, host: &[u8], errand: &Errand) -> anyhow::Result<Vec<Figure>> {
    let Errand { task, role, .. } = errand;
    let mut end = via::join(nic, host, task, *role)?;
    let figures = scenario::play(&mut end, task, *role)?;
    if *role == Role::Responder {
        end.linger();
    }
    Ok(figures)
}

/// Takes the descriptors whose numbers the errand's `place` lists.
fn inherited<const N: usize>(errand: &Errand) -> anyhow::Result<[File; N]> {
    let numbers: Result<Vec<RawFd>, _> =
        errand.place.as_deref().unwrap_or_default().split(',').map(str::parse).collect();
    let numbers: [RawFd; N] =
        numbers?.try_into().map_err(|_| anyhow::anyhow!("expected {N} file descriptors"))?;
    // SAFETY: the parent has opened the descriptors for this process and names them in the errand. No other code in
    // this process owns them.
    Ok(numbers.map(|number| unsafe { File::from_raw_fd(number) }))
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
