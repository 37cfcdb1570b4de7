//! A server on an engine of its own: `serve [address]`. Prints the address.

use std::net::SocketAddr;

use bpfdb_server::{Options, Server};

fn main() -> anyhow::Result<()> {
    let address: SocketAddr = match std::env::args().nth(1) {
        Some(address) => address.parse()?,
        None => ([127, 0, 0, 1], 0).into(),
    };
    let engine = bpfdb::Engine::create(&bpfdb::Options::default())?;
    let server = Server::start(&engine, &Options::at(address))?;
    println!("{}", server.address());
    server.run()?;
    Ok(())
}
