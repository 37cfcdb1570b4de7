//! Expressions: of numbers where Lua wants some, else of anything.

use super::Writer;

const LITERALS: &[&str] = &[
    "1",
    "2",
    "0",
    "-3",
    "10",
    "'5'",
    "'12'",
    "7",
    "3",
    "100",
    "'8'",
    "nil",
    "true",
    "false",
    "'abc def'",
    "'x'",
    "''",
    "'a'",
    "9007199254740992",
    "1e14",
    "99999999999999",
    "'007'",
    "'-0'",
    "'1.5'",
    "' 3'",
];
/// The first so many are numbers, and are taken more often.
const COMMON_LITERALS: usize = 11;
const NUMBERS: &[&str] = &["1", "2", "3", "-2", "5", "10", "'4'", "0"];
const KEYS: &[&str] = &[
    "KEYS[1]", "KEYS[2]", "KEYS[3]", "'k1'", "'k' .. 2", "KEYS[1]",
];
const OF_ONE_KEY: &[&str] = &[
    "incr", "decr", "del", "getdel", "strlen", "ttl", "persist", "type", "exists", "touch",
];
const SET_OPTIONS: &[&str] = &[
    "",
    ", 'NX'",
    ", 'XX'",
    ", 'GET'",
    ", 'EX', 100",
    ", 'KEEPTTL'",
    ", 'PX', '100000'",
    ", 'XX', 'GET'",
    ", 'NX', 'EX', 50",
];

impl Writer {
    pub(super) fn key(&mut self) -> String {
        self.random.one(KEYS).into()
    }

    /// A local variable; of a typed program, one that holds a whole number.
    pub(super) fn variable(&mut self, otherwise: &str) -> String {
        let all = self.variables.len() + self.constants.len();
        if all == 0 {
            return otherwise.into();
        }
        let number = self.random.below(all);
        let mut names = self.variables.iter().chain(&self.constants);
        names.nth(number).cloned().unwrap_or_default()
    }

    /// Something that is a number, as a rule.
    pub(super) fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.random.below(4) {
                0 => "#KEYS".into(),
                1 => "#ARGV".into(),
                2 => format!("tonumber(ARGV[{}])", 1 + self.random.below(3)),
                _ => self.random.one(NUMBERS).into(),
            };
        }
        let depth = depth - 1;
        match self.random.below(14) {
            0..=2 => {
                let operator = self.random.one(&["+", "-", "*", "%", "/", "+", "-", "+"]);
                format!("({} {operator} {})", self.number(depth), self.number(depth))
            }
            3 => format!("math.min({}, {})", self.number(depth), self.number(depth)),
            4 => format!("math.max({}, {})", self.number(depth), self.number(depth)),
            5 => format!("math.abs({})", self.number(depth)),
            6 => format!(
                "math.floor({} / {})",
                self.number(depth),
                self.number(depth)
            ),
            7 => format!("#({} .. '')", self.number(depth)),
            8 => format!(
                "(tonumber({}) or {})",
                self.expression(depth),
                self.number(depth)
            ),
            9 => format!(
                "redis.call('incrby', {}, {})",
                self.key(),
                self.number(depth)
            ),
            10 => format!(
                "({} and {} or {})",
                self.condition(depth),
                self.number(depth),
                self.number(depth)
            ),
            11 => format!("-({})", self.number(depth)),
            12 => self.variable("4"),
            _ => self.random.one(&["#KEYS", "#ARGV", "#'abc'"]).into(),
        }
    }

    pub(super) fn condition(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.variable("true");
        }
        let depth = depth - 1;
        match self.random.below(8) {
            0 | 1 => {
                let comparison = self.random.one(&["<", "<=", ">", ">=", "==", "~="]);
                format!("{} {comparison} {}", self.number(depth), self.number(depth))
            }
            2 => {
                let comparison = self.random.one(&["==", "~="]);
                format!(
                    "({}) {comparison} ({})",
                    self.expression(depth),
                    self.expression(depth)
                )
            }
            3 => format!("not ({})", self.condition(depth)),
            4 => format!(
                "({}) and ({})",
                self.condition(depth),
                self.condition(depth)
            ),
            5 => format!("({}) or ({})", self.condition(depth), self.condition(depth)),
            6 => format!("redis.call('exists', {}) == 1", self.key()),
            _ => self.expression(depth),
        }
    }

    pub(super) fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple();
        }
        let depth = depth - 1;
        match self.random.below(20) {
            0..=3 => self.number(depth),
            4 => format!(
                "({} .. {} .. {})",
                self.number(depth),
                self.expression(depth),
                self.literal()
            ),
            5 => format!("({} or {})", self.expression(depth), self.expression(depth)),
            6 => format!(
                "({} and {})",
                self.expression(depth),
                self.expression(depth)
            ),
            7 => format!("({})", self.condition(depth)),
            8 => format!("redis.call('GET', {})", self.key()),
            9 => {
                let options = self.random.one(SET_OPTIONS);
                format!(
                    "redis.call('set', {}, {}{options})",
                    self.key(),
                    self.expression(depth)
                )
            }
            10 => format!(
                "redis.call('{}', {})",
                self.random.one(OF_ONE_KEY),
                self.key()
            ),
            11 => format!("tostring({})", self.number(depth)),
            12 => {
                let text = self.expression(depth);
                format!("string.sub({text}, {}, {})", self.number(0), self.number(0))
            }
            13 => format!("({}):sub({})", self.expression(depth), self.number(0)),
            14 => format!("ARGV[{}]", self.number(depth)),
            15 => self.call(depth),
            16 => self.element(),
            17 => format!(
                "redis.call('set', {}, {}).ok",
                self.key(),
                self.number(depth)
            ),
            18 => format!("#{}", self.expression(depth)),
            _ => self.simple(),
        }
    }

    fn simple(&mut self) -> String {
        match self.random.below(5) {
            0 => self.literal(),
            1 => format!("ARGV[{}]", self.random.below(5)),
            2 => self.key(),
            _ => self.variable("'q'"),
        }
    }

    fn literal(&mut self) -> String {
        let is_any = self.random.below(4) == 0;
        let of = if is_any {
            LITERALS.len()
        } else {
            COMMON_LITERALS
        };
        self.random.one(&LITERALS[..of]).into()
    }

    /// Of a local function, with as many arguments as it has parameters, or nearly.
    fn call(&mut self, depth: usize) -> String {
        if self.functions.is_empty() {
            return self.simple();
        }
        let number = self.random.below(self.functions.len());
        let (name, mut count) = self.functions[number].clone();
        if self.random.below(4) == 0 {
            count += self.random.below(3);
        }
        let arguments: Vec<_> = (0..count).map(|_| self.expression(depth.min(1))).collect();
        format!("{name}({})", arguments.join(", "))
    }

    fn element(&mut self) -> String {
        if self.tables.is_empty() {
            return self.simple();
        }
        let number = self.random.below(self.tables.len());
        let (name, count) = self.tables[number].clone();
        format!("{name}[{}]", self.random.below(count + 2))
    }
}
