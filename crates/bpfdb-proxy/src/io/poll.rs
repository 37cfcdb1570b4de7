//! What is ready: epoll, with a number for everything that is waited for.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
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
    /// Servers of mirrors, which have an epoll of their own.
    Mirrors,
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
    /// Time.
    Ticks,
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
            Self::Ticks => 12,
            Self::Mirrors => 13,
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
            12 => Self::Ticks,
            13 => Self::Mirrors,
            _ => Self::Sink,
        }
    }
}

/// What something waits for. That it failed is always said; that its other end has closed while
/// it waits for input is part of that.
///
/// Of clients and servers an event tells once: when something arrives, or there is room again, and when what is waited for
/// changes. So whoever takes less than there is has to come again by itself. epoll would else look at each of them twice: when
/// it tells of it, and, since that may still be so, when it is asked the next time.
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

    fn flags(self, source: Source) -> EpollFlags {
        // Without interest epoll would else say again and again that it failed.
        let is_told_once =
            matches!(source, Source::Client(_) | Source::Server(_)) || self == Self::default();
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.readable);
        // It may have ended behind what is there.
        flags.set(EpollFlags::EPOLLRDHUP, self.readable);
        flags.set(EpollFlags::EPOLLOUT, self.writable);
        flags.set(EpollFlags::EPOLLET, is_told_once);
        flags
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) source: Source,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other end sends nothing more.
    pub(crate) ends: bool,
    /// Nothing can be sent to it any more.
    pub(crate) failed: bool,
}

impl Event {
    /// That a source cannot be sent anything: what it has said before is read first.
    pub(crate) fn of_end(source: Source) -> Self {
        Self {
            source,
            readable: true,
            writable: false,
            ends: true,
            failed: true,
        }
    }

    /// Of a source that may have more than was received.
    pub(crate) fn again(self) -> Self {
        Self {
            readable: true,
            writable: false,
            ..self
        }
    }
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
            .add(fd, EpollEvent::new(interest.flags(source), source.number()))
            .map_err(system("wait for a descriptor"))
    }

    pub(crate) fn change(&self, fd: BorrowedFd<'_>, source: Source, interest: Interest) {
        let mut event = EpollEvent::new(interest.flags(source), source.number());
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

    /// Waits for events, at most for so long, and appends them.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        let mut ready = [MaybeUninit::<epoll::Event>::uninit(); 256];
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
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
                ends: flags.contains(epoll::EventFlags::RDHUP),
                failed,
            }
        }));
        Ok(())
    }
}

/// Readable while it has events: one can be waited for within another.
impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// A regular event. It costs nothing between two of them, as a limit of each wait would.
#[derive(Debug)]
pub(crate) struct Ticks(TimerFd);

impl Ticks {
    pub(crate) fn each(period: Duration) -> Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let made = || -> nix::Result<TimerFd> {
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            let interval = Expiration::Interval(TimeSpec::from(period));
            timer.set(interval, TimerSetTimeFlags::empty())?;
            Ok(timer)
        };
        made().map(Self).map_err(system("make a timer"))
    }

    /// The next event is of another period.
    pub(crate) fn take(&self) {
        // Without one there is nothing to be taken.
        let _ = self.0.wait();
    }
}

impl AsFd for Ticks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
            Source::Mirrors,
            Source::Ticks,
            Source::Client(id),
            Source::Server(id),
            Source::Cancel(id),
        ] {
            assert_eq!(Source::of(source.number()), source);
        }
    }
}
