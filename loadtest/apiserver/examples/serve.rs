//! Runs a server until it is interrupted: `cargo run -p memory-apiserver --example serve -- [PORT [no-gc]]`.

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let gc = std::env::args().nth(2).as_deref() != Some("no-gc");
    let config = memory_apiserver::Config::default()
        .port(port)
        .gc(gc)
        .managed_fields(true);
    let server = memory_apiserver::start(config).await?;
    println!("{}", server.url());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
