//! Random programs of commands on small collections: a hash, a list, a set and a sorted set, which are
//! KEYS[1] to KEYS[4], as a rule.

use super::Random;

/// Values that a body keeps for its reply, at most.
const KEPT_MAX: usize = 40;

/// A library of the functions `f<seed>`.
pub fn library(seeds: std::ops::Range<u64>) -> String {
    let function = |seed| {
        let body = body(seed);
        format!("redis.register_function('f{seed}', function(KEYS, ARGV)\n{body}end)\n")
    };
    let functions: String = seeds.map(function).collect();
    format!("#!lua name=lib\n{functions}")
}

/// The body of a function of four keys and two arguments, an element and a score.
pub fn body(seed: u64) -> String {
    let mut writer = Writer {
        random: Random::new(seed.wrapping_mul(31) + 7),
        text: String::new(),
        kept: 0,
    };
    for _ in 0..3 + writer.random.below(9) {
        writer.statement();
    }
    let kept: Vec<String> = (1..=writer.kept)
        .map(|number| format!("v{number}"))
        .collect();
    writer.text + &format!("return {{{}}}\n", kept.join(", "))
}

#[derive(Debug)]
struct Writer {
    random: Random,
    text: String,
    /// So many replies are in `v1`, `v2` …
    kept: usize,
}

impl Writer {
    fn line(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    fn statement(&mut self) {
        match self.random.below(12) {
            0 => {
                let (of_key, command) = (self.key(3), self.command());
                let element = self.element();
                self.line(&format!(
                    "if redis.call('SISMEMBER', {of_key}, {element}) == 1 then {command} end"
                ));
            }
            1 => {
                // Beyond what Redis keeps in a compact form, sometimes.
                let last = [3, 9, 140][self.random.below(3)];
                let command = match self.random.below(4) {
                    0 => "redis.call('HSET', KEYS[1], i, ARGV[1] .. i)",
                    1 => "redis.call('RPUSH', KEYS[2], i)",
                    2 => "redis.call('SADD', KEYS[3], i * 7 % 50)",
                    _ => "redis.call('ZADD', KEYS[4], i % 5, i)",
                };
                self.line(&format!("for i = 1, {last} do {command} end"));
            }
            _ if self.kept < KEPT_MAX => {
                let command = self.command();
                self.kept += 1;
                let name = format!("v{}", self.kept);
                self.line(&format!("local {name} = {command}"));
            }
            _ => {
                let command = self.command();
                self.line(&command);
            }
        }
    }

    /// The collection of this number; seldom another one.
    fn key(&mut self, number: usize) -> String {
        match self.random.below(40) {
            0 => format!("KEYS[{}]", 1 + self.random.below(4)),
            1 => "KEYS[1] .. ':' .. ARGV[1]".into(),
            _ => format!("KEYS[{number}]"),
        }
    }

    fn element(&mut self) -> String {
        let long = "'an element that is longer than sixteen bytes'";
        let of = [
            "'a'",
            "'b'",
            "'f'",
            "12",
            "'-3'",
            "''",
            long,
            "ARGV[1]",
            "ARGV[1] .. 'x'",
            "7",
        ];
        self.random.one(&of).into()
    }

    fn score(&mut self) -> String {
        let of = [
            "1",
            "2",
            "'3'",
            "-4",
            "0",
            "10",
            "'-7'",
            "ARGV[2]",
            "9007199254740991",
        ];
        self.random.one(&of).into()
    }

    /// One to three of them.
    fn several(&mut self, one: impl Fn(&mut Self) -> String) -> String {
        let count = 1 + self.random.below(3) * self.random.below(2);
        let all: Vec<String> = (0..count).map(|_| one(self)).collect();
        all.join(", ")
    }

    fn command(&mut self) -> String {
        let of = 1 + self.random.below(5);
        let words = match of {
            1 => self.of_hash(),
            2 => self.of_list(),
            3 => self.of_set(),
            4 => self.of_sorted_set(),
            _ => self.of_any(),
        };
        let call = self.random.one(&["call", "call", "call", "pcall"]);
        format!("redis.{call}({words})")
    }

    fn of_hash(&mut self) -> String {
        let key = self.key(1);
        let (field, value) = (self.element(), self.element());
        let pair = |writer: &mut Self| format!("{}, {}", writer.element(), writer.element());
        match self.random.below(9) {
            0 => format!("'HGET', {key}, {field}"),
            1 => format!("'HEXISTS', {key}, {field}"),
            2 => format!("'HLEN', {key}"),
            3 => format!("'HSTRLEN', {key}, {field}"),
            4 => format!("'HSETNX', {key}, {field}, {value}"),
            5 => format!("'HINCRBY', {key}, {field}, {}", self.score()),
            6 => format!("'HDEL', {key}, {}", self.several(Self::element)),
            7 => format!("'HMSET', {key}, {}", self.several(pair)),
            _ => format!("'hset', {key}, {}", self.several(pair)),
        }
    }

    fn of_list(&mut self) -> String {
        let key = self.key(2);
        match self.random.below(7) {
            0 => format!("'LLEN', {key}"),
            1 => format!(
                "'LINDEX', {key}, {}",
                self.random.one(&["0", "-1", "1", "'2'", "99"])
            ),
            2 => format!("'LPOP', {key}"),
            3 => format!("'RPOP', {key}"),
            4 => format!("'LPUSH', {key}, {}", self.several(Self::element)),
            _ => format!("'RPUSH', {key}, {}", self.several(Self::element)),
        }
    }

    fn of_set(&mut self) -> String {
        let key = self.key(3);
        match self.random.below(6) {
            0 => format!("'SISMEMBER', {key}, {}", self.element()),
            1 => format!("'SCARD', {key}"),
            2 => format!("'SREM', {key}, {}", self.several(Self::element)),
            _ => format!("'SADD', {key}, {}", self.several(Self::element)),
        }
    }

    fn of_sorted_set(&mut self) -> String {
        let key = self.key(4);
        let pair = |writer: &mut Self| format!("{}, {}", writer.score(), writer.element());
        match self.random.below(7) {
            0 => format!("'ZSCORE', {key}, {}", self.element()),
            1 => format!("'ZCARD', {key}"),
            2 => format!("'ZREM', {key}, {}", self.several(Self::element)),
            3 | 4 => format!("'ZINCRBY', {key}, {}", pair(self)),
            _ => format!("'ZADD', {key}, {}", self.several(pair)),
        }
    }

    fn of_any(&mut self) -> String {
        let number = 1 + self.random.below(4);
        let key = self.key(number);
        match self.random.below(8) {
            0 => format!("'DEL', {key}"),
            1 => format!("'EXISTS', {key}, KEYS[1]"),
            2 => format!("'TYPE', {key}"),
            3 => format!("'TTL', {key}"),
            4 => format!("'EXPIRE', {key}, 1000"),
            5 => format!("'PERSIST', {key}"),
            6 => format!("'SET', {key}, ARGV[1], 'NX'"),
            _ => format!("'STRLEN', {key}"),
        }
    }
}
