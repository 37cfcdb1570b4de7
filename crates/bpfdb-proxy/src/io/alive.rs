//! How the system finds out that the other end of a connection by TCP is gone without a word, as when its machine
//! has lost its power or its network.
//!
//! An end that has nothing to send hears of that only if it asks. Without that a client that is gone keeps its
//! transaction with its locks, and one whose server is gone waits, for ever.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::{setsockopt, sockopt};

use crate::error::{Error, Result};

/// PgBouncer's settings `tcp_keep…` and `tcp_user_timeout`; a number of 0 is as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Asks an end that says nothing whether it is there.
    pub is_on: bool,
    /// Silence before the first question, s.
    pub idle: u32,
    /// Between questions, s.
    pub interval: u32,
    /// Questions without an answer after which the end is gone.
    pub count: u32,
    /// How long bytes may be on their way without being acknowledged, ms.
    pub user_timeout: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            is_on: true,
            idle: 0,
            interval: 0,
            count: 0,
            user_timeout: 0,
        }
    }
}

/// What Linux takes (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`, `MAX_TCP_KEEPCNT`; a signed number).
const TIME_MAX: u32 = 32_767;
const COUNT_MAX: u32 = 127;
const USER_TIMEOUT_MAX: u32 = i32::MAX as u32;

impl KeepAlive {
    /// # Errors
    /// A number that the system would not take.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value, most) in [
            ("tcp_keepidle", self.idle, TIME_MAX),
            ("tcp_keepintvl", self.interval, TIME_MAX),
            ("tcp_keepcnt", self.count, COUNT_MAX),
            ("tcp_user_timeout", self.user_timeout, USER_TIMEOUT_MAX),
        ] {
            if value > most {
                return Err(Error::Settings(format!(
                    "{name}: {value} is more than {most}"
                )));
            }
        }
        Ok(())
    }

    /// Has the system do so for a socket of TCP.
    pub(crate) fn apply(&self, socket: &OwnedFd) -> nix::Result<()> {
        let fd = &socket.as_fd();
        if self.user_timeout > 0 {
            setsockopt(fd, sockopt::TcpUserTimeout, &self.user_timeout)?;
        }
        if !self.is_on {
            return Ok(());
        }
        setsockopt(fd, sockopt::KeepAlive, &true)?;
        if self.idle > 0 {
            setsockopt(fd, sockopt::TcpKeepIdle, &self.idle)?;
        }
        if self.interval > 0 {
            setsockopt(fd, sockopt::TcpKeepInterval, &self.interval)?;
        }
        if self.count > 0 {
            setsockopt(fd, sockopt::TcpKeepCount, &self.count)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_does_not_take_is_refused() {
        let most = KeepAlive {
            idle: TIME_MAX,
            interval: TIME_MAX,
            count: COUNT_MAX,
            user_timeout: USER_TIMEOUT_MAX,
            ..KeepAlive::default()
        };
        most.check().expect("it is taken");
        let more = KeepAlive {
            count: COUNT_MAX + 1,
            ..most
        };
        let told = more.check().expect_err("refused").to_string();
        assert!(told.contains("tcp_keepcnt: 128 is more than 127"), "{told}");
    }
}
