//! Programs that the kernel can answer as a rule: their numbers are whole, their texts are texts,
//! and what they count with are counters. The others show that what has no meaning there is given
//! up; these show that what has one means the same.

use super::Writer;

const NUMBERS: &[&str] = &["1", "2", "3", "-2", "5", "10", "100", "0", "#KEYS", "#ARGV"];
const DIVISORS: &[&str] = &["2", "3", "7", "10"];
const TEXTS: &[&str] = &[
    "'a'",
    "''",
    "'abc def'",
    "'5'",
    "'007'",
    "'-0'",
    "'x'",
    "ARGV[1]",
    "(ARGV[2] or 'two')",
    "(ARGV[4] or 'four')",
    "KEYS[1]",
    "(redis.call('GET', KEYS[2]) or 'none')",
];
/// They hold whole numbers, or are not there.
const COUNTERS: &[&str] = &["KEYS[1]", "KEYS[3]", "'k1'", "'k' .. 3"];
/// It holds any text.
const TEXT_KEYS: &[&str] = &["KEYS[2]", "'k2'", "'k' .. 2"];
const KEYS: &[&str] = &["KEYS[1]", "KEYS[2]", "KEYS[3]", "'k' .. 2"];
const TELL_A_NUMBER: &[&str] = &["exists", "strlen", "del", "unlink", "persist", "touch"];
const TELL_A_TIME: &[&str] = &["ttl", "pttl", "expiretime", "pexpiretime"];
/// Times that are no other when another side is asked a little later.
const EXPIRIES: &[(&str, &str)] = &[
    ("expire", "100"),
    ("expire", "7"),
    ("pexpire", "100000"),
    ("expireat", "33177117420"),
    ("pexpireat", "33177117420000"),
];
const SET_OPTIONS: &[&str] = &[
    "",
    "",
    ", 'NX'",
    ", 'XX'",
    ", 'EX', 100",
    ", 'KEEPTTL'",
    ", 'PX', '100000'",
    ", 'NX', 'EX', 50",
    ", 'EXAT', 33177117420",
    ", 'PXAT', '33177117420000'",
    ", 'GET'",
];

impl Writer {
    /// A whole number. Products are of few factors, so it is not a large one.
    fn whole(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.whole_simple();
        }
        let depth = depth - 1;
        match self.random.below(20) {
            0..=2 => {
                let operator = self.random.one(&["+", "-"]);
                format!("({} {operator} {})", self.whole(depth), self.whole(depth))
            }
            3 => format!("({} * {})", self.whole(depth), self.whole_simple()),
            4 => {
                let divisor = self.random.one(DIVISORS);
                format!("({} % {divisor})", self.whole(depth))
            }
            5 => {
                let divisor = self.random.one(DIVISORS);
                let function = self.random.one(&["floor", "floor", "ceil"]);
                format!("math.{function}({} / {divisor})", self.whole(depth))
            }
            6 => {
                let function = self.random.one(&["min", "max"]);
                format!(
                    "math.{function}({}, {})",
                    self.whole(depth),
                    self.whole(depth)
                )
            }
            7 => {
                let function = self.random.one(&["abs", "ceil"]);
                format!("math.{function}({})", self.whole(depth))
            }
            8 => format!("#{}", self.words(depth)),
            9 => format!("(tonumber({}) or {})", self.digits(), self.whole(depth)),
            10 => {
                let command = self.random.one(&["incrby", "decrby"]);
                format!(
                    "redis.call('{command}', {}, {})",
                    self.random.one(COUNTERS),
                    self.whole(depth)
                )
            }
            11 => format!(
                "({} and {} or {})",
                self.comparison(depth),
                self.whole(depth),
                self.whole(depth)
            ),
            12 => {
                let command = self.random.one(TELL_A_NUMBER);
                format!("redis.call('{command}', {})", self.random.one(KEYS))
            }
            13 => self.whole_call(depth),
            14 => format!("string.len({})", self.words(depth)),
            15 => format!("({}):len()", self.words(depth)),
            16 => format!(
                "redis.call('setnx', {}, {})",
                self.random.one(COUNTERS),
                self.whole(depth)
            ),
            17 => {
                let command = self.random.one(TELL_A_TIME);
                let key = self.random.one(KEYS);
                format!("(redis.call('{command}', {key}) > 0 and 3 or 4)")
            }
            18 => format!(
                "(redis.pcall('GET', {}) == {} and 5 or 6)",
                self.random.one(KEYS),
                self.words(0)
            ),
            _ => self.whole_simple(),
        }
    }

    fn whole_simple(&mut self) -> String {
        match self.random.below(4) {
            0 => self.random.one(NUMBERS).into(),
            1 => self.whole_element(),
            _ => self.variable("4"),
        }
    }

    fn whole_call(&mut self, depth: usize) -> String {
        if self.functions.is_empty() {
            return self.whole_simple();
        }
        let number = self.random.below(self.functions.len());
        let (name, parameters) = self.functions[number].clone();
        let arguments: Vec<_> = (0..parameters).map(|_| self.whole(depth.min(1))).collect();
        format!("{name}({})", arguments.join(", "))
    }

    fn whole_element(&mut self) -> String {
        if self.tables.is_empty() {
            return self.random.one(NUMBERS).into();
        }
        let number = self.random.below(self.tables.len());
        let (name, count) = self.tables[number].clone();
        format!("{name}[{}]", 1 + self.random.below(count))
    }

    /// A text that is a whole number, or none at all.
    fn digits(&mut self) -> String {
        match self.random.below(4) {
            0 => "ARGV[1]".into(),
            1 => "'zz'".into(),
            2 => "(ARGV[2] or '')".into(),
            _ => format!("(redis.call('GET', {}) or '0')", self.random.one(COUNTERS)),
        }
    }

    fn words(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.texts.len() {
                0 => self.random.one(TEXTS).into(),
                _ if self.random.below(3) == 0 => self.random.one(TEXTS).into(),
                count => {
                    let number = self.random.below(count);
                    self.texts[number].clone()
                }
            };
        }
        let depth = depth - 1;
        match self.random.below(9) {
            0 | 1 => format!("({} .. {})", self.words(depth), self.words(depth)),
            2 => format!("({} .. '' .. {})", self.whole(depth), self.words(0)),
            3 => format!("tostring({})", self.whole(depth)),
            4 => format!(
                "string.sub({}, {}, {})",
                self.words(depth),
                self.whole_simple(),
                self.whole_simple()
            ),
            5 => format!("({}):sub({})", self.words(depth), self.whole_simple()),
            6 => format!("redis.error_reply('MY ' .. {}).err", self.words(0)),
            7 => format!("redis.status_reply({}).ok", self.words(0)),
            _ => self.words(0),
        }
    }

    fn comparison(&mut self, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        match self.random.below(7) {
            0..=2 => {
                let operator = self.random.one(&["<", "<=", ">", ">=", "==", "~="]);
                format!("{} {operator} {}", self.whole(depth), self.whole(depth))
            }
            3 => {
                let operator = self.random.one(&["==", "~=", "<", ">="]);
                format!("{} {operator} {}", self.words(depth), self.words(depth))
            }
            4 => format!("redis.call('exists', {}) == 1", self.random.one(KEYS)),
            5 => format!("not redis.call('GET', {})", self.random.one(KEYS)),
            _ => {
                let operator = self.random.one(&["and", "or"]);
                format!(
                    "({} < {}) {operator} ({} ~= {})",
                    self.whole(0),
                    self.whole(depth),
                    self.words(0),
                    self.words(depth)
                )
            }
        }
    }

    pub(super) fn typed_statement(&mut self, depth: usize) {
        match self.random.below(if depth == 0 { 7 } else { 12 }) {
            0 => {
                let (name, value) = (self.name(), self.whole(3));
                self.line(&format!("local {name} = {value}"));
                self.variables.push(name);
            }
            1 => {
                let (name, value) = (self.name(), self.words(2));
                self.line(&format!("local {name} = {value}"));
                self.texts.push(name);
            }
            2 => self.typed_assign(),
            3..=5 => self.typed_command(),
            6 => self.typed_table(),
            7 | 8 => self.typed_choice(depth),
            9 => self.typed_count(depth),
            10 => self.typed_each(depth),
            _ => self.typed_function(),
        }
    }

    fn typed_assign(&mut self) {
        if self.random.below(2) == 0 && !self.texts.is_empty() {
            let number = self.random.below(self.texts.len());
            let (name, value) = (self.texts[number].clone(), self.words(1));
            self.line(&format!("{name} = string.sub({value}, 1, 40)"));
        } else if !self.variables.is_empty() {
            let number = self.random.below(self.variables.len());
            let (name, value) = (self.variables[number].clone(), self.whole(2));
            // What grows in loops stays small enough to be multiplied.
            self.line(&format!("{name} = ({value}) % 100003"));
        }
    }

    fn typed_command(&mut self) {
        let (counter, text) = (self.random.one(COUNTERS), self.random.one(TEXT_KEYS));
        let options = self.random.one(SET_OPTIONS);
        let line = match self.random.below(11) {
            0 => format!("redis.call('SET', {counter}, {}{options})", self.whole(2)),
            1 | 2 => format!("redis.call('SET', {text}, {}{options})", self.words(2)),
            3 => format!("redis.call('append', {text}, {})", self.words(1)),
            4 => format!(
                "redis.call('mset', {counter}, {}, {text}, {})",
                self.whole(1),
                self.words(1)
            ),
            5 | 6 => {
                let (command, time) = EXPIRIES[self.random.below(EXPIRIES.len())];
                format!("redis.call('{command}', {text}, {time})")
            }
            7 => format!("redis.call('setex', {text}, 100, {})", self.words(1)),
            8 => format!("redis.call('psetex', {text}, 100000, {})", self.words(1)),
            9 => format!("redis.call('getset', {text}, {})", self.words(1)),
            _ => format!("redis.call('incr', {counter})"),
        };
        self.line(&line);
    }

    fn typed_table(&mut self) {
        let name = self.name();
        let count = 1 + self.random.below(3);
        let values: Vec<_> = (0..count).map(|_| self.whole(2)).collect();
        self.line(&format!("local {name} = {{{}}}", values.join(", ")));
        self.tables.push((name, count));
    }

    /// Statements of a block; what it declares is gone after it.
    fn typed_block(&mut self, depth: usize) {
        let before = (self.variables.len(), self.texts.len());
        let others = (self.functions.len(), self.tables.len());
        self.depth += 1;
        for _ in 0..=self.random.below(depth) {
            self.typed_statement(depth - 1);
        }
        if self.random.below(6) == 0 {
            match self.loops > 0 && self.random.below(2) == 0 {
                true => self.line("break"),
                false => self.typed_result(),
            }
        }
        self.depth -= 1;
        self.variables.truncate(before.0);
        self.texts.truncate(before.1);
        self.functions.truncate(others.0);
        self.tables.truncate(others.1);
    }

    fn typed_choice(&mut self, depth: usize) {
        let condition = self.comparison(2);
        self.line(&format!("if {condition} then"));
        self.typed_block(depth);
        if self.random.below(3) == 0 {
            let condition = self.comparison(1);
            self.line(&format!("elseif {condition} then"));
            self.typed_block(depth);
        }
        if self.random.below(2) == 0 {
            self.line("else");
            self.typed_block(depth);
        }
        self.line("end");
    }

    fn typed_loop(&mut self, depth: usize) {
        self.loops += 1;
        self.typed_block(depth);
        self.loops -= 1;
        self.line("end");
    }

    fn typed_count(&mut self, depth: usize) {
        let name = self.name();
        let last = self.random.one(&["1", "3", "#ARGV", "6"]);
        let step = self.random.one(&["", ", 2"]);
        self.line(&format!("for {name} = 1, {last}{step} do"));
        self.constants.push(name);
        self.typed_loop(depth);
        self.constants.pop();
    }

    fn typed_each(&mut self, depth: usize) {
        let (place, word) = (self.name(), self.name());
        let words = self.random.one(&["KEYS", "ARGV"]);
        self.line(&format!("for {place}, {word} in ipairs({words}) do"));
        self.constants.push(place);
        self.texts.push(word);
        self.typed_loop(depth);
        self.texts.pop();
        self.constants.pop();
    }

    /// A function of whole numbers. It assigns to nothing around it, or it would not be compiled.
    fn typed_function(&mut self) {
        let name = self.name();
        let parameters: Vec<String> = (0..self.random.below(3)).map(|_| self.name()).collect();
        self.line(&format!("local function {name}({})", parameters.join(", ")));
        let variables = std::mem::replace(&mut self.variables, parameters.clone());
        self.depth += 1;
        if self.random.below(2) == 0 {
            self.typed_command();
        }
        let value = self.whole(2);
        self.line(&format!("return {value}"));
        self.depth -= 1;
        self.variables = variables;
        self.line("end");
        self.functions.push((name, parameters.len()));
    }

    pub(super) fn typed_result(&mut self) {
        let line = match self.random.below(10) {
            0..=2 => format!("return {}", self.whole(2)),
            3 | 4 => format!("return {}", self.words(2)),
            5 => format!("return {{{}, {}}}", self.whole(1), self.words(1)),
            6 => "return redis.call('mget', KEYS[1], 'k2', KEYS[3])".into(),
            7 => format!("return redis.status_reply('S' .. {})", self.words(1)),
            8 => format!("return {}", self.comparison(2)),
            _ => "return redis.error_reply('MY oops')".into(),
        };
        self.line(&line);
    }
}
