//! The verifier accepts what is generated: the smallest program, and one of many operations. Those
//! of all kinds, with operands of all types, are in the server's random programs.

use crate::it::common;

use bpfdb_procedures::code::emit;
use bpfdb_procedures::ir::*;
use bpfdb_procedures::load::Program;

use common::{engine, template};

fn function(registers: usize, operations: Vec<Operation>) -> Function {
    Function {
        name: b"f".to_vec(),
        registers: vec![None; registers],
        lines: operations
            .into_iter()
            .enumerate()
            .map(|(number, operation)| Line {
                number: number as u32 + 1,
                operation,
            })
            .collect(),
    }
}

#[test]
fn the_smallest_is_accepted() {
    let engine = engine();
    let template = template(&engine);
    let function = function(1, vec![Operation::Return(Operand::Integer(7))]);
    let code = emit(&[&function]).expect("it is emitted");
    let program = Program::load(&template, &code).unwrap_or_else(|error| panic!("{error}"));
    println!("{program:?}");
}

#[test]
fn voter_is_accepted() {
    use Operation::{Arithmetic, Call, JumpIf, Move, Return, ToNumber};
    let l = |n| bpfdb_procedures::ir::Label(n);
    let r = |n| Register(n);
    let o = |n| Operand::Register(Register(n));
    let engine = engine();
    let template = template(&engine);
    let function = function(
        6,
        vec![
            Call(r(0), Command::Get(Operand::Word(Words::Keys, 1))),
            JumpIf(Condition::True(o(0)), l(0)),
            Return(Operand::Integer(1)),
            Operation::Label(l(0)),
            Call(r(1), Command::Get(Operand::Word(Words::Keys, 2))),
            JumpIf(Condition::True(o(1)), l(1)),
            Move(r(1), Operand::Text(b"0".to_vec())),
            Operation::Label(l(1)),
            ToNumber(r(2), o(1)),
            ToNumber(r(3), Operand::Word(Words::Arguments, 1)),
            JumpIf(Condition::Not(o(2), Comparison::GreaterOrEqual, o(3)), l(2)),
            Return(Operand::Integer(2)),
            Operation::Label(l(2)),
            Arithmetic(
                r(4),
                bpfdb_procedures::ir::Arithmetic::Add,
                o(2),
                Operand::Integer(1),
            ),
            Call(
                r(5),
                Command::Set(Set {
                    key: Operand::Word(Words::Keys, 2),
                    value: o(4),
                    only_if: Presence::Any,
                    expires: None,
                    keeps_time: false,
                    returns: SetReturns::Status,
                }),
            ),
            Call(
                r(5),
                Command::Increment {
                    key: Operand::Word(Words::Keys, 3),
                    by: Operand::Integer(1),
                    negative: false,
                },
            ),
            Return(Operand::Integer(0)),
        ],
    );
    println!("{function}");
    let code = emit(&[&function]).expect("it is emitted");
    let begun = std::time::Instant::now();
    let program = Program::load(&template, &code).unwrap_or_else(|error| panic!("{error}"));
    println!("{program:?} {:?}", begun.elapsed());
}
