//! SET, and what is like it.

use super::super::assembly::{Jump, R0, R1, R2, R3, R4};
use super::super::emit::{Emitter, SESSION, Slot};
use super::super::operands::{Digits, Form, Number};
use super::Value;
use crate::types::Type;
use bpfdb::abi;

use crate::error::Result;
use crate::ir::{Operand, Presence, Register, Set, SetReturns, Time};

/// From here on times are the interpreter's: `TIME_LIMIT` in `bpf/values/expiry.bpf.h`.
const TIME_LIMIT: i64 = 1 << 50;

impl Emitter<'_> {
    pub(super) fn set(&mut self, to: Register, set: &Set) -> Result<()> {
        let key = self.text(&set.key, Digits::Argument)?;
        let value = self.value(&set.value)?;
        let expires = match &set.expires {
            Some((time, when)) => Some((*time, self.number(when, Form::Redis)?)),
            None => None,
        };
        if let Some((_, when)) = expires {
            // An error, also where nothing would be set.
            self.check_time(when);
        }
        let (not_set, end) = (self.place(), self.place());
        let old = self.fresh()?;
        self.key_text(key);
        let looks =
            set.only_if != Presence::Any || set.keeps_time || set.returns == SetReturns::Old;
        if looks {
            match set.returns {
                // Whose old value is the reply reads the key.
                SetReturns::Old => self.operator("bpfdb_get_exclusive"),
                _ => self.operator_of_any("bpfdb_get_for_update"),
            }
            self.look(set, old, not_set);
        }
        self.store(value, expires, set.keeps_time);
        match set.returns {
            SetReturns::Status => self.status(to, b"OK")?,
            SetReturns::Integer => self.put_value(to, 1, Type::Integer),
            SetReturns::Old => self.old(to, old)?,
        }
        self.asm().jump(end);
        self.asm().put(not_set);
        if set.only_if != Presence::Any {
            self.not_set(to, set.returns, old)?;
        }
        self.asm().put(end);
        Ok(())
    }

    /// After GET for update: keeps what was there, if that is the reply, and looks whether the
    /// condition holds.
    fn look(&mut self, set: &Set, old: Slot, not_set: super::Place) {
        if set.returns == SetReturns::Old {
            self.keep_old(set.only_if, old, not_set);
            return;
        }
        let found = abi::BPFDB_FOUND as i32;
        match set.only_if {
            Presence::Any => {}
            Presence::Absent => self.asm().jump_if_int(Jump::Equal, R0, found, not_set),
            Presence::Present => self.asm().jump_if_int(Jump::NotEqual, R0, found, not_set),
        }
    }

    /// What was there into a slot of scratch memory, with its tag.
    fn keep_old(&mut self, only_if: Presence, old: Slot, not_set: super::Place) {
        let (missing, end) = (self.place(), self.place());
        self.unless_found(missing);
        self.found(old);
        self.store_tag(old, Type::Text);
        match only_if {
            Presence::Absent => self.asm().jump(not_set),
            _ => self.asm().jump(end),
        }
        self.asm().put(missing);
        self.store_tag(old, Type::False);
        if only_if == Presence::Present {
            self.asm().jump(not_set);
        }
        self.asm().put(end);
    }

    fn store_tag(&mut self, slot: Slot, tag: Type) {
        self.asm()
            .store_value(super::Width::Byte, super::FRAME, slot.tag(), tag as i32);
    }

    fn store(&mut self, value: Value, expires: Option<(Time, Number)>, keeps_time: bool) {
        self.set_value(value);
        match expires {
            Some((time, when)) => self.expires(time, when),
            // Of what GET found before: no operator has looked for another key since.
            None if keeps_time => self.keep_time(),
            None => self.never_expires(),
        }
        self.operator("rt_set");
    }

    /// Ends the run if a time is none that SET takes.
    fn check_time(&mut self, when: Number) {
        let exit = self.exit(abi::BPFDB_DEOPTIMISATION_TIME);
        self.load_number(when, R1);
        self.asm().jump_if_value(Jump::SLessOrEqual, R1, 0, exit);
        self.asm().set(R2, TIME_LIMIT);
        self.asm().jump_if(Jump::SGreaterOrEqual, R1, R2, exit);
    }

    /// When the value of the next SET expires.
    pub(super) fn expires(&mut self, time: Time, when: Number) {
        self.load_number(when, R2);
        self.asm().copy(R1, SESSION);
        self.asm().set(R3, time.unit.into());
        self.asm().set(R4, time.from_now.into());
        self.call("rt_expires");
    }

    /// The reply is what was there.
    fn old(&mut self, to: Register, old: Slot) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        self.asm()
            .load(super::Width::Byte, R1, super::FRAME, old.tag());
        self.asm()
            .jump_if_value(Jump::NotEqual, R1, Type::Text as i32, missing);
        self.load_slot(old, R1);
        self.put(to, R1, Type::Text);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::False);
        self.asm().put(end);
        Ok(())
    }

    fn not_set(&mut self, to: Register, returns: SetReturns, old: Slot) -> Result<()> {
        match returns {
            SetReturns::Status => self.tag(to, Type::False),
            SetReturns::Integer => self.put_value(to, 0, Type::Integer),
            SetReturns::Old => self.old(to, old)?,
        }
        Ok(())
    }

    pub(super) fn get_delete(&mut self, to: Register, key: &Operand) -> Result<()> {
        let (missing, end) = (self.place(), self.place());
        self.key(key)?;
        self.operator("bpfdb_get_exclusive");
        self.unless_found(missing);
        self.found(Slot(to.0));
        self.operator("rt_delete");
        self.tag(to, Type::Text);
        self.asm().jump(end);
        self.asm().put(missing);
        self.tag(to, Type::False);
        self.asm().put(end);
        Ok(())
    }
}
