//! Stacks of the programs: a program and what it calls may have 512 bytes together
//! (`MAX_BPF_STACK`). Each verifier counts what is left of the spills after its own
//! improvements, and newer ones remove more of them: a program that loads on the newest
//! kernel may be refused by the oldest that is promised. So this counts, without a kernel,
//! what the compiler wrote.

use crate::common;

use std::collections::HashMap;

use bpfdb::objects::{FRONT_ENDS, TESTS, WEAK};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex,
    SectionKind, SymbolKind, SymbolSection,
};

/// Bytes of all frames that are open at a time.
const MOST: u64 = 512;
/// Bytes of the frames below one that ends in another program: less than this.
const MOST_BELOW_TAIL_CALL: u64 = 256;
/// A frame takes a multiple of this, and never nothing, where programs are compiled for the
/// processor: `round_up_stack_depth` of the kernel.
const UNIT: u64 = 16;

/// The register that points to the end of the frame.
const FRAME: u8 = 10;
const CALL: u8 = 0x85;
const LOAD_ADDRESS: u8 = 0x18;
const MOVE: u8 = 0xbf;
const ADD_CONSTANT: u8 = 0x07;
/// The low bits of the first byte: loads from, and stores to, memory that a register points to.
const CLASS: u8 = 7;
const LOAD: u8 = 1;
const STORE_CONSTANT: u8 = 2;
const STORE: u8 = 3;
/// Source register of a call of a helper, and of one within the program.
const HELPER: u8 = 0;
const OWN_FUNCTION: u8 = 1;
/// The helper `bpf_tail_call`.
const TAIL_CALL: i64 = 12;

/// Where a function begins: section, and byte in it.
type Place = (SectionIndex, u64);

#[derive(Default)]
struct Function {
    name: String,
    /// Bytes of its own frame.
    frame: u64,
    /// What it calls, or has called by a helper.
    calls: Vec<Place>,
    has_tail_call: bool,
}

impl Function {
    /// Bytes that it takes.
    fn size(&self) -> u64 {
        self.frame.max(1).next_multiple_of(UNIT)
    }
}

/// One instruction; see `struct bpf_insn`.
#[derive(Clone, Copy)]
struct Instruction<'a>(&'a [u8]);

impl Instruction<'_> {
    fn code(self) -> u8 {
        self.0[0]
    }

    fn destination(self) -> u8 {
        self.0[1] & 15
    }

    fn source(self) -> u8 {
        self.0[1] >> 4
    }

    fn offset(self) -> i64 {
        i16::from_le_bytes([self.0[2], self.0[3]]).into()
    }

    fn constant(self) -> i64 {
        i32::from_le_bytes(self.0[4..8].try_into().expect("four bytes")).into()
    }

    /// How far below the end of the frame it reaches. An address in the frame is made by
    /// two instructions: r = r10, r += constant.
    fn depth(self, before: Option<Self>) -> u64 {
        let makes_address =
            before.is_some_and(|before| before.code() == MOVE && before.source() == FRAME);
        let reach = if makes_address {
            let before = before.expect("an instruction");
            assert!(
                self.code() == ADD_CONSTANT && self.destination() == before.destination(),
                "an address in the frame is made in another way"
            );
            self.constant()
        } else {
            match self.code() & CLASS {
                LOAD if self.source() == FRAME => self.offset(),
                STORE | STORE_CONSTANT if self.destination() == FRAME => self.offset(),
                _ => 0,
            }
        };
        u64::try_from(-reach).unwrap_or(0)
    }
}

/// What an instruction refers to, by what the linker is to put in its place; `None`: something
/// of the kernel.
type Targets = HashMap<Place, Option<Place>>;

fn targets(file: &ElfFile64<'_, Endianness>) -> Targets {
    let mut targets = Targets::new();
    for section in (file.sections()).filter(|section| section.kind() == SectionKind::Text) {
        let data = section.data().expect("the section's bytes");
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let symbol = file.symbol_by_index(symbol).expect("the symbol");
            let Some(of) = symbol.section_index() else {
                targets.insert((section.index(), offset), None);
                continue;
            };
            let at = usize::try_from(offset).expect("an offset");
            let instruction = Instruction(&data[at..at + 8]);
            // Of a section, the instruction says which byte; a call in instructions, less one.
            let more = match (symbol.kind(), instruction.code()) {
                (SymbolKind::Section, CALL) => (instruction.constant() + 1) * 8,
                (SymbolKind::Section, _) => instruction.constant(),
                _ => 0,
            };
            let to = symbol.address().wrapping_add_signed(more);
            targets.insert((section.index(), offset), Some((of, to)));
        }
    }
    targets
}

fn function(name: &str, place: Place, code: &[u8], targets: &Targets) -> Function {
    let mut function = Function {
        name: name.to_owned(),
        ..Function::default()
    };
    let mut before = None;
    for (offset, bytes) in (place.1..).step_by(8).zip(code.chunks_exact(8)) {
        let instruction = Instruction(bytes);
        function.frame = function.frame.max(instruction.depth(before));
        before = Some(instruction);
        let target = targets.get(&(place.0, offset)).copied();
        match instruction.code() {
            CALL if instruction.source() == HELPER => {
                function.has_tail_call |= instruction.constant() == TAIL_CALL;
            }
            // Without a relocation: so many instructions from the next one.
            CALL if instruction.source() == OWN_FUNCTION => {
                let near = offset.wrapping_add_signed(8 + instruction.constant() * 8);
                (function.calls).extend(target.unwrap_or(Some((place.0, near))));
            }
            LOAD_ADDRESS => function.calls.extend(target.flatten()),
            _ => {}
        }
    }
    function
}

/// All functions of an object.
fn functions(bytes: &[u8]) -> HashMap<Place, Function> {
    let file = ElfFile64::<Endianness>::parse(bytes).expect("an object");
    let targets = targets(&file);
    file.symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| {
            let SymbolSection::Section(section) = symbol.section() else {
                return None;
            };
            let place = (section, symbol.address());
            let section = file.section_by_index(section).expect("the section");
            let code = section
                .data_range(symbol.address(), symbol.size())
                .expect("the section's bytes")?;
            let name = symbol.name().expect("a name");
            Some((place, function(name, place, code, &targets)))
        })
        .collect()
}

/// The most that a function and what it calls takes, and by which calls. What is no
/// function (an address of data) takes nothing.
fn deepest(
    place: Place,
    functions: &HashMap<Place, Function>,
    known: &mut HashMap<Place, (u64, String)>,
) -> (u64, String) {
    if let Some(known) = known.get(&place) {
        return known.clone();
    }
    let Some(function) = functions.get(&place) else {
        return (0, String::new());
    };
    let (below, calls) = (function.calls.iter())
        .map(|call| deepest(*call, functions, known))
        .max()
        .unwrap_or_default();
    let deepest = (
        function.size() + below,
        format!("{} {} > {calls}", function.name, function.frame),
    );
    known.insert(place, deepest.clone());
    deepest
}

/// The deepest of all programs of an object.
fn deepest_of(bytes: &[u8]) -> (u64, String) {
    let functions = functions(bytes);
    let mut known = HashMap::new();
    (functions.keys())
        .map(|place| deepest(*place, &functions, &mut known))
        .max()
        .expect("some function")
}

/// Notes the most bytes that there are below the frame of each function.
fn below(
    place: Place,
    bytes: u64,
    functions: &HashMap<Place, Function>,
    most: &mut HashMap<Place, u64>,
) {
    let Some(function) = functions.get(&place) else {
        return;
    };
    if most.get(&place).is_some_and(|known| *known >= bytes) {
        return;
    }
    most.insert(place, bytes);
    for call in &function.calls {
        below(*call, bytes + function.size(), functions, most);
    }
}

/// Functions that end in another program, and the most bytes below them.
fn tail_calls(bytes: &[u8]) -> Vec<(String, u64)> {
    let functions = functions(bytes);
    let mut most = HashMap::new();
    for place in functions.keys() {
        below(*place, 0, &functions, &mut most);
    }
    (functions.iter())
        .filter(|(_, function)| function.has_tail_call)
        .map(|(place, function)| (function.name.clone(), most[place]))
        .collect()
}

#[test]
fn stacks_have_room_without_help_of_the_kernel() {
    let tests = (TESTS.iter().chain(WEAK)).map(|object| (object.name, object.bytes));
    let objects: Vec<_> = common::products().into_iter().chain(tests).collect();
    let mut wrong = Vec::new();

    for (name, bytes) in &objects {
        let (stack, calls) = deepest_of(bytes);
        println!("{name}: {stack} bytes: {calls}");
        if stack > MOST {
            wrong.push(format!("{name}: {stack} bytes: {calls}"));
        }
        for (function, bytes) in tail_calls(bytes) {
            println!("{name}: {bytes} bytes below the tail call of {function}");
            if bytes >= MOST_BELOW_TAIL_CALL {
                wrong.push(format!("{name}: {bytes} bytes below {function}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is known of a program is found: if nothing were, no stack would be too large.
#[test]
fn frames_and_calls_are_found() {
    let functions = functions(bpfdb::objects::ENGINE);
    let named = |name: &str| {
        (functions.iter())
            .find(|(_, function)| function.name == name)
            .unwrap_or_else(|| panic!("no function {name}"))
    };
    let (_, run) = named("bpfdb_run");
    let (request, of_request) = named("request_run");
    let (_, scan) = named("run_scan");
    let (step, _) = named("scan_step");
    let (set, of_set) = named("bpfdb_set");

    assert!(run.calls.contains(request), "in the same place");
    assert!(scan.calls.contains(step), "by a helper");
    assert!(of_request.calls.contains(set), "in another place");
    assert!(run.frame >= 20 && of_set.frame > 0);
    let (stack, _) = deepest_of(bpfdb::objects::ENGINE);
    assert!(stack > MOST / 2, "{stack} bytes");
    let redis = FRONT_ENDS.iter().find(|object| object.name == "redis");
    let tail_calls = tail_calls(redis.expect("the Redis front end").bytes);
    assert!(!tail_calls.is_empty());
}
