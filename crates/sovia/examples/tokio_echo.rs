//! An echo server and its clients as tasks of tokio.
//!
//!     tokio_echo server              prints its address, and answers
//!     tokio_echo client ADDRESS      streams at once, each with its round trips

use sovia::tokio::{TcpListener, TcpStream};
use std::env;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STREAMS: usize = 16;
const ROUNDS: u32 = 500;

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => serve().await,
        ["client", address] => ask(address).await,
        _ => Err(io::Error::other("usage: tokio_echo server | tokio_echo client ADDRESS")),
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo(stream));
    }
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n]).await?,
        }
    }
}

async fn ask(address: &str) -> io::Result<()> {
    let address = address.parse().map_err(io::Error::other)?;
    let tasks: Vec<_> = (0..STREAMS)
        .map(|_| {
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await?;
                for round in 0..ROUNDS {
                    let question = [round as u8; 64];
                    stream.write_all(&question).await?;
                    let mut answer = [0; 64];
                    stream.read_exact(&mut answer).await?;
                    assert_eq!(question, answer);
                }
                io::Result::Ok(stream.get_ref().is_accelerated())
            })
        })
        .collect();
    let mut accelerated = 0;
    for task in tasks {
        accelerated += usize::from(task.await??);
    }
    println!("{STREAMS} streams, {accelerated} over a VI");
    Ok(())
}
