//! Settings whose value is one of a few words.

use super::Value;

/// One of a few words.
macro_rules! words {
    ($(#[$attribute:meta])* $type:ident { $($(#[$about:meta])* $variant:ident $word:literal $(| $alias:literal)*),* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$about])* $variant),* }

        impl $type {
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl Value for $type {
            const HINT: &'static str = concat_words!($($word),*);

            fn parse(text: &str) -> Result<Self, String> {
                match text.to_ascii_lowercase().as_str() {
                    $($word $(| $alias)* => Ok(Self::$variant),)*
                    _ => Err(format!(
                        "argument(s) must be one of the following: {}",
                        [$($word),*].join(", ")
                    )),
                }
            }

            fn show(&self) -> String {
                self.word().into()
            }
        }
    };
}

macro_rules! concat_words {
    ($first:literal $(, $word:literal)*) => { concat!($first $(, "|", $word)*) };
}

words! {
    /// What is logged; Redis's words mean the level next to them.
    LogLevel {
        Error "error" | "nothing",
        Warn "warn" | "warning",
        Info "info" | "notice",
        Debug "debug" | "verbose",
        Trace "trace"
    }
}

words! {
    /// When Redis flushes its log; here it says when clients are told, see
    /// [`AppendFsync::durability`].
    AppendFsync {
        EverySecond "everysec",
        Always "always",
        No "no"
    }
}

impl AppendFsync {
    /// Both words other than `always` mean the same here: the log is flushed as often as the
    /// disk allows, for all that wait for it.
    pub fn durability(self) -> Durability {
        match self {
            Self::Always => Durability::Sync,
            Self::EverySecond | Self::No => Durability::Async,
        }
    }
}

words! {
    /// Which keys go when memory is full.
    EvictionPolicy {
        VolatileLru "volatile-lru",
        VolatileLfu "volatile-lfu",
        VolatileRandom "volatile-random",
        VolatileTtl "volatile-ttl",
        AllkeysLru "allkeys-lru",
        AllkeysLfu "allkeys-lfu",
        AllkeysRandom "allkeys-random",
        NoEviction "noeviction"
    }
}

// What the settings say by default.
#[allow(clippy::derivable_impls)]
impl Default for EvictionPolicy {
    fn default() -> Self {
        Self::NoEviction
    }
}

/// When a client is told of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable.
    Sync,
    /// At once; it is durable soon.
    Async,
}

words! {
    /// What reads tables.
    TablesBy { Auto "auto", Kernel "kernel", Process "process" }
}

impl TablesBy {
    pub(crate) fn by(self) -> bpfdb_table::By {
        match self {
            Self::Auto => bpfdb_table::By::Auto,
            Self::Kernel => bpfdb_table::By::Kernel,
            Self::Process => bpfdb_table::By::Process,
        }
    }
}

words! {
    LogFormat { Text "text", Json "json" }
}
