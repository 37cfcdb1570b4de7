//! Who is ready: epoll, with a number for everything that is waited for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::error::{Result, system};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Listener,
    UnixListener,
    Handovers,
    Stop,
    /// Something has become durable.
    Log,
    /// Index, and a serial number that tells it from others with this index:
    /// an event may come for one that was closed in the same round.
    Connection(u32, u32),
}

impl Source {
    /// Numbers from here on are connections: serial | index + 16.
    const CONNECTIONS: u32 = 16;

    fn number(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Handovers => 1,
            Self::Stop => 2,
            Self::UnixListener => 3,
            Self::Log => 4,
            Self::Connection(index, serial) => {
                u64::from(serial) << 32 | u64::from(Self::CONNECTIONS + index)
            }
        }
    }

    fn of(number: u64) -> Self {
        match number {
            0 => Self::Listener,
            1 => Self::Handovers,
            2 => Self::Stop,
            3 => Self::UnixListener,
            4 => Self::Log,
            _ => Self::Connection(number as u32 - Self::CONNECTIONS, (number >> 32) as u32),
        }
    }
}

/// What a connection waits for. That it failed is always told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The client will send nothing more.
    pub(crate) ended: bool,
}

impl Interest {
    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.readable);
        flags.set(EpollFlags::EPOLLOUT, self.writable);
        flags.set(EpollFlags::EPOLLRDHUP, self.ended);
        flags
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) source: Source,
    pub(crate) ready: Interest,
    pub(crate) failed: bool,
}

#[derive(Debug)]
pub(crate) struct Poll {
    epoll: Epoll,
}

impl Poll {
    pub(crate) fn new() -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("create epoll"))?;
        Ok(Self { epoll })
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, source: Source, interest: Interest) -> Result<()> {
        self.epoll
            .add(fd, EpollEvent::new(interest.flags(), source.number()))
            .map_err(system("wait for a descriptor"))
    }

    pub(crate) fn change(&self, fd: BorrowedFd<'_>, source: Source, interest: Interest) {
        let mut event = EpollEvent::new(interest.flags(), source.number());
        if let Err(error) = self.epoll.modify(fd.as_fd(), &mut event) {
            tracing::error!(%error, "cannot change what is waited for");
        }
    }

    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        let mut ready = [EpollEvent::empty(); 256];
        let timeout = timeout.map_or(EpollTimeout::NONE, |timeout| {
            EpollTimeout::try_from(timeout).unwrap_or(EpollTimeout::MAX)
        });
        events.clear();
        let count = match self.epoll.wait(&mut ready, timeout) {
            Err(nix::Error::EINTR) => 0,
            other => other.map_err(system("wait for events"))?,
        };
        events.extend(ready[..count].iter().map(|event| {
            let flags = event.events();
            Event {
                source: Source::of(event.data()),
                ready: Interest {
                    readable: flags.contains(EpollFlags::EPOLLIN),
                    writable: flags.contains(EpollFlags::EPOLLOUT),
                    ended: flags.contains(EpollFlags::EPOLLRDHUP),
                },
                failed: flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP),
            }
        }));
        Ok(())
    }
}
