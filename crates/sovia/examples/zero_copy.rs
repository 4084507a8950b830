//! Sends a stream of messages without a copy: the sender writes each message to the memory from which the receiver
//! reads it.
//!
//!     zero_copy server              prints its address, and sums what comes
//!     zero_copy client ADDRESS      sends a gigabyte in pieces of 32 KB

use sovia::{TcpListener, TcpStream};
use std::env;
use std::io::{self, Read, Write};
use std::time::Instant;

const PIECE: usize = 32 << 10;
const PIECES: u64 = 1 << 15;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => serve(),
        ["client", address] => stream(address),
        _ => Err(io::Error::other("usage: zero_copy server | zero_copy client ADDRESS")),
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}

fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let mut stream = stream?;
        let (mut bytes, mut in_place, mut total) = (0u64, 0u64, 0u64);
        loop {
            // Reads the message in place. The buffer is given back at the end of its scope.
            let message = stream.borrow()?;
            if message.is_empty() {
                break;
            }
            bytes += message.len() as u64;
            in_place += u64::from(message.is_in_place());
            total = total.wrapping_add(sum(&message));
        }
        println!("{bytes} bytes, {in_place} messages in place");
        stream.write_all(&total.to_le_bytes())?;
    }
    Ok(())
}

fn stream(address: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut expected = 0u64;
    let mut in_place = 0u64;
    let start = Instant::now();
    for number in 0..PIECES {
        let mut message = stream.reserve(PIECE)?;
        message.fill(number as u8);
        in_place += u64::from(message.is_in_place());
        message.commit(PIECE)?;
        expected = expected.wrapping_add(u64::from(number as u8) * PIECE as u64);
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    assert_eq!(u64::from_le_bytes(answer), expected);
    let seconds = start.elapsed().as_secs_f64();
    let gigabytes = (PIECES * PIECE as u64) as f64 / 1e9;
    println!("{:.1} GB/s, {in_place} of {PIECES} messages in place", gigabytes / seconds);
    Ok(())
}
