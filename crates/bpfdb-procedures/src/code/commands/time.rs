//! When values expire.

use std::mem::offset_of;

use bpfdb::abi::{bpfdb_frame, bpfdb_session};

use super::super::assembly::{R0, R1, R3, R4, R5, Width};
use super::super::emit::{Emitter, FRAME, SESSION, at};
use super::super::operands::{Digits, Form};
use crate::error::Result;
use crate::ir::{Operand, Register, Time};
use crate::types::Type;

impl Emitter<'_> {
    /// The next SET's value does not expire.
    pub(super) fn never_expires(&mut self) {
        let expires = at(offset_of!(bpfdb_session, expires));
        self.asm().store_value(Width::Double, SESSION, expires, 0);
    }

    pub(super) fn expire(
        &mut self,
        to: Register,
        key: &Operand,
        time: Time,
        when: &Operand,
    ) -> Result<()> {
        let key = self.text(key, Digits::Argument)?;
        let when = self.number(when, Form::Redis)?;
        let missing = self.place();
        self.key_text(key);
        self.operator_of_any("bpfdb_get_for_update");
        self.unless_found(missing);
        self.with_session("rt_again");
        self.expires(time, when);
        self.operator("rt_set");
        self.done_or_not(to, missing);
        Ok(())
    }

    pub(super) fn persist(&mut self, to: Register, key: &Operand) -> Result<()> {
        let missing = self.place();
        self.key(key)?;
        self.operator_of_any("bpfdb_get_for_update");
        self.unless_found(missing);
        let expires = at(offset_of!(bpfdb_session, found_expires));
        self.asm().load(Width::Double, R1, SESSION, expires);
        self.unless_one(missing);
        self.with_session("rt_again");
        self.never_expires();
        self.operator("rt_set");
        self.done_or_not(to, missing);
        Ok(())
    }

    pub(super) fn time_left(&mut self, to: Register, key: &Operand, time: Time) -> Result<()> {
        self.key(key)?;
        self.read_any(key);
        self.asm().copy(R3, R0);
        self.asm().set(R4, time.unit.into());
        self.asm().set(R5, time.from_now.into());
        self.with_session("rt_time_left");
        let left = at(offset_of!(bpfdb_frame, text));
        self.asm().load(Width::Double, R1, FRAME, left);
        // It may be a time in a million years.
        self.check_range();
        self.put(to, R1, Type::Integer);
        Ok(())
    }
}
