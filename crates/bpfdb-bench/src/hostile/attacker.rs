//! One connection of an attacker, and what all attackers of one attack share.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::libc::linger;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{setsockopt, sockopt};

use crate::plan::Plan;

/// So soon an attacker notices that it is over.
const TICK: Duration = Duration::from_millis(20);

/// One attack while it lasts: its target, whether it is over, and what was done so far.
pub(super) struct AttackState<'a> {
    address: SocketAddr,
    pub(super) plan: &'a Plan,
    over: AtomicBool,
    ready: AtomicUsize,
    connections: AtomicU64,
    sent: AtomicU64,
}

impl<'a> AttackState<'a> {
    pub(super) fn new(address: SocketAddr, plan: &'a Plan) -> Self {
        Self {
            address,
            plan,
            over: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// One of the attackers is; what others wait for is measured from now on.
    pub(super) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// Also if an attacker has failed: then it is over.
    pub(super) fn wait_until_ready(&self, attackers: usize) {
        while self.ready.load(Ordering::Relaxed) < attackers && !self.is_over() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn wait_until_over(&self) {
        while !self.is_over() {
            thread::sleep(TICK);
        }
    }

    /// How many there were so far.
    pub(super) fn connections(&self) -> f64 {
        self.connections.load(Ordering::Relaxed) as f64
    }

    /// Megabytes so far.
    pub(super) fn sent(&self) -> f64 {
        self.sent.load(Ordering::Relaxed) as f64 / 1e6
    }

    pub(super) fn connect(&self) -> Result<Attacker<'_>> {
        let stream = self.patient_connect().context("connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(TICK))?;
        // The end of it is a reset, which leaves nothing behind here.
        let reset = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&stream, sockopt::Linger, &reset)?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Attacker {
            state: self,
            stream,
        })
    }
}

impl AttackState<'_> {
    /// A server in a storm of connections refuses one in a while.
    fn patient_connect(&self) -> io::Result<TcpStream> {
        const TRIES: u32 = 1000;
        for _ in 1..TRIES {
            match TcpStream::connect(self.address) {
                Err(error) if is_refusal(&error) => thread::sleep(Duration::from_millis(1)),
                other => return other,
            }
        }
        TcpStream::connect(self.address)
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

/// The attack is over at the end of this, also if that is an error.
pub(super) struct AtEnd<'a>(&'a AttackState<'a>);

impl<'a> AtEnd<'a> {
    pub(super) fn of(state: &'a AttackState<'a>) -> Self {
        Self(state)
    }
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// One connection. The server may do with it what it likes: that is no error.
pub(super) struct Attacker<'a> {
    state: &'a AttackState<'a>,
    stream: TcpStream,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Some(usize),
    NotNow,
    Closed,
}

impl Done {
    fn of(result: io::Result<usize>) -> Self {
        match result {
            Ok(0) => Self::Closed,
            Ok(some) => Self::Some(some),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Self::NotNow,
                _ => Self::Closed,
            },
        }
    }
}

impl Attacker<'_> {
    /// Sends as much of it as is taken now.
    pub(super) fn send_some(&mut self, bytes: &[u8]) -> Done {
        let done = Done::of(self.stream.write(bytes));
        if let Done::Some(sent) = done {
            self.state.sent.fetch_add(sent as u64, Ordering::Relaxed);
        }
        done
    }

    /// Sends all of it, unless the connection is closed or all is over: whether it
    /// was sent.
    pub(super) fn send(&mut self, bytes: &[u8]) -> bool {
        let mut left = bytes;
        while !left.is_empty() && !self.state.is_over() {
            match self.send_some(left) {
                Done::Some(sent) => left = &left[sent..],
                Done::NotNow => {}
                Done::Closed => return false,
            }
        }
        left.is_empty()
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Done {
        Done::of(self.stream.read(buffer))
    }

    /// Until there is a reply, or there will be none.
    pub(super) fn wait_for_reply(&mut self) {
        while self.receive(&mut [0; 4096]) == Done::NotNow && !self.state.is_over() {}
    }

    pub(super) fn never_wait(&self) -> Result<()> {
        self.stream.set_nonblocking(true).context("never wait")
    }

    /// Until something can be sent or received.
    pub(super) fn wait_for_anything(&self) -> Result<()> {
        let events = PollFlags::POLLIN | PollFlags::POLLOUT;
        let mut polled = [PollFd::new(self.stream.as_fd(), events)];
        poll(&mut polled, TICK.as_millis() as u16)?;
        Ok(())
    }
}
