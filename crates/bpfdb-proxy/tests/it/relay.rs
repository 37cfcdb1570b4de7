//! A relay before PostgreSQL that swallows requests to cancel: a database that does not answer them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const CANCEL: [u8; 4] = 80_877_102u32.to_be_bytes();

pub(crate) struct Relay {
    pub(crate) port: u16,
    /// Requests to cancel that have arrived.
    pub(crate) cancels: Arc<AtomicUsize>,
}

impl Relay {
    /// Its threads end with the connections, the first one with the process.
    pub(crate) fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let cancels = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&cancels);
        thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || serve(socket, to, &counted));
            }
        });
        Self { port, cancels }
    }
}

fn serve(mut client: TcpStream, to: u16, cancels: &AtomicUsize) {
    let mut head = [0; 8];
    if client.read_exact(&mut head).is_err() {
        return;
    }
    if head[4..] == CANCEL {
        cancels.fetch_add(1, Ordering::SeqCst);
        // Until the other end gives up.
        let _ = client.read_to_end(&mut Vec::new());
        return;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)) else {
        return;
    };
    let (Ok(from), Ok(back)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    if server.write_all(&head).is_err() {
        return;
    }
    let copier = thread::spawn(move || copy(from, server));
    copy(back, client);
    let _ = copier.join();
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
