//! An echo server and its client, in the style of `std::net`.
//!
//!     echo server              prints its address, and answers
//!     echo client ADDRESS      ten thousand round trips

use sovia::{TcpListener, TcpStream};
use std::env;
use std::io::{self, Read, Write};
use std::thread;
use std::time::Instant;

const ROUNDS: u32 = 10_000;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => serve(),
        ["client", address] => ask(address),
        _ => Err(io::Error::other("usage: echo server | echo client ADDRESS")),
    }
}

fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || echo(stream));
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

fn ask(address: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut answer = [0; 64];
    let start = Instant::now();
    for round in 0..ROUNDS {
        let question = [round as u8; 64];
        stream.write_all(&question)?;
        stream.read_exact(&mut answer)?;
        assert_eq!(question, answer);
    }
    let each = start.elapsed() / ROUNDS;
    let path = if stream.is_accelerated() { "over a VI" } else { "over TCP" };
    println!("{ROUNDS} round trips {path}, {each:?} each");
    Ok(())
}
