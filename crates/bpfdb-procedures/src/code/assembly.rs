//! Instructions of eBPF, with labels, and calls by name.
//!
//! Encoding: RFC 9669.

use std::collections::HashMap;

use crate::error::{Error, Result};

/// A register of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(pub(crate) u8);

/// What a function returns.
pub(crate) const R0: Reg = Reg(0);
/// Arguments of calls; gone after them.
pub(crate) const R1: Reg = Reg(1);
pub(crate) const R2: Reg = Reg(2);
pub(crate) const R3: Reg = Reg(3);
pub(crate) const R4: Reg = Reg(4);
pub(crate) const R5: Reg = Reg(5);
/// These stay over calls.
pub(crate) const R6: Reg = Reg(6);
pub(crate) const R7: Reg = Reg(7);
pub(crate) const R8: Reg = Reg(8);
pub(crate) const R9: Reg = Reg(9);

/// One instruction, as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u8,
    pub dst: u8,
    pub src: u8,
    pub off: i16,
    pub imm: i32,
}

const ALU64: u8 = 0x07;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
/// The second operand is a register.
const BY_REGISTER: u8 = 0x08;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const JUMP_ALWAYS: u8 = JMP;
const MAY_GOTO: u8 = 0xe5;
const EXIT: u8 = 0x95;
pub(crate) const CALL: u8 = 0x85;
/// `src` of a call: to a function of the same program.
pub(crate) const PSEUDO_CALL: u8 = 1;
/// `src` of a 64-bit load: the address of a function of the same program.
pub(crate) const PSEUDO_FUNC: u8 = 4;
/// `off` of a division: of numbers with a sign.
const SIGNED: i16 = 1;

impl Instruction {
    /// Does it name a function of the same program?
    pub(crate) fn refers(&self) -> bool {
        (self.code == CALL && self.src == PSEUDO_CALL) || self.loads_function()
    }

    fn loads_function(&self) -> bool {
        self.code == LOAD_IMMEDIATE_64 && self.src == PSEUDO_FUNC
    }

    /// May another one follow than the next, of the same function?
    fn jumps(&self) -> bool {
        const CLASS: u8 = 0x07;
        matches!(self.code & CLASS, JMP | JMP32) && !matches!(self.code, CALL | EXIT)
    }

    /// A wide one takes two places.
    pub(crate) fn is_wide(&self) -> bool {
        self.code == LOAD_IMMEDIATE_64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftRight = 0x70,
    Modulo = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
}

/// When a jump is taken; `S`: as numbers with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Jump {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    NotEqual = 0x50,
    SGreater = 0x60,
    SGreaterOrEqual = 0x70,
    Less = 0xa0,
    LessOrEqual = 0xb0,
    SLess = 0xc0,
    SLessOrEqual = 0xd0,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const STORE_IMMEDIATE: u8 = 0x62;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place(usize);

#[derive(Clone, Copy, Debug)]
enum Item {
    Instruction(Instruction),
    Jump(Instruction, Place),
    Call(&'static str),
    Place(Place),
    Line(u32),
    /// Fuel for a round of a loop is taken here, by [`TAKING`].
    Round,
}

/// Instructions that take fuel: the second compares with the amount, the third subtracts it.
const TAKING: usize = 4;

/// What is being assembled.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    items: Vec<Item>,
    places: usize,
}

/// The instructions of one function.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub instructions: Vec<Instruction>,
    /// Where functions of the template are called, and which.
    pub(crate) calls: Vec<(usize, &'static str)>,
    /// From which instruction on which line of the source is executed.
    pub lines: Vec<(usize, u32)>,
}

impl Assembly {
    /// A place that jumps may lead to; [`Assembly::put`] says where it is.
    pub(crate) fn place(&mut self) -> Place {
        self.places += 1;
        Place(self.places - 1)
    }

    pub(crate) fn put(&mut self, place: Place) {
        self.items.push(Item::Place(place));
    }

    pub(crate) fn line(&mut self, line: u32) {
        self.items.push(Item::Line(line));
    }

    fn push(&mut self, code: u8, dst: Reg, src: Reg, off: i16, imm: i32) {
        self.items.push(Item::Instruction(Instruction {
            code,
            dst: dst.0,
            src: src.0,
            off,
            imm,
        }));
    }

    pub(crate) fn alu(&mut self, operation: Alu, dst: Reg, src: Reg) {
        self.push(ALU64 | BY_REGISTER | operation as u8, dst, src, 0, 0);
    }

    pub(crate) fn alu_by(&mut self, operation: Alu, dst: Reg, imm: i32) {
        self.push(ALU64 | operation as u8, dst, R0, 0, imm);
    }

    /// Division and modulo of numbers with a sign.
    pub(crate) fn alu_signed(&mut self, operation: Alu, dst: Reg, src: Reg) {
        self.push(ALU64 | BY_REGISTER | operation as u8, dst, src, SIGNED, 0);
    }

    /// The same by a literal, which is neither 0 nor -1: the kernel takes it as it is, where it puts
    /// the questions for those two before any other divisor.
    pub(crate) fn alu_signed_by(&mut self, operation: Alu, dst: Reg, imm: i32) {
        debug_assert!(imm > 0);
        self.push(ALU64 | operation as u8, dst, R0, SIGNED, imm);
    }

    pub(crate) fn copy(&mut self, dst: Reg, src: Reg) {
        self.alu(Alu::Move, dst, src);
    }

    pub(crate) fn set(&mut self, dst: Reg, value: i64) {
        if let Ok(imm) = i32::try_from(value) {
            self.alu_by(Alu::Move, dst, imm);
            return;
        }
        self.push(LOAD_IMMEDIATE_64, dst, R0, 0, value as i32);
        self.push(0, R0, R0, 0, (value >> 32) as i32);
    }

    pub(crate) fn load(&mut self, width: Width, dst: Reg, base: Reg, off: i16) {
        self.push(LOAD | width as u8, dst, base, off, 0);
    }

    pub(crate) fn store(&mut self, width: Width, base: Reg, off: i16, src: Reg) {
        self.push(STORE | width as u8, base, src, off, 0);
    }

    pub(crate) fn store_value(&mut self, width: Width, base: Reg, off: i16, imm: i32) {
        self.push(STORE_IMMEDIATE | width as u8, base, R0, off, imm);
    }

    fn push_jump(&mut self, code: u8, dst: Reg, src: Reg, imm: i32, to: Place) {
        let instruction = Instruction {
            code,
            dst: dst.0,
            src: src.0,
            off: 0,
            imm,
        };
        self.items.push(Item::Jump(instruction, to));
    }

    pub(crate) fn jump(&mut self, to: Place) {
        self.push_jump(JUMP_ALWAYS, R0, R0, 0, to);
    }

    pub(crate) fn jump_if(&mut self, when: Jump, a: Reg, b: Reg, to: Place) {
        self.push_jump(JMP | BY_REGISTER | when as u8, a, b, 0, to);
    }

    pub(crate) fn jump_if_value(&mut self, when: Jump, a: Reg, imm: i32, to: Place) {
        self.push_jump(JMP | when as u8, a, R0, imm, to);
    }

    /// Of the lower 32 bits: what a function returned as an `int`.
    pub(crate) fn jump_if_int(&mut self, when: Jump, a: Reg, imm: i32, to: Place) {
        self.push_jump(JMP32 | when as u8, a, R0, imm, to);
    }

    /// Jumps when the kernel says that a loop has gone on for long enough. The verifier need
    /// not find out that it ends.
    pub(crate) fn may_goto(&mut self, to: Place) {
        self.push_jump(MAY_GOTO, R0, R0, 0, to);
    }

    /// Takes fuel, from the word at this offset of `base`; jumps if there is not so much. R1 is used.
    pub(crate) fn take(&mut self, base: Reg, fuel: i16, amount: i32, exit: Place) {
        self.load(Width::Word, R1, base, fuel);
        self.jump_if_value(Jump::Less, R1, amount, exit);
        self.alu_by(Alu::Add, R1, -amount);
        self.store(Width::Word, base, fuel, R1);
    }

    /// The same for a round of the loop whose jump back comes next. [`Assembly::finish`] finds out how
    /// much that is.
    pub(crate) fn take_for_round(&mut self, base: Reg, fuel: i16, exit: Place) {
        self.items.push(Item::Round);
        self.take(base, fuel, 1, exit);
    }

    pub(crate) fn call(&mut self, function: &'static str) {
        self.items.push(Item::Call(function));
    }

    pub(crate) fn exit(&mut self) {
        self.push(EXIT, R0, R0, 0, 0);
    }

    /// Resolves the jumps.
    ///
    /// # Errors
    /// [`Error::TooLong`] if one leads farther than an instruction can say.
    pub(crate) fn finish(mut self) -> Result<Code> {
        self.prune();
        let places = self.positions();
        let mut code = Code::default();
        let mut rounds = Vec::new();
        for item in self.items {
            let at = code.instructions.len();
            match item {
                Item::Place(_) => {}
                Item::Round => rounds.push(at),
                Item::Line(line) => code.note_line(at, line),
                Item::Instruction(instruction) => code.instructions.push(instruction),
                Item::Jump(mut instruction, to) => {
                    let distance = places[&to] as i64 - at as i64 - 1;
                    instruction.off = i16::try_from(distance).map_err(|_| Error::TooLong)?;
                    code.instructions.push(instruction);
                }
                Item::Call(function) => {
                    code.calls.push((at, function));
                    code.instructions.push(Instruction {
                        code: CALL,
                        dst: 0,
                        src: PSEUDO_CALL,
                        off: 0,
                        imm: -1,
                    });
                }
            }
        }
        for round in rounds {
            code.weigh(round);
        }
        Ok(code)
    }

    /// The kernel refuses instructions that are never reached: takes them away.
    fn prune(&mut self) {
        let places: HashMap<Place, usize> = self
            .items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| match item {
                Item::Place(place) => Some((*place, at)),
                _ => None,
            })
            .collect();
        let mut reached = vec![false; self.items.len()];
        let mut starts = vec![0];
        while let Some(start) = starts.pop() {
            self.walk(start, &places, &mut reached, &mut starts);
        }
        let mut at = 0;
        self.items.retain(|item| {
            at += 1;
            reached[at - 1] || matches!(item, Item::Place(_))
        });
    }

    /// Marks what is reached from here on; where jumps lead comes to `starts`.
    fn walk(
        &self,
        start: usize,
        places: &HashMap<Place, usize>,
        reached: &mut [bool],
        starts: &mut Vec<usize>,
    ) {
        let mut at = start;
        while at < self.items.len() && !reached[at] {
            reached[at] = true;
            match &self.items[at] {
                Item::Jump(instruction, to) => {
                    starts.push(places[to]);
                    if instruction.code == JUMP_ALWAYS {
                        return;
                    }
                }
                Item::Instruction(instruction) if instruction.code == EXIT => return,
                Item::Instruction(instruction) if instruction.is_wide() => {
                    reached[at + 1] = true;
                    at += 1;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn positions(&self) -> HashMap<Place, usize> {
        let mut places = HashMap::new();
        let mut at = 0;
        for item in &self.items {
            match item {
                Item::Place(place) => {
                    places.insert(*place, at);
                }
                Item::Line(_) | Item::Round => {}
                _ => at += 1,
            }
        }
        places
    }
}

/// Instructions that a unit of fuel is for: some 20 nanoseconds.
const PER_FUEL: usize = 64;
/// A call of a function of the template counts as so many: 25 nanoseconds, or 40 where the processor
/// has a busy neighbour. What takes longer takes fuel of its own.
const PER_CALL: usize = 128;

impl Code {
    /// Says how much fuel is taken at `round`: as much as the loop has instructions for.
    fn weigh(&mut self, round: usize) {
        let Some((begin, end)) = self.loop_around(round) else {
            return;
        };
        let calls = |one: &&Instruction| one.code == CALL;
        let instructions = &self.instructions[begin..=end];
        let work = instructions.len() + PER_CALL * instructions.iter().filter(calls).count();
        let amount = i32::try_from(1 + work / PER_FUEL).unwrap_or(i32::MAX);
        let taking = &mut self.instructions[round..round + TAKING];
        taking[1].imm = amount;
        taking[2].imm = -amount;
    }

    /// The first and the last instruction of the loop whose round this one is: the jump back comes
    /// right behind it.
    fn loop_around(&self, round: usize) -> Option<(usize, usize)> {
        let mut behind = self.instructions.iter().enumerate().skip(round);
        behind.find_map(|(at, instruction)| {
            let to = usize::try_from(at as i64 + 1 + i64::from(instruction.off)).ok()?;
            (instruction.jumps() && to <= round).then_some((to, at))
        })
    }

    fn note_line(&mut self, at: usize, line: u32) {
        match self.lines.last_mut() {
            Some(last) if last.0 == at => last.1 = line,
            Some(last) if last.1 == line => {}
            _ => self.lines.push((at, line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_their_places_and_what_nobody_reaches_is_left_out() {
        let mut assembly = Assembly::default();
        let (end, never) = (assembly.place(), assembly.place());
        assembly.set(R0, 1 << 40);
        assembly.jump_if_value(Jump::Equal, R0, 7, end);
        assembly.jump(end);
        assembly.put(never);
        assembly.set(R0, 5);
        assembly.jump(never);
        assembly.put(end);
        assembly.exit();

        let code = assembly.finish().expect("it is short");
        let codes: Vec<u8> = code.instructions.iter().map(|one| one.code).collect();
        assert_eq!(codes, [LOAD_IMMEDIATE_64, 0, 0x15, JUMP_ALWAYS, EXIT]);
        assert_eq!(code.instructions[2].off, 1);
        assert_eq!(code.instructions[3].off, 0);
    }

    /// What the instructions that take fuel take.
    fn amounts(code: &Code) -> Vec<(i32, i32)> {
        let takes = |two: &&[Instruction]| two[0].code == JMP | Jump::Less as u8;
        let pairs = code.instructions.windows(2).filter(takes);
        pairs.map(|two| (two[0].imm, two[1].imm)).collect()
    }

    /// An inner loop of ten calls in an outer one of a hundred further instructions.
    #[test]
    fn a_round_takes_fuel_for_what_it_does() {
        let mut assembly = Assembly::default();
        let (outer, inner, out) = (assembly.place(), assembly.place(), assembly.place());
        // Both begin at one place.
        assembly.put(outer);
        assembly.put(inner);
        for _ in 0..10 {
            assembly.call("f");
        }
        assembly.take_for_round(R6, 0, out);
        assembly.jump_if_value(Jump::Equal, R0, 0, inner);
        for _ in 0..100 {
            assembly.alu_by(Alu::Add, R2, 1);
        }
        assembly.take_for_round(R6, 0, out);
        assembly.jump(outer);
        assembly.put(out);
        assembly.exit();

        let code = assembly.finish().expect("it is short");
        let inside = 10 * (1 + 128) + 4 + 1;
        let around = 100 + inside + 4 + 1;
        let expected = [inside, around].map(|work: i32| 1 + work / 64);
        assert_eq!(amounts(&code), expected.map(|amount| (amount, -amount)));
    }

    #[test]
    fn a_jump_has_sixteen_bits() {
        let mut assembly = Assembly::default();
        let end = assembly.place();
        assembly.jump_if_value(Jump::Equal, R1, 0, end);
        for _ in 0..40_000 {
            assembly.set(R0, 0);
        }
        assembly.put(end);
        assembly.exit();
        assert!(matches!(assembly.finish(), Err(Error::TooLong)));
    }
}
