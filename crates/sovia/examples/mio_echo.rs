//! An echo server and its clients in one thread, with mio's event loop.
//!
//!     mio_echo server              prints its address, and answers
//!     mio_echo client ADDRESS      streams at once, each with its round trips

use mio::{Events, Interest, Poll, Token};
use sovia::{TcpListener, TcpStream};
use std::collections::HashMap;
use std::env;
use std::io::{self, Read, Write};

const STREAMS: usize = 16;
const ROUNDS: u32 = 500;
const LISTENER: Token = Token(0);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => serve(),
        ["client", address] => ask(address),
        _ => Err(io::Error::other("usage: mio_echo server | mio_echo client ADDRESS")),
    }
}

/// A stream, and the bytes that the server has read from it and not yet written back.
struct Client {
    stream: TcpStream,
    waiting: Vec<u8>,
}

impl Client {
    /// Reads and writes until both directions would block, because an edge-triggered event is not repeated. Returns
    /// false at the end of the stream.
    fn go_on(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        loop {
            while !self.waiting.is_empty() {
                match self.stream.write(&self.waiting) {
                    Ok(n) => drop(self.waiting.drain(..n)),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                    Err(e) => return Err(e),
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => self.waiting.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) => return Err(e),
            }
        }
    }
}

fn serve() -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(64);
    let mut listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("{}", listener.local_addr()?);
    let mut clients: HashMap<Token, Client> = HashMap::new();
    let mut next = 1;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    let token = Token(next);
                    next += 1;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, token, both)?;
                    clients.insert(token, Client { stream, waiting: Vec::new() });
                }
            } else if let Some(client) = clients.get_mut(&event.token())
                && !client.go_on().unwrap_or(false)
                && let Some(mut client) = clients.remove(&event.token())
            {
                poll.registry().deregister(&mut client.stream)?;
            }
        }
    }
}

/// A stream of the client in the middle of a round trip.
struct Asking {
    stream: TcpStream,
    round: u32,
    /// Numbers of bytes of the request sent, and of the answer received.
    sent: usize,
    received: usize,
}

impl Asking {
    fn go_on(&mut self) -> io::Result<()> {
        while self.round < ROUNDS {
            let question = [self.round as u8; 64];
            while self.sent < question.len() {
                self.sent += self.stream.write(&question[self.sent..])?;
            }
            while self.received < question.len() {
                let mut answer = [0; 64];
                let n = self.stream.read(&mut answer[self.received..])?;
                assert!(n > 0, "the server has left");
                assert_eq!(answer[self.received..][..n], question[self.received..][..n]);
                self.received += n;
            }
            (self.sent, self.received) = (0, 0);
            self.round += 1;
        }
        Ok(())
    }
}

fn ask(address: &str) -> io::Result<()> {
    let address = address.parse().map_err(io::Error::other)?;
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(64);
    let mut all = Vec::new();
    for number in 0..STREAMS {
        let mut stream = TcpStream::connect_nonblocking(&address)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), both)?;
        all.push(Asking { stream, round: 0, sent: 0, received: 0 });
    }
    while all.iter().any(|asking| asking.round < ROUNDS) {
        poll.poll(&mut events, None)?;
        for event in &events {
            let asking = &mut all[event.token().0];
            match asking.go_on() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Not connected yet.
                Err(e) if e.kind() == io::ErrorKind::NotConnected => {}
                other => other?,
            }
        }
    }
    let accelerated = all.iter().filter(|asking| asking.stream.is_accelerated()).count();
    println!("{STREAMS} streams, {accelerated} over a VI");
    Ok(())
}
