//! A client that says exactly what a test wants to be said.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any answer takes on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Asks for something on a connection of its own.
pub(crate) async fn get(address: SocketAddr, target: &str) -> io::Result<Answer> {
    request(address, &format!("GET {target} HTTP/1.1\r\n")).await
}

/// Sends the beginning of a request, and takes the answer.
pub(crate) async fn request(address: SocketAddr, head: &str) -> io::Result<Answer> {
    exchange(TcpStream::connect(address).await?, head).await
}

/// The same on a connection that there is.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
) -> io::Result<Answer> {
    let text = format!("{head}Host: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await?;
    let mut text = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut text))
        .await
        .map_err(|_| io::ErrorKind::TimedOut)??;
    let text = String::from_utf8_lossy(&text);
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        code: code.ok_or(io::ErrorKind::InvalidData)?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}
