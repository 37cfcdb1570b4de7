//! What is said about a command. Lookup, COMMAND, access rights and
//! docs/commands.md all come from these definitions; each stands in the file
//! of its command.

use std::sync::LazyLock;

use bpfdb::commands::{KERNEL_COMMANDS, KernelCommand};
use rustc_hash::FxHashMap;

use super::context::{Context, Failure, Outcome};
use super::event::{Events, Misses};
use crate::settings::EventClass;
use crate::values::integer;

/// Runs a command; the words are those behind its name.
pub(crate) type Run = fn(&mut Context<'_>, &[Vec<u8>]) -> Outcome;

/// Would others see a change if a command were executed now, with these arguments?
pub(crate) type WritesNow = fn(&mut Context<'_>, &[Vec<u8>]) -> bool;

#[derive(Debug)]
pub(crate) struct Command {
    /// In small letters; of a subcommand `command|subcommand`.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// The version of Redis that brought it, or ours.
    pub(crate) since: &'static str,
    pub(crate) deprecated: Option<Deprecated>,
    pub(crate) group: Group,
    pub(crate) complexity: &'static str,
    /// Words, the name included (of a subcommand both); negative: at least as
    /// many.
    pub(crate) arity: i32,
    /// Behind the name; `syntax.rs` says how they are written.
    pub(crate) arguments: &'static str,
    pub(crate) flags: &'static [Flag],
    /// Beyond those that follow from the flags.
    pub(crate) categories: &'static [Category],
    /// For clients of clusters; as Redis gives them.
    pub(crate) tips: &'static [&'static str],
    pub(crate) keys: &'static [Keys],
    /// What `notify-keyspace-events` publishes of its writes, and of the keys that it reads in vain.
    pub(crate) events: Events,
    pub(crate) misses: Misses,
    /// From Redis's command of this name; a sentence, or nothing.
    pub(crate) differences: &'static str,
    /// Queued between MULTI and EXEC; else run at once there too.
    pub(crate) queued: bool,
    pub(crate) batching: Batching,
    /// Its arguments may be passwords: not kept for SLOWLOG.
    pub(crate) secret: bool,
    /// Would others see a change if it were executed now, with these arguments? `None`: if it
    /// has the flag Write.
    pub(crate) writes_now: Option<WritesNow>,
    /// Executed during CLIENT PAUSE too: it must be possible to end it.
    pub(crate) never_paused: bool,
    /// It tells which keys there are, also those that it does not name: in a transaction that writes, it keeps
    /// others from making keys come and go.
    pub(crate) lists_keys: bool,
    /// It changes no data, but others hear of it: refused and paused as if it wrote.
    pub(crate) announces: bool,
    /// Executed for a client of RESP2 that has subscribed, whose other replies could not be distinguished
    /// from messages.
    pub(crate) for_subscribers: bool,
    /// EXEC: what is queued is executed.
    pub(crate) executes_queue: bool,
    /// What becomes of the connection's state and of the reply when a request of it is
    /// refused before it runs.
    pub(crate) on_refusal: Option<fn(&mut Context<'_>, Failure) -> Failure>,
    pub(crate) subcommands: &'static [&'static Command],
    pub(crate) run: Run,
}

impl Command {
    /// What most commands have in common.
    pub(crate) const BASE: Self = Self {
        name: "",
        summary: "",
        since: "",
        deprecated: None,
        group: Group::Generic,
        complexity: "",
        arity: -1,
        arguments: "",
        flags: &[],
        categories: &[],
        tips: &[],
        keys: &[],
        events: Events::OwnName,
        misses: Misses::OfReadKeys,
        differences: "",
        queued: true,
        batching: Batching::No,
        secret: false,
        writes_now: None,
        never_paused: false,
        lists_keys: false,
        announces: false,
        for_subscribers: false,
        executes_queue: false,
        on_refusal: None,
        subcommands: &[],
        run: only_subcommands,
    };

    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// May others see a change that it makes?
    pub(crate) fn may_write(&self) -> bool {
        self.has(Flag::Write) || self.writes_now.is_some()
    }

    /// Would others see a change if it were executed now, with these arguments?
    pub(crate) fn writes(&self, context: &mut Context<'_>, arguments: &[Vec<u8>]) -> bool {
        self.writes_now
            .map_or(self.has(Flag::Write), |writes| writes(context, arguments))
    }

    /// Does it read or write keys that it does not name?
    pub(crate) fn tells_of_all(&self) -> bool {
        self.keys.is_empty() && (self.has(Flag::Readonly) || self.has(Flag::Write))
    }

    /// The side that answers: the kernel, if the command is in its list.
    pub(crate) fn path(&self) -> Path {
        match self.of_kernel() {
            Some(_) => Path::Kernel,
            None => Path::Daemon,
        }
    }

    /// Does the kernel answer it by a program that is loaded when it is needed?
    pub(crate) fn is_apart(&self) -> bool {
        self.of_kernel().is_some_and(KernelCommand::is_apart)
    }

    /// As it is in the kernel's list.
    fn of_kernel(&self) -> Option<&'static KernelCommand> {
        static OF_KERNEL: LazyLock<FxHashMap<&str, &KernelCommand>> = LazyLock::new(|| {
            let all = KERNEL_COMMANDS.iter();
            all.map(|known| (known.name, known)).collect()
        });
        OF_KERNEL.get(self.name).copied()
    }

    /// Of a subcommand: its own word.
    pub(crate) fn last_name(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    pub(crate) fn fits(&self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            words >= least
        } else {
            words == least
        }
    }

    /// Does it belong to this category of commands?
    pub(crate) fn is_in(&self, category: Category) -> bool {
        let implied = match category {
            Category::Write => self.has(Flag::Write),
            // As in Redis: what a script does is not said by its command.
            Category::Read => {
                self.has(Flag::Readonly) && !self.categories.contains(&Category::Scripting)
            }
            Category::Admin => self.has(Flag::Admin),
            Category::Dangerous => self.has(Flag::Admin),
            Category::Pubsub => self.has(Flag::Pubsub),
            Category::Fast => self.has(Flag::Fast),
            Category::Blocking => self.has(Flag::Blocking),
            Category::Slow => !self.has(Flag::Fast),
            _ => false,
        };
        implied || self.categories.contains(&category)
    }
}

/// A command with subcommands has nothing to run itself: lookup has found one
/// of them, or an error.
fn only_subcommands(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err("ERR a subcommand is missing".into())
}

#[derive(Debug)]
pub(crate) struct Deprecated {
    pub(crate) since: &'static str,
    pub(crate) replaced_by: &'static str,
}

/// The side that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// The kernel, as long as the request has the plain form; the daemon otherwise.
    Kernel,
    Daemon,
}

/// May it be executed in one transaction with its neighbours in a pipeline
/// (`executor/batch.rs`)? What it does is done by the session, and by its reply; with a text for a
/// failure it has written nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batching {
    No,
    /// It reads its keys: those that it writes by `head_for_update` or `entry_for_update`.
    Reads,
    /// It reads one key, its first, by `look_up` (`commands/look_up.rs`) and in no other way.
    LooksUp,
    /// It writes whatever there is, if it has no more words than it must have.
    Writes,
    /// It changes elements of one collection, which it reads under exclusive locks: what several of these have in
    /// common is read and written once.
    Changes,
}

/// Redis's groups of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    String,
    Bitmap,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
    Generic,
    Transactions,
    Connection,
    Pubsub,
    Scripting,
    Server,
    Cluster,
    HyperLogLog,
    Geo,
}

impl Group {
    pub(crate) const ALL: &'static [Self] = &[
        Self::String,
        Self::Bitmap,
        Self::Hash,
        Self::List,
        Self::Set,
        Self::SortedSet,
        Self::Stream,
        Self::Generic,
        Self::Transactions,
        Self::Connection,
        Self::Pubsub,
        Self::Scripting,
        Self::Server,
        Self::Cluster,
        Self::HyperLogLog,
        Self::Geo,
    ];

    /// The class of the events of its keys: classes are fewer than groups.
    pub(crate) fn event_class(self) -> EventClass {
        match self {
            Self::String | Self::Bitmap | Self::HyperLogLog => EventClass::String,
            Self::Hash => EventClass::Hash,
            Self::List => EventClass::List,
            Self::Set => EventClass::Set,
            Self::SortedSet | Self::Geo => EventClass::SortedSet,
            Self::Stream => EventClass::Stream,
            Self::Generic
            | Self::Transactions
            | Self::Connection
            | Self::Pubsub
            | Self::Scripting
            | Self::Server
            | Self::Cluster => EventClass::Generic,
        }
    }

    /// As COMMAND DOCS calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::Hash => "hash",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Stream => "stream",
            Self::Generic => "generic",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::Pubsub => "pubsub",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::Cluster => "cluster",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
        }
    }
}

/// Redis's flags of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    Write,
    Readonly,
    /// May need memory.
    DenyOom,
    Admin,
    Pubsub,
    NoScript,
    /// May wait for a key.
    Blocking,
    Loading,
    Stale,
    NoAsyncLoading,
    SkipSlowlog,
    Fast,
    /// Allowed before the client has authenticated.
    NoAuth,
    AllowBusy,
    /// Not allowed between MULTI and EXEC.
    NoMulti,
    /// Its words tell which of them are keys.
    MovableKeys,
    SkipMonitor,
    /// Perhaps none.
    NoMandatoryKeys,
    /// Executed behind ASKING even if the key is of another node.
    Asking,
}

impl Flag {
    /// As COMMAND INFO calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Readonly => "readonly",
            Self::DenyOom => "denyoom",
            Self::Admin => "admin",
            Self::Pubsub => "pubsub",
            Self::NoScript => "noscript",
            Self::Blocking => "blocking",
            Self::Loading => "loading",
            Self::Stale => "stale",
            Self::NoAsyncLoading => "no_async_loading",
            Self::SkipSlowlog => "skip_slowlog",
            Self::Fast => "fast",
            Self::NoAuth => "no_auth",
            Self::AllowBusy => "allow_busy",
            Self::NoMulti => "no_multi",
            Self::MovableKeys => "movablekeys",
            Self::SkipMonitor => "skip_monitor",
            Self::NoMandatoryKeys => "no_mandatory_keys",
            Self::Asking => "asking",
        }
    }
}

/// Redis's categories of commands, for access rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    Keyspace,
    Read,
    Write,
    Set,
    SortedSet,
    List,
    Hash,
    String,
    Bitmap,
    Stream,
    HyperLogLog,
    Geo,
    Pubsub,
    Admin,
    Fast,
    Slow,
    Blocking,
    Dangerous,
    Connection,
    Transaction,
    Scripting,
}

impl Category {
    /// In the order in which Redis names them.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Keyspace,
        Self::Read,
        Self::Write,
        Self::Set,
        Self::SortedSet,
        Self::List,
        Self::Hash,
        Self::String,
        Self::Bitmap,
        Self::Stream,
        Self::HyperLogLog,
        Self::Geo,
        Self::Pubsub,
        Self::Admin,
        Self::Fast,
        Self::Slow,
        Self::Blocking,
        Self::Dangerous,
        Self::Connection,
        Self::Transaction,
        Self::Scripting,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keyspace => "keyspace",
            Self::Read => "read",
            Self::Write => "write",
            Self::Set => "set",
            Self::SortedSet => "sortedset",
            Self::List => "list",
            Self::Hash => "hash",
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::Stream => "stream",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
            Self::Pubsub => "pubsub",
            Self::Admin => "admin",
            Self::Fast => "fast",
            Self::Slow => "slow",
            Self::Blocking => "blocking",
            Self::Dangerous => "dangerous",
            Self::Connection => "connection",
            Self::Transaction => "transaction",
            Self::Scripting => "scripting",
        }
    }
}

/// Where keys stand among the words, and what is done to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(crate) notes: &'static str,
    pub(crate) flags: KeyFlags,
    /// Position of the first key; the command's name is at 0.
    pub(crate) first: i32,
    /// Position of the last, counted from the first; negative: from the end
    /// of the request, -1 is its last word.
    pub(crate) last: i32,
    pub(crate) step: i32,
    /// At `first` stands how many keys follow it.
    pub(crate) counted: bool,
    /// The keys are the first half of what follows this word, in letters of any size, which is looked
    /// for from `first` on.
    pub(crate) keyword: Option<&'static str>,
    /// Options that may stand before the keyword.
    pub(crate) options: OptionWords,
    /// The flags of one request, when they depend on its words: what is done
    /// only with an option, say.
    pub(crate) of_request: Option<FlagsOf>,
    /// The key is named by an option.
    pub(crate) of_option: Option<OfOption>,
}

/// Options, and how many words follow each that are its own: one of these is no keyword, even if it is
/// the same word.
pub(crate) type OptionWords = &'static [(&'static str, usize)];

/// Position of this keyword, in letters of any size, from a position on.
fn keyword_at(
    words: &[Vec<u8>],
    keyword: &str,
    from: usize,
    options: OptionWords,
) -> Option<usize> {
    let mut at = from;
    loop {
        let word = words.get(at)?;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is(keyword) {
            return Some(at);
        }
        let option = options.iter().find(|(name, _)| is(name));
        at += 1 + option.map_or(0, |&(_, words)| words);
    }
}

/// A key that is named by an option, which may stand anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfOption {
    /// The key follows this word, in letters of any size, which is looked for from a position on.
    Behind {
        keyword: &'static str,
        from: i32,
        /// Options that may stand before it.
        options: OptionWords,
    },
    /// Clients are not told how to find the key.
    Unknown(PlaceIn),
}

impl OfOption {
    fn place(self, words: &[Vec<u8>]) -> Option<usize> {
        match self {
            Self::Behind {
                keyword,
                from,
                options,
            } => Some(keyword_at(words, keyword, from as usize, options)? + 1),
            Self::Unknown(place) => place(words),
        }
    }
}

/// Redis's flags of key specifications: what a command does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFlag {
    /// Only one of these four: it is read and stays.
    ReadOnly,
    /// Its value is replaced without a look at it.
    Overwrite,
    /// Its value is read and changed.
    ReadWrite,
    /// It is deleted without a look at its value.
    Remove,
    /// The value, or a part of it, is replied or copied.
    Access,
    Update,
    Insert,
    Delete,
    /// The flags of a request depend on its words.
    VariableFlags,
    /// It is none, but clients of clusters send the request where such a key would be.
    NotKey,
}

impl KeyFlag {
    /// As COMMAND INFO calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "RO",
            Self::Overwrite => "OW",
            Self::ReadWrite => "RW",
            Self::Remove => "RM",
            Self::Access => "access",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::VariableFlags => "variable_flags",
            Self::NotKey => "not_key",
        }
    }
}

pub(crate) type KeyFlags = &'static [KeyFlag];
/// What the words of a request make of its keys.
type FlagsOf = fn(&[Vec<u8>]) -> KeyFlags;
/// Where the key stands in a request; `None`: it has none.
type PlaceIn = fn(&[Vec<u8>]) -> Option<usize>;

impl Keys {
    /// One key.
    pub(crate) const fn at(position: i32, flags: KeyFlags) -> Self {
        Self {
            notes: "",
            flags,
            first: position,
            last: 0,
            step: 1,
            counted: false,
            keyword: None,
            options: &[],
            of_request: None,
            of_option: None,
        }
    }

    /// The key that an option names.
    pub(crate) const fn of_option(option: OfOption, flags: KeyFlags) -> Self {
        Self {
            of_option: Some(option),
            ..Self::at(0, flags)
        }
    }

    /// As many as the word at this position says, behind it.
    pub(crate) const fn counted_at(position: i32, flags: KeyFlags) -> Self {
        Self {
            counted: true,
            ..Self::at(position, flags)
        }
    }

    /// The first half of the words behind this one, which is looked for from a position on.
    pub(crate) const fn after(
        keyword: &'static str,
        from: i32,
        options: OptionWords,
        flags: KeyFlags,
    ) -> Self {
        Self {
            keyword: Some(keyword),
            options,
            ..Self::at(from, flags).last(-1)
        }
    }

    /// What is done to the key depends on the request; `flags` are of all that may
    /// be done.
    pub(crate) const fn depending(self, of_request: FlagsOf) -> Self {
        Self {
            of_request: Some(of_request),
            ..self
        }
    }

    /// Do the keys stay as they are? Else those that read them lock them exclusively.
    pub(crate) fn are_only_read(self) -> bool {
        self.flags.contains(&KeyFlag::ReadOnly)
    }

    /// What these words do to the keys.
    pub(crate) fn flags_of(self, words: &[Vec<u8>]) -> KeyFlags {
        self.of_request.map_or(self.flags, |of| of(words))
    }

    /// Are they names of something else?
    pub(crate) fn are_none(self) -> bool {
        self.flags.contains(&KeyFlag::NotKey)
    }

    pub(crate) const fn last(self, last: i32) -> Self {
        Self { last, ..self }
    }

    pub(crate) const fn step(self, step: i32) -> Self {
        Self { step, ..self }
    }

    pub(crate) const fn notes(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// Positions of the keys in a request.
    pub(crate) fn positions(self, words: &[Vec<u8>]) -> impl Iterator<Item = usize> + use<> {
        let len = words.len() as i32;
        let (first, last) = if let Some(keyword) = self.keyword {
            // Options are looked at from the first word on: so none is taken for another's word.
            let found = keyword_at(words, keyword, 1, self.options);
            let found = found.filter(|&at| at >= self.first as usize);
            let first = found.map_or(len, |at| at as i32 + 1);
            (first, first + (len - first) / 2 - 1)
        } else if self.counted {
            let counted = words.get(self.first as usize);
            let count = counted.and_then(|word| integer::parse(word)).unwrap_or(0);
            let rest = i64::from(len - self.first - 1);
            let count = if (0..=rest).contains(&count) {
                count as i32
            } else {
                0
            };
            (self.first + 1, self.first + count)
        } else if self.last < 0 {
            (self.first, len + self.last)
        } else {
            (self.first, self.first + self.last)
        };
        let (first, last) = match self.of_option {
            None => (first, last),
            Some(option) => {
                let place = option.place(words).map_or(len, |place| place as i32);
                (place, place)
            }
        };
        (first..=last.min(len - 1))
            .step_by(self.step as usize)
            .map(|position| position as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(keys: Keys, words: usize) -> Vec<usize> {
        keys.positions(&vec![Vec::new(); words]).collect()
    }

    #[test]
    fn positions_of_counted_keys() {
        let keys = Keys::counted_at(2, &[]);
        let positions = |request: &str| -> Vec<usize> {
            let words: Vec<Vec<u8>> = request.split(' ').map(Into::into).collect();
            keys.positions(&words).collect()
        };
        assert_eq!(positions("eval x 2 a b c"), [3, 4]);
        for request in [
            "eval x",
            "eval x 0 a",
            "eval x z a",
            "eval x 5 a",
            "eval x -1 a",
        ] {
            assert_eq!(positions(request), [0usize; 0], "{request}");
        }
    }

    #[test]
    fn positions_of_keys_behind_a_word() {
        let options = &[("COUNT", 1), ("GROUP", 2)];
        let keys = Keys::after("STREAMS", 1, options, &[]);
        let positions = |request: &str| -> Vec<usize> {
            let words: Vec<Vec<u8>> = request.split(' ').map(Into::into).collect();
            keys.positions(&words).collect()
        };
        assert_eq!(positions("xread count 2 streams a b 0 0"), [4, 5]);
        assert_eq!(positions("xread streams streams 0"), [2]);
        // Words of an option are none, whatever they are.
        for request in [
            "xreadgroup group streams c streams k >",
            "xreadgroup group g streams streams k >",
            "xreadgroup group count streams streams k >",
            "xreadgroup group group group streams k >",
        ] {
            assert_eq!(positions(request), [5], "{request}");
        }
        let request = "xreadgroup count 1 group streams c noack streams k >";
        assert_eq!(positions(request), [8]);
        for request in ["xread", "xread streams", "xread count 2", "streams a 0"] {
            assert_eq!(positions(request), [0usize; 0], "{request}");
        }
    }

    #[test]
    fn positions_of_keys_of_options() {
        let option = OfOption::Behind {
            keyword: "STORE",
            from: 3,
            options: &[("OTHER", 1)],
        };
        let keys = Keys::of_option(option, &[]);
        let positions = |request: &str| -> Vec<usize> {
            let words: Vec<Vec<u8>> = request.split(' ').map(Into::into).collect();
            keys.positions(&words).collect()
        };
        assert_eq!(positions("find a store store b store c"), [4]);
        assert_eq!(positions("find a b other store store c"), [6]);
        for request in ["find", "find a store b c", "find a b store"] {
            assert_eq!(positions(request), [0usize; 0], "{request}");
        }
    }

    #[test]
    fn positions_of_keys() {
        let key = Keys::at(1, &[]);
        assert_eq!(positions(key, 2), [1]);
        assert_eq!(positions(key, 1), [0usize; 0]);
        assert_eq!(positions(key.last(-1), 4), [1, 2, 3]);
        assert_eq!(positions(key.last(-1).step(2), 5), [1, 3]);
        assert_eq!(positions(key.last(1), 5), [1, 2]);
        assert_eq!(positions(Keys::at(2, &[]).last(-1), 5), [2, 3, 4]);
    }
}
