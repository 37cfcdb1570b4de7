//! What is ready: epoll, with a number for everything that is waited for.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use rustix::event::{Timespec, epoll};

use super::slab::Id;
use crate::error::{Result, system};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Listener(u32),
    Stop,
    /// The kernel side tells something.
    Kernel,
    /// The kernel side has copies of requests.
    Copies,
    /// The kernel side has something to throw away.
    Sink,
    Client(Id),
    Server(Id),
    Cancel(Id),
    /// A proxy that takes over may come.
    Takeover,
    Successor,
    Predecessor,
    /// What names of hosts mean.
    Names,
}

/// The number: serial of 24 bits, index of 32, kind of 8.
const KIND_BITS: u32 = 8;
const SERIAL_SHIFT: u32 = KIND_BITS + 32;

impl Source {
    fn number(self) -> u64 {
        let id = |kind: u64, id: Id| {
            u64::from(id.serial) << SERIAL_SHIFT | u64::from(id.index) << KIND_BITS | kind
        };
        match self {
            Self::Listener(index) => u64::from(index) << KIND_BITS,
            Self::Stop => 1,
            Self::Kernel => 2,
            Self::Client(client) => id(3, client),
            Self::Server(server) => id(4, server),
            Self::Cancel(cancel) => id(5, cancel),
            Self::Sink => 6,
            Self::Takeover => 7,
            Self::Successor => 8,
            Self::Predecessor => 9,
            Self::Copies => 10,
            Self::Names => 11,
        }
    }

    fn of(number: u64) -> Self {
        let id = Id {
            index: (number >> KIND_BITS) as u32,
            serial: (number >> SERIAL_SHIFT) as u32,
        };
        match number as u8 {
            0 => Self::Listener(id.index),
            1 => Self::Stop,
            2 => Self::Kernel,
            3 => Self::Client(id),
            4 => Self::Server(id),
            5 => Self::Cancel(id),
            7 => Self::Takeover,
            8 => Self::Successor,
            9 => Self::Predecessor,
            10 => Self::Copies,
            11 => Self::Names,
            _ => Self::Sink,
        }
    }
}

/// What something waits for. That it failed is always said; that its other end has closed while
/// it waits for input is part of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Interest {
    pub(crate) const READ: Self = Self {
        readable: true,
        writable: false,
    };

    /// Without interest once only: epoll would say again and again that it failed.
    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.readable);
        flags.set(EpollFlags::EPOLLOUT, self.writable);
        flags.set(EpollFlags::EPOLLET, self == Self::default());
        flags
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) source: Source,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Nothing can be sent to it any more.
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

    /// It is not waited for any more. Needed where another process has a copy of the descriptor: else closing it is
    /// enough.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        if let Err(error) = self.epoll.delete(fd) {
            tracing::error!(%error, "cannot end to wait for a descriptor");
        }
    }

    /// Waits for events, at most for so long.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Duration) -> Result<()> {
        let mut ready = [MaybeUninit::<epoll::Event>::uninit(); 256];
        let timeout = Timespec::try_from(timeout).ok();
        events.clear();
        let ready = match epoll::wait(&self.epoll.0, &mut ready, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(system("wait for events")(error)),
            Ok((ready, _)) => ready,
        };
        events.extend(ready.iter().map(|event| {
            let flags = event.flags;
            let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            Event {
                source: Source::of(event.data.u64()),
                readable: flags.contains(epoll::EventFlags::IN),
                writable: flags.contains(epoll::EventFlags::OUT),
                failed,
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_by_their_numbers() {
        let id = Id {
            index: u32::MAX,
            serial: 0xff_ffff,
        };
        for source in [
            Source::Listener(7),
            Source::Stop,
            Source::Kernel,
            Source::Sink,
            Source::Client(id),
            Source::Server(id),
            Source::Cancel(id),
        ] {
            assert_eq!(Source::of(source.number()), source);
        }
    }
}
