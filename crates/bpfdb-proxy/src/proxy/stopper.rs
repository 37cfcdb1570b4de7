//! What other threads say to a running proxy: signals, and the endpoint of metrics.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::Proxy;
use super::ending::Ending;

const STOP: u8 = b'.';
const STOP_WHEN_PAUSED: u8 = b'p';
const RELOAD: u8 = b'r';
pub(super) const MAKE_PAGE: u8 = b'm';

/// Says something to a running proxy from another thread, such as that it is to end.
#[derive(Debug)]
pub struct Stopper(pub(super) UnixStream);

impl Stopper {
    /// At once.
    pub fn stop(&self) {
        self.say(STOP);
    }

    /// When the clients that have servers are done with them; the others wait.
    pub fn stop_when_paused(&self) {
        self.say(STOP_WHEN_PAUSED);
    }

    /// Has the settings read again ([`Proxy::on_reload`]).
    pub fn reload(&self) {
        self.say(RELOAD);
    }

    fn say(&self, what: u8) {
        // Without a reader the proxy is gone already.
        let _ = (&self.0).write(&[what]);
    }
}

impl Proxy {
    /// What was said from outside.
    pub(super) fn listen_to_stopper(&mut self) {
        let mut said = [0; 16];
        let read = (&self.stop).read(&mut said).unwrap_or(0);
        // No thread can say anything any more.
        self.ends |= read == 0;
        for what in &said[..read] {
            match *what {
                STOP => self.ends = true,
                STOP_WHEN_PAUSED => {
                    // Unless it does so already: then that ends it.
                    let _ = match self.ending {
                        Ending::No => self.begin_ending(Ending::Paused),
                        Ending::Clients => self.begin_ending(Ending::Servers),
                        Ending::Paused | Ending::Servers => Ok(()),
                    };
                }
                MAKE_PAGE => self.make_page(),
                _ => {
                    // Why not is in the log.
                    let _ = self.reload();
                }
            }
        }
    }
}
