//! ACL GENPASS.

use std::fs::File;
use std::io::Read;

use super::super::super::arguments::number;
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;

pub(crate) static COMMAND: Command = Command {
    name: "acl|genpass",
    summary: "Makes a random password",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -2,
    arguments: "[bits:integer]",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    run,
    ..Command::BASE
};

const BITS: i64 = 256;
const BITS_MAX: i64 = 4096;
const BITS_OF_DIGIT: i64 = 4;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let bits = match arguments {
        [] => BITS,
        [bits] => number(bits)?,
        _ => return Err(wrong_subcommand_arity(context, "ACL")),
    };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to {BITS_MAX}"
        )
        .into());
    }
    let digits = (bits as usize).div_ceil(BITS_OF_DIGIT as usize);
    context.replies.bulk(secret(digits)?);
    Ok(())
}

/// So many hexadecimal digits from the kernel's generator.
fn secret(digits: usize) -> Result<String, Failure> {
    let mut bytes = vec![0; digits.div_ceil(2)];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(|error| format!("ERR /dev/urandom: {error}"))?;
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    Ok(text)
}
