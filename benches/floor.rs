//! The time that a machine charges for a flip's system calls alone.
//!
//! A change of a pod that comes by itself is five messages in and two out: the watch event of the pod, the writes of
//! a slice and of an Endpoints object, their answers, and the watch events of both. This program does nothing but
//! receive and send that many bytes, on five connections of one epoll loop in one thread, as a process of its own: no
//! HTTP, no JSON, no state, no timer. No controller that is asked the same can be charged less on the same machine.
//!
//! ```text
//! cargo bench --bench floor
//! ```

use mio::net::TcpStream as Polled;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Changes a second, as in the load test that this stands beside.
const RATE: u32 = 200;
/// Changes in one run.
const ROUNDS: u32 = 2_000;
/// Bytes of a pod's watch event.
const POD: usize = 3_000;
/// Bytes of a write: an object of 50 endpoints.
const WRITE: usize = 12_000;
/// Bytes of an answer, and of a watch event of an object's metadata.
const SHORT: usize = 900;
/// The connections: pods, slices, Endpoints, and those of two requests.
const CONNECTIONS: usize = 5;
/// The connections of the requests.
const REQUESTS: [usize; 2] = [3, 4];
/// More than the caches of a core hold.
const CACHES: usize = 32 << 20;

/// The other work of the machine meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Neighbour {
    /// No other work.
    Quiet,
    /// Between any two changes something goes through more memory than the caches hold, as a server and a load
    /// generator on the same cores do.
    Busy,
}

fn main() {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("--client"), Some(address)) => client(&address),
        _ => {
            for neighbour in [Neighbour::Quiet, Neighbour::Busy] {
                let (micros, wakes) = measure(neighbour);
                println!(
                    "floor: {RATE} changes/s, {neighbour:?} neighbour: {micros:.0} µs of CPU a change, \
                     {wakes:.1} wakes"
                );
            }
        }
    }
}

/// The CPU time that the client is charged for a change, in microseconds, and how often it waited.
fn measure(neighbour: Neighbour) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let program = std::env::current_exe().expect("this program is a file");
    let mut client = Command::new(program)
        .args(["--client", &address])
        .stdin(Stdio::null())
        .spawn()
        .expect("this program can be started again");
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| listener.accept().expect("the client connects").0)
        .collect();
    for connection in &connections {
        connection.set_nodelay(true).expect("it is a TCP socket");
    }
    // The answers: each as soon as a write has come, and its watch event with it.
    let answers: Vec<_> = REQUESTS
        .map(|at| {
            let requests = connections[at].try_clone().expect("a socket can be shared");
            let watch = connections[at - 2].try_clone().expect("a socket can be shared");
            spawn(move || answer(requests, watch))
        })
        .into_iter()
        .collect();
    let mut memory = vec![1u8; if neighbour == Neighbour::Busy { CACHES } else { 0 }];
    let event = [b'x'; POD];
    let pause = Duration::from_secs(1) / RATE;
    let mut begin = (0.0, 0);
    // The first are to warm up.
    for round in 0..ROUNDS + 100 {
        if round == 100 {
            begin = usage(&client);
        }
        sleep(pause);
        for line in memory.chunks_mut(64) {
            line[0] = line[0].wrapping_add(1);
        }
        connections[0].write_all(&event).expect("the client reads");
    }
    sleep(Duration::from_millis(200));
    let end = usage(&client);
    for connection in connections.drain(..) {
        let _ = connection.shutdown(std::net::Shutdown::Both);
    }
    for thread in answers {
        thread.join().expect("it ends with its connection");
    }
    client.wait().expect("it ends with its connections");
    (
        (end.0 - begin.0) / f64::from(ROUNDS),
        (end.1 - begin.1) as f64 / f64::from(ROUNDS),
    )
}

fn answer(mut requests: TcpStream, mut watch: TcpStream) {
    let mut body = vec![0; WRITE];
    let short = [b'y'; SHORT];
    while requests.read_exact(&mut body).is_ok() {
        if requests.write_all(&short).is_err() || watch.write_all(&short).is_err() {
            return;
        }
    }
}

/// The CPU time of a process in microseconds, to the nanosecond, and how often it gave its core up.
fn usage(process: &Child) -> (f64, u64) {
    let directory = format!("/proc/{}", process.id());
    let read = |file: &str| std::fs::read_to_string(format!("{directory}/{file}")).expect("the client runs");
    let nanoseconds = read("schedstat");
    let nanoseconds = nanoseconds.split_whitespace().next();
    let nanoseconds: f64 = nanoseconds
        .and_then(|text| text.parse().ok())
        .expect("the first number is the time on a core");
    let status = read("status");
    let waits = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let waits = waits.and_then(|text| text.trim().parse().ok());
    (nanoseconds / 1000.0, waits.expect("the kernel counts them"))
}

/// Reads from all connections, and answers each pod event on the first one by a write on each connection of requests.
fn client(address: &str) {
    let mut poll = Poll::new().expect("there is epoll");
    let mut connections: Vec<Polled> = (0..CONNECTIONS)
        .map(|at| {
            let connection = TcpStream::connect(address).expect("the other process listens");
            connection.set_nodelay(true).expect("it is a TCP socket");
            connection.set_nonblocking(true).expect("it is a socket");
            let mut connection = Polled::from_std(connection);
            poll.registry()
                .register(&mut connection, Token(at), Interest::READABLE)
                .expect("epoll takes sockets");
            connection
        })
        .collect();
    let mut events = Events::with_capacity(64);
    let mut buffer = vec![0; 64 << 10];
    let body = vec![b'z'; WRITE];
    let mut arrived = 0;
    loop {
        poll.poll(&mut events, None).expect("waiting works");
        for event in &events {
            let Token(at) = event.token();
            let read = match connections[at].read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => panic!("a connection broke: {error}"),
            };
            if at > 0 {
                continue;
            }
            arrived += read;
            while arrived >= POD {
                arrived -= POD;
                for at in REQUESTS {
                    connections[at]
                        .write_all(&body)
                        .expect("the buffer of a socket holds a write");
                }
            }
        }
    }
}
