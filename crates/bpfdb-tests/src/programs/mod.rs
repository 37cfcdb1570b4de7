//! Random programs of the subset that is compiled, and a little beyond: what they mean is not
//! known here, but every Lua must agree on it.

pub mod collections;
mod expressions;
mod statements;
mod typed;

/// Numbers that a seed gives again.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            random.below(2);
        }
        random
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    pub fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// A program on its way.
#[derive(Debug)]
struct Writer {
    random: Random,
    text: String,
    names: usize,
    depth: usize,
    /// Loops around the statement, within its function.
    loops: usize,
    /// Local variables that may be assigned to, and that may only be read.
    variables: Vec<String>,
    constants: Vec<String>,
    /// Local variables of a typed program that hold texts; the others hold whole numbers.
    texts: Vec<String>,
    /// Local functions and their parameters; tables and their elements.
    functions: Vec<(String, usize)>,
    tables: Vec<(String, usize)>,
}

/// A library of the functions `f<seed>`.
pub fn library(seeds: std::ops::Range<u64>) -> String {
    let functions: String = seeds
        .map(|seed| {
            let body = body(seed);
            format!("redis.register_function('f{seed}', function(KEYS, ARGV)\n{body}end)\n")
        })
        .collect();
    format!("#!lua name=lib\n{functions}")
}

/// The body of a function of KEYS and ARGV. Every other one is typed: the kernel answers it, as a
/// rule.
pub fn body(seed: u64) -> String {
    let mut writer = Writer {
        random: Random::new(seed),
        text: String::new(),
        names: 0,
        depth: 0,
        loops: 0,
        variables: Vec::new(),
        constants: Vec::new(),
        texts: Vec::new(),
        functions: Vec::new(),
        tables: Vec::new(),
    };
    if seed.is_multiple_of(2) {
        for _ in 0..2 + writer.random.below(8) {
            writer.typed_statement(3);
        }
        writer.typed_result();
        return match seed % ALIASES {
            0 => aliased(&writer.text),
            _ => writer.text,
        };
    }
    // The longer one is, the sooner it meets what has no meaning in the kernel.
    for _ in 0..1 + writer.random.below(6) {
        writer.statement(3, false);
    }
    writer.result(false);
    writer.text
}

/// One of so many programs has names of its own for what Redis gives; an even number.
const ALIASES: u64 = 8;

fn aliased(text: &str) -> String {
    let text = text
        .replace("redis.call(", "call(")
        .replace("redis.pcall(", "try(");
    format!("local call, try = redis.call, redis.pcall\n{text}")
}

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn line(&mut self, text: &str) {
        self.text += &"  ".repeat(self.depth);
        self.text += text;
        self.text.push('\n');
    }
}
