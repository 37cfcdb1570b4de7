//! Payers that run in interrupts (`bpf/tests/interrupt.bpf.c`): the operators of
//! one program interrupt those of another on the same processor.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bpfdb::{Program, Session, find_program, objects, open_object};
use libbpf_rs::{MapCore, MapFlags, Object};

use crate::kernel::Kernel;
use crate::stress::{DEPOSIT, Guests, Tally};
use crate::timer;

/// Running payers, one for each processor. They end when this is dropped.
pub struct Interrupts {
    payers: Vec<Session>,
    stopper: Program,
    committed: Program,
    refused: Program,
    unexpected: Program,
    interrupted: Program,
    /// Holds the programs of the timers.
    _object: Object,
}

/// What an interrupt says of an audit; no status.
const WRONG_SUM: u32 = 1000;
/// Bytes of an account's name, padded.
const NAME: usize = 128;

impl Interrupts {
    /// One payer for each processor, one step every `period`, between accounts
    /// of the money test.
    pub fn start(kernel: &Kernel, accounts: &[Vec<u8>], period: Duration) -> Interrupts {
        let object = load(kernel);
        write_accounts(&object, accounts);
        let find = |name: &str| find_program(&object, name).expect("a program of the object");
        let start = find("interrupt_start");
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let payers: Vec<Session> = (0..processors)
            .map(|_| kernel.engine.session().expect("a free session"))
            .collect();
        for (number, session) in payers.iter().enumerate() {
            let orders = [
                number as u64,
                u64::from(session.index()),
                accounts.len() as u64,
                DEPOSIT * accounts.len() as u64,
                period.as_nanos() as u64,
                processors as u64,
            ];
            timer::start(|| on_processor(number, || start.run(&orders).expect("start a payer")));
        }
        Interrupts {
            payers,
            stopper: find("interrupt_stop"),
            committed: find("interrupt_committed"),
            refused: find("interrupt_refused"),
            unexpected: find("interrupt_unexpected"),
            interrupted: find("interrupt_interrupted"),
            _object: object,
        }
    }

    fn tally(&self) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for number in 0..self.payers.len() as u64 {
            let ask = |program: &Program| program.run(&orders_of(number)).expect("ask a payer");
            match ask(&self.unexpected) {
                0 => {}
                WRONG_SUM => return Err("an audit in an interrupt found another sum".into()),
                status => return Err(format!("an interrupt was told status {status}")),
            }
            tally.committed += u64::from(ask(&self.committed));
            tally.conflicts += u64::from(ask(&self.refused));
            tally.interrupts += u64::from(ask(&self.interrupted));
        }
        Ok(tally)
    }
}

impl Guests for Interrupts {
    fn end(mut self) -> Result<Tally, String> {
        self.stop();
        self.tally()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Interrupts {
    fn stop(&mut self) {
        let start = Instant::now();
        for number in 0..self.payers.len() as u64 {
            while self.stopper.run(&orders_of(number)).expect("stop a payer") == 0 {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "payer {number} does not stop"
                );
                sleep(Duration::from_millis(1));
            }
        }
    }
}

/// For the programs that only need to know which payer.
fn orders_of(number: u64) -> [u64; 6] {
    [number, 0, 0, 0, 0, 0]
}

fn load(kernel: &Kernel) -> Object {
    let named = |object: &&objects::TestObject| object.name == "interrupt";
    let bytes = objects::TESTS.iter().find(named).expect("embedded").bytes;
    let mut object = open_object(bytes, "interrupt").expect("open the object");
    kernel.engine.adopt(&mut object).expect("share the engine");
    object.load().expect("load the object")
}

fn write_accounts(object: &Object, accounts: &[Vec<u8>]) {
    let map = object
        .maps()
        .find(|map| map.name() == "interrupt_accounts")
        .expect("the map of accounts");
    for (number, name) in accounts.iter().enumerate() {
        let mut entry = (name.len() as u64).to_le_bytes().to_vec();
        entry.extend_from_slice(name);
        assert!(
            entry.len() <= 8 + NAME,
            "the name of an account is too long"
        );
        entry.resize(8 + NAME, 0);
        map.update(&(number as u32).to_ne_bytes(), &entry, MapFlags::ANY)
            .expect("write an account");
    }
}

/// Runs it on that processor, if this process may.
fn on_processor<R>(number: usize, run: impl FnOnce() -> R) -> R {
    // SAFETY: cpu_set_t is plain data, zero is the empty set; both calls get the
    // size of the set that they get.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let (mut before, mut only): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        libc::sched_getaffinity(0, size, &mut before);
        libc::CPU_SET(number, &mut only);
        libc::sched_setaffinity(0, size, &only);
        let result = run();
        libc::sched_setaffinity(0, size, &before);
        result
    }
}
