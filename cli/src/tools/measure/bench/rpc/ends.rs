//! The two processes of a measurement: `rpc-end server`, and `rpc-end client PORT SECONDS SIZES`.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Subcommand;

use super::Measured;
use super::tirpc::Library;
use crate::measure::bench::process::WATCHDOG_SECONDS;
use crate::output::put_line;

/// End of a Sun RPC connection.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Over libsovia-rpc, which is here
    #[arg(long)]
    via: Option<PathBuf>,
    /// TCP address of the server
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
    at: Ipv4Addr,
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand)]
enum End {
    /// Says its port, and serves until it is killed
    Server,
    /// Calls for so long with each size, and says what it has measured
    Client {
        port: u16,
        seconds: f64,
        #[arg(value_delimiter = ',')]
        sizes: Vec<usize>,
    },
}

/// Runs an end. Returns the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<i32> {
    nix::unistd::alarm::set(WATCHDOG_SECONDS);
    let library = Library::open(args.via.as_deref())?;
    match &args.end {
        End::Server => serve(&library, args.at, args.via.is_some()),
        End::Client { port, seconds, sizes } => {
            call(&library, SocketAddrV4::new(args.at, *port), *seconds, sizes)
        }
    }
}

fn serve(library: &Library, at: Ipv4Addr, via: bool) -> anyhow::Result<i32> {
    let say = |port: u16| put_line!("{port}");
    if via {
        library.serve_via(say)?;
    } else {
        let listener = TcpListener::bind((at, 0)).context("cannot listen")?;
        say(listener.local_addr()?.port())?;
        library.serve(listener)?;
    }
    Ok(1)
}

fn call(
    library: &Library,
    server: SocketAddrV4,
    seconds: f64,
    sizes: &[usize],
) -> anyhow::Result<i32> {
    let mut client = library.client(server)?;
    // These calls last until the ends have completed the rendezvous, and a little longer.
    for _ in 0..1000 {
        client.call(0)?;
    }
    for &size_bytes in sizes {
        let mut times = Vec::new();
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut last = Instant::now();
        while last < end || times.len() < 100 {
            client.call(size_bytes)?;
            let now = Instant::now();
            times.push((now - last).as_secs_f64() * 1e6);
            last = now;
        }
        times.sort_by(f64::total_cmp);
        let measured = Measured {
            size_bytes,
            median_us: times[times.len() / 2],
            p99_us: times[times.len() * 99 / 100],
        };
        put_line!("{}", serde_json::to_string(&measured)?)?;
    }
    Ok(0)
}
