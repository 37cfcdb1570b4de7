//! Latency of other clients while the server is attacked, and the memory that an attack takes.
//!
//! ```text
//! attacks.rs      the list of attacks
//! attacker.rs     one connection of an attacker; what all attackers share
//! requests.rs     attacks by requests that are wrong, or never end
//! connections.rs  attacks by many connections, and by clients that do not read
//! bystander.rs    a client that behaves well, and how long it waits
//! memory.rs       memory of the server's process, and of the kernel
//! tables.rs       what was measured, as tables
//! ```
//!
//! Each attack meets a server of its own, so that nothing is left of the others.
//! Attackers and bystanders are threads of this program, at 127.0.0.1.

mod attacker;
mod attacks;
mod bystander;
mod connections;
mod memory;
mod requests;
mod tables;

use std::path::{Path, PathBuf};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::machine;
use crate::plan::Plan;
use crate::report::Table;
use crate::tcp::{DESCRIPTORS, NetworkNamespace, Server, rivals};
use attacker::{AtEnd, AttackState};
use attacks::{ATTACKS, Attack};
pub(crate) use bystander::{Bystander, Waits};
use memory::{Memory, Watch};
use tables::Results;

/// A server that can be started again and again.
enum Program {
    Bpfdb,
    Redis(PathBuf),
}

impl Program {
    fn start(&self, quick: bool) -> Result<Server> {
        let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
        match self {
            Self::Bpfdb => Server::bpfdb("off", &namespaces, quick),
            Self::Redis(program) => Server::redis(program, &namespaces),
        }
    }
}

/// What one attack came to.
struct Outcome {
    kernel: Waits,
    daemon: Waits,
    before: Memory,
    most: Memory,
    after: Memory,
    connections: f64,
    sent: f64,
}

pub(crate) fn measure(plan: &Plan, other: Option<&Path>) -> Result<Vec<Table>> {
    machine::raise_descriptor_limit(DESCRIPTORS)?;
    // The rest of the report is worth having.
    if let Err(error) = Program::Bpfdb.start(plan.quick) {
        return Ok(vec![tables::skipped(&format!("{error:#}"))]);
    }
    let (rivals, note) = rivals(plan, other)?;
    let mut programs = vec![Program::Bpfdb];
    programs.extend(rivals.into_iter().map(Program::Redis));

    let mut results = Results::default();
    for round in 0..plan.rounds {
        eprintln!("hostile: round {} of {}", round + 1, plan.rounds);
        for attack in &ATTACKS {
            for program in &programs {
                let mut server = program.start(plan.quick)?;
                match suffer(plan, &server, attack) {
                    Ok(outcome) => results.add(attack.name, &server.name, &outcome),
                    Err(error) if plan.quick => return Err(error.context(server.state())),
                    // The other figures are worth having.
                    Err(error) => {
                        results.fail(attack.name, format!("{error:#}; {}", server.state()));
                    }
                }
            }
        }
    }
    Ok(results.tables(plan, note))
}

/// Attacks `server` for a while, and looks what that does to others.
fn suffer(plan: &Plan, server: &Server, attack: &Attack) -> Result<Outcome> {
    /// Until it has taken note that its clients are gone.
    const RECOVERY: Duration = Duration::from_millis(500);
    let mut kernel = Bystander::of_kernel(server)?;
    let mut daemon = Bystander::of_daemon(server)?;
    let before = Memory::of(server.process())?;
    let state = AttackState::new(server.address, plan);

    let (waits, most) = thread::scope(|scope| {
        let attackers: Vec<_> = (0..attack.threads)
            .map(|_| {
                scope.spawn(|| {
                    // If it fails, it is not waited for.
                    let _end = AtEnd::of(&state);
                    (attack.run)(&state)
                })
            })
            .collect();
        let observed = {
            let _end = AtEnd::of(&state);
            observe(scope, plan, server, &mut kernel, &mut daemon, || {
                state.wait_until_ready(attack.threads);
            })
        };
        for attacker in attackers {
            joined(attacker).context("the attacker")?;
        }
        observed
    })?;
    thread::sleep(RECOVERY.min(plan.attack_time));
    let [kernel, daemon] = waits;
    Ok(Outcome {
        kernel,
        daemon,
        before,
        most,
        after: Memory::of(server.process())?,
        connections: state.connections(),
        sent: state.sent(),
    })
}

/// What both bystanders wait for, and the most memory meanwhile.
fn observe<'scope>(
    scope: &'scope Scope<'scope, '_>,
    plan: &Plan,
    server: &Server,
    kernel: &'scope mut Bystander,
    daemon: &'scope mut Bystander,
    prepare: impl FnOnce(),
) -> Result<([Waits; 2], Memory)> {
    let time = plan.attack_time;
    let watch = Watch::start(scope, server.process());
    prepare();
    let waiting = [kernel, daemon].map(|bystander| scope.spawn(move || bystander.ask(time)));
    let [kernel, daemon] = waiting.map(joined);
    Ok(([kernel?, daemon?], watch.most()?))
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread failed"))?
}
