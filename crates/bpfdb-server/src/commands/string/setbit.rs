//! SETBIT.

use super::super::prelude::*;
use super::super::update::{change, check_len};
use super::bits;

pub(crate) static COMMAND: Command = Command {
    name: "setbit",
    summary: "Sets or clears one bit; pads the value with zero bytes",
    since: "2.2.0",
    group: Group::Bitmap,
    complexity: "O(length of the value)",
    arity: 4,
    arguments: "key:key, offset:integer, value:integer",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(
        1,
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    )],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let offset = bits::offset(&arguments[1])?;
    let on = match &*arguments[2] {
        b"0" => false,
        b"1" => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let before = change(context.session, &arguments[0], |old| {
        let mut value = old.unwrap_or_default();
        let before = bits::get(&value, offset);
        let (byte, mask) = (offset / 8, 0x80 >> (offset % 8));
        // Nothing is written: WATCH need not know.
        if byte < value.len() as u64 && before == on {
            return Ok((None, before));
        }
        check_len(byte + 1)?;
        value.resize(value.len().max(byte as usize + 1), 0);
        let byte = &mut value[byte as usize];
        *byte = if on { *byte | mask } else { *byte & !mask };
        Ok((Some(value), before))
    })?;
    context.replies.integer(before.into());
    Ok(())
}
