//! What happens in each round of the crash loop: as it is drawn, or as it is written down here.

use std::time::Duration;

/// One of so many rounds has a checkpoint at its end, so that some are killed in the middle of it.
const CHECKPOINT: u64 = 3;
/// One of so many lives is longer than commits may take to the disk: what is older must be there then.
const LONG: u64 = 8;
/// In one of so many rounds others begin to share the engine, if there are none yet.
const SHARED: u64 = 2;
/// One of so many starts is killed before the server serves, or soon after that; again and again.
const IN_VAIN: u64 = 3;
/// After one of so many crashes a client deletes everything, and the server is killed at once.
const FLUSH: u64 = 8;

/// How a server is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Are clients synchronous that say nothing about it?
    pub(super) always: bool,
    /// Are clients answered inside their own send()?
    pub(super) local: bool,
}

/// A server that is killed while it starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Killed {
    pub(super) options: Options,
    /// In hundredths of the time that the last start took.
    pub(super) after: u64,
    /// Begins the next one with the directory alone, as after another loss of power, where this one
    /// did?
    pub(super) loses_power: bool,
}

/// The next server.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) options: Options,
    /// Those that are killed before it.
    pub(super) killed: Vec<Killed>,
}

/// What the server that comes after a crash finds.
#[derive(Debug, Clone)]
pub(super) enum After {
    /// The data in the kernel: as after the death of the process alone.
    Kernel,
    /// The same; it is killed once more when everything is on the disk, though no server wrote
    /// anything, and then there is the directory alone.
    QuietKernel(Start),
    /// The directory alone: as after a loss of power.
    Directory,
}

/// Everything is deleted, and the server is killed when that is said to be durable.
#[derive(Debug, Clone)]
pub(super) struct Flush {
    /// Is the data in the kernel still there then?
    pub(super) kept: bool,
    pub(super) next: Start,
}

/// A life of a server, its end, and the start of the next one.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// For which clients write.
    pub(super) time: Duration,
    /// Is it longer where a busy machine has not let each of them write by the middle of it?
    pub(super) awaits_all: bool,
    /// Is a checkpoint begun in the middle of that?
    pub(super) checkpoint: bool,
    /// Do clients begin when functions are in the kernel? Else functions come there while they are
    /// called.
    pub(super) programs: bool,
    /// Do others share the engine, also without a server?
    pub(super) shared: bool,
    pub(super) after: After,
    pub(super) next: Start,
    pub(super) flush: Option<Flush>,
}

/// The same rounds for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }

    fn one_of(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(super) fn round(&mut self, number: u64) -> Round {
        let time = match self.one_of(LONG) {
            true => 1500 + self.below(1000),
            false => 20 + self.below(200),
        };
        Round {
            time: Duration::from_millis(time),
            awaits_all: false,
            checkpoint: number.is_multiple_of(CHECKPOINT),
            programs: self.one_of(2),
            shared: self.one_of(SHARED),
            after: match self.below(8) {
                0 => After::QuietKernel(self.start()),
                1..4 => After::Kernel,
                _ => After::Directory,
            },
            next: self.start(),
            flush: self.one_of(FLUSH).then(|| Flush {
                kept: self.one_of(2),
                next: self.start(),
            }),
        }
    }

    fn start(&mut self) -> Start {
        let mut killed = Vec::new();
        while self.one_of(IN_VAIN) {
            killed.push(Killed {
                options: self.options(),
                after: self.below(125),
                loses_power: self.one_of(2),
            });
        }
        let options = self.options();
        Start { options, killed }
    }

    fn options(&mut self) -> Options {
        Options {
            always: self.one_of(3),
            local: self.one_of(2),
        }
    }
}

const LOCAL: Options = Options {
    always: false,
    local: true,
};
const LOCAL_ALWAYS: Options = Options {
    always: true,
    local: true,
};
const DAEMON: Options = Options {
    always: false,
    local: false,
};
const DAEMON_ALWAYS: Options = Options {
    always: true,
    local: false,
};

fn start(options: Options) -> Start {
    let killed = Vec::new();
    Start { options, killed }
}

fn killed(after: u64, loses_power: bool) -> Killed {
    Killed {
        options: LOCAL,
        after,
        loses_power,
    }
}

/// Every kind of client in each life, every kind of crash and of start: ten crashes. Each life but
/// the first begins with functions in the kernel, because only some calls of so few would come there
/// else.
pub(super) fn each_kind() -> Vec<Round> {
    let round = |time, after, next| Round {
        time: Duration::from_millis(time),
        awaits_all: false,
        checkpoint: false,
        programs: true,
        shared: true,
        after,
        next,
        flush: None,
    };
    let in_vain_once = Start {
        options: DAEMON,
        killed: vec![killed(50, false)],
    };
    // The first of them has begun to recover the data, or not even that; the second has recovered it.
    let in_vain_twice = Start {
        options: LOCAL,
        killed: vec![killed(70, true), killed(110, false)],
    };
    vec![
        Round {
            programs: false,
            ..round(150, After::Kernel, start(LOCAL_ALWAYS))
        },
        round(150, After::QuietKernel(start(DAEMON_ALWAYS)), in_vain_once),
        Round {
            checkpoint: true,
            flush: Some(Flush {
                kept: true,
                next: start(LOCAL),
            }),
            ..round(100, After::Directory, start(LOCAL))
        },
        // Longer than commits may take to the disk.
        Round {
            awaits_all: true,
            checkpoint: true,
            flush: Some(Flush {
                kept: false,
                next: start(LOCAL),
            }),
            ..round(1500, After::Directory, in_vain_twice)
        },
    ]
}
