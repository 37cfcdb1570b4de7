//! Division: by literals, which the compiler knows, and by arguments, which it does not.

use bpfdb_procedures::inside::{CallError, Failure, Reply};

use super::{compiler, engine, library};

/// Up to here quotients of floating point are rounded to no other whole number.
const DIVIDEND_MAX: i64 = 1 << 52;
const DIVIDENDS: [i64; 17] = [
    0,
    1,
    -1,
    6,
    -6,
    7,
    -7,
    8,
    -8,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 33,
    -(1 << 33) - 1,
    DIVIDEND_MAX,
    -DIVIDEND_MAX,
    DIVIDEND_MAX + 1,
    1 << 53,
];
const DIVISORS: [i64; 10] = [
    1,
    2,
    7,
    1000,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    0,
    -1,
    -7,
    i32::MIN as i64,
];

/// What Lua has, if it is a whole number that is surely exact.
fn modulo(a: i64, b: i64) -> Option<i64> {
    let is_exact = b != 0 && a.abs() <= DIVIDEND_MAX && b.abs() <= DIVIDEND_MAX;
    is_exact.then(|| {
        let rest = a % b;
        if rest != 0 && (rest < 0) != (b < 0) {
            rest + b
        } else {
            rest
        }
    })
}

/// Of 0 by a negative number it is -0, which is no whole number to the compiler.
fn quotient(a: i64, b: i64) -> Option<i64> {
    let is_whole = b != 0 && a % b == 0 && !(a == 0 && b < 0);
    is_whole.then(|| a / b)
}

fn check(what: &str, reply: Result<Reply, CallError>, expected: Option<i64>) {
    match (reply, expected) {
        (Ok(Reply::Integer(value)), Some(expected)) => assert_eq!(value, expected, "{what}"),
        (Err(CallError::Failed(Failure::GivenUp(_))), None) => {}
        (reply, _) => panic!("{what}: {reply:?}, expected: {expected:?}"),
    }
}

#[test]
fn divisors_that_are_literals_mean_the_same_as_others() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let number = |value: i64| value.to_string().into_bytes();
    type Meaning = fn(i64, i64) -> Option<i64>;
    for (operator, meaning) in [("%", modulo as Meaning), ("/", quotient)] {
        let general = format!("return args[1] {operator} args[2]");
        let literals = DIVISORS.map(|b| format!("return args[1] {operator} {b}"));
        let names = DIVISORS.map(|b| format!("by{b}").replace('-', "_"));
        let mut functions: Vec<(&str, &str)> = (names.iter().zip(&literals))
            .map(|(name, body)| (name.as_str(), body.as_str()))
            .collect();
        functions.push(("any", &general));
        let library = library(&compiler(&engine), &functions);
        for (b, name) in DIVISORS.iter().zip(&names) {
            for a in DIVIDENDS {
                let (what, expected) = (format!("{a} {operator} {b}"), meaning(a, *b));
                let arguments: [&[u8]; 2] = [&number(a), &number(*b)];
                let mut call = |name| library.call(&mut session, name, &[], &arguments);
                check(&what, call("any"), expected);
                check(&format!("{what}, a literal"), call(name), expected);
            }
        }
    }
}
