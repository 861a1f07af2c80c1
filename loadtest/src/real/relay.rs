//! A relay between endpointd and the API server whose connections can be cut, and held up.

use anyhow::Context;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A relay, which ends with all its connections when it is dropped.
pub(super) struct Relay {
    port: u16,
    /// Connections of an earlier number are cut.
    cuts: watch::Sender<u64>,
    /// While it is true, nothing passes, and connections stay open.
    held: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

// === impl Relay ===

impl Relay {
    /// A relay to a port of loopback.
    pub(super) async fn start(to: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.context("listening on loopback")?;
        let port = listener.local_addr()?.port();
        let (cuts, cut) = watch::channel(0);
        let (held, hold) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(
            listener,
            SocketAddr::from((Ipv4Addr::LOCALHOST, to)),
            cut,
            hold,
        ));
        Ok(Self {
            port,
            cuts,
            held,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection that there is.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Lets nothing pass, without closing a connection, until it is told otherwise.
    pub(super) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    cut: watch::Receiver<u64>,
    held: watch::Receiver<bool>,
) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(connect(client, to, cut.clone(), held.clone()));
                }
                Err(error) => tracing::warn!(%error, "the relay could not accept a connection"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(
    mut client: TcpStream,
    to: SocketAddr,
    mut cut: watch::Receiver<u64>,
    mut held: watch::Receiver<bool>,
) {
    cut.mark_unchanged();
    let pass = async {
        let mut server = TcpStream::connect(to).await?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        loop {
            // The relay may have gone, and this with it.
            let _ = held.wait_for(|held| !held).await;
            tokio::select! {
                biased;
                _ = held.wait_for(|held| *held) => {}
                done = copy_bidirectional(&mut client, &mut server) => return done.map(drop),
            }
        }
    };
    tokio::select! {
        biased;
        _ = cut.changed() => {}
        done = pass => if let Err(error) = done {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    /// A server that gives back what it gets, one connection at a time.
    async fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut from, mut to) = stream.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from, &mut to).await });
            }
        });
        port
    }

    async fn ask(stream: &mut TcpStream) -> std::io::Result<[u8; 4]> {
        let mut answer = [0; 4];
        stream.write_all(b"ping").await?;
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn connections_pass_are_held_up_and_are_cut() {
        let relay = Relay::start(echo().await).await.unwrap();
        let connect = async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port()))
                .await
                .unwrap()
        };
        let mut stream = connect().await;
        assert_eq!(ask(&mut stream).await.unwrap(), *b"ping");

        relay.hold(true);
        let mut answer = [0; 4];
        stream.write_all(b"late").await.unwrap();
        let waited = timeout(Duration::from_millis(200), stream.read_exact(&mut answer)).await;
        assert!(waited.is_err(), "nothing passes");
        relay.hold(false);
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, *b"late");

        relay.cut();
        assert_eq!(stream.read(&mut answer).await.unwrap_or(0), 0);
        assert_eq!(
            ask(&mut connect().await).await.unwrap(),
            *b"ping",
            "others may come"
        );
    }
}
