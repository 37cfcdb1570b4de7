//! What is ready: epoll, with a number for everything that is waited for.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use rustix::event::{Timespec, epoll};

use crate::error::{Result, system};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Listener,
    UnixListener,
    Handovers,
    Stop,
    /// Something has become durable, or was read from a file.
    Log,
    /// Index, and a serial number that distinguishes it from others with this index:
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

/// What a connection waits for. That it failed is always reported; once only, if it waits for nothing: epoll
/// would say it again and again, while the connection is still in use.
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
        flags.set(EpollFlags::EPOLLET, self == Self::default());
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

    /// Waits for events, at most for so long: to the nanosecond, since a rest of less than a
    /// millisecond would be spent in a loop otherwise.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        let mut ready = [MaybeUninit::<epoll::Event>::uninit(); 256];
        // None: longer than the kernel can count.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        events.clear();
        let ready = match epoll::wait(&self.epoll.0, &mut ready, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(system("wait for events")(error)),
            Ok((ready, _)) => ready,
        };
        events.extend(ready.iter().map(|event| {
            let flags = event.flags;
            Event {
                source: Source::of(event.data.u64()),
                ready: Interest {
                    readable: flags.contains(epoll::EventFlags::IN),
                    writable: flags.contains(epoll::EventFlags::OUT),
                    ended: flags.contains(epoll::EventFlags::RDHUP),
                },
                failed: flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
            }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn who_waits_for_nothing_is_told_once_that_the_other_end_is_gone() {
        let poll = Poll::new().expect("epoll");
        let (own, other) = UnixStream::pair().expect("a pair");
        let source = Source::Connection(1, 1);
        poll.add(own.as_fd(), source, Interest::default())
            .expect("added");
        drop(other);
        let mut events = Vec::new();
        let mut failures = |poll: &Poll| {
            poll.wait(&mut events, Some(Duration::from_millis(1)))
                .expect("waited");
            events.iter().filter(|event| event.failed).count()
        };
        assert_eq!([1, 0, 0], [(); 3].map(|()| failures(&poll)));
        let readable = Interest {
            readable: true,
            ..Interest::default()
        };
        poll.change(own.as_fd(), source, readable);
        assert_eq!([1, 1, 1], [(); 3].map(|()| failures(&poll)));
    }

    #[test]
    fn a_wait_of_less_than_a_millisecond_is_one() {
        let poll = Poll::new().expect("epoll");
        let (time, begun) = (Duration::from_micros(400), Instant::now());
        let mut events = Vec::new();
        poll.wait(&mut events, Some(time)).expect("waited");
        assert!(begun.elapsed() >= time);
        assert!(events.is_empty());
    }
}
