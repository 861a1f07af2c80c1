//! Slow, endless, silent and many: /livez answers all the same.

use super::http_client::get;
use super::serve;
use endpointd::ops::admin::Limits;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Far longer than anything here takes, far shorter than the test may.
const LIMIT: Duration = Duration::from_secs(20);

async fn is_alive(address: SocketAddr) {
    let answer = timeout(LIMIT, get(address, "/livez")).await.unwrap().unwrap();
    assert_eq!((answer.code, &*answer.body), (200, "ok"));
}

/// Reads until the other end closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // One that is cut off is closed too.
    let _ = timeout(LIMIT, stream.read_to_end(&mut text))
        .await
        .expect("the connection is closed in time");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn two_hundred_idle_connections_are_in_nobodys_way() {
    let (address, _) = serve(Limits::default()).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    for _ in 0..3 {
        is_alive(address).await;
    }
    // The connections that came first have given way; those that came last are still there.
    assert_eq!(rest(&mut idle[0]).await, "");
    let last = idle.last_mut().unwrap();
    last.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(last).await.ends_with("ok"));
}

#[tokio::test]
async fn headers_that_come_byte_by_byte_are_cut_off() {
    let idle = Duration::from_millis(400);
    let (address, _) = serve(Limits {
        idle,
        ..Limits::default()
    })
    .await;
    let start = Instant::now();
    let mut slow = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = slow.split();
    let drip = async {
        for byte in b"GET /livez HTTP/1.1\r\nX-A: "
            .iter()
            .chain(std::iter::repeat_n(&b'a', 2000))
        {
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let mut text = Vec::new();
    tokio::select! {
        _ = reader.read_to_end(&mut text) => {}
        () = drip => panic!("it went on for twenty seconds"),
    }
    assert!(Instant::now().saturating_duration_since(start) >= idle);
    is_alive(address).await;
    // Kept alive for as long, and not longer.
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let start = Instant::now();
    assert!(rest(&mut kept).await.ends_with("ok"));
    assert!(Instant::now().saturating_duration_since(start) >= idle / 2);
}

#[tokio::test]
async fn headers_without_an_end_are_refused() {
    let (address, _) = serve(Limits::default()).await;
    let mut endless = TcpStream::connect(address).await.unwrap();
    endless.write_all(b"GET /livez HTTP/1.1\r\nX-A: ").await.unwrap();
    let mut sent = 0;
    while sent < 16 << 20 && endless.write_all(&[b'a'; 4096]).await.is_ok() {
        sent += 4096;
    }
    assert!(sent < 16 << 20, "it reads for ever");
    let mut many = TcpStream::connect(address).await.unwrap();
    let headers = "X-A: a\r\n".repeat(100);
    let text = format!("GET /livez HTTP/1.1\r\n{headers}\r\n");
    many.write_all(text.as_bytes()).await.unwrap();
    let answer = rest(&mut many).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    is_alive(address).await;
}

#[tokio::test]
async fn bodies_are_not_read() {
    let (address, _) = serve(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        1_u64 << 40
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut sent, piece) = (0_usize, vec![b'a'; 65_536]);
    while sent < 64 << 20 && stream.write_all(&piece).await.is_ok() {
        sent += 65_536;
    }
    assert!(sent < 64 << 20, "it reads for ever");
    is_alive(address).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_the_answer_loses_the_connection() {
    let idle = Duration::from_millis(400);
    let (address, _) = serve(Limits {
        idle,
        ..Limits::default()
    })
    .await;
    let mut deaf = TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics?verbose HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut asked = 0_usize;
    let flood = async {
        // Until neither side's buffers take any more, and then until the server has had enough.
        while deaf.write_all(request).await.is_ok() {
            asked += 1;
        }
    };
    timeout(LIMIT, flood)
        .await
        .expect("the connection is closed in time");
    assert!(asked > 0);
    is_alive(address).await;
}
