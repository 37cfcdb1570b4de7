//! Jobs per second of queues of others, as they are: BullMQ and RQ, with the packages that `make test` has
//! installed.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::plan::Plan;
use crate::sample::Sample;
use crate::tcp::Server;

/// A queue of others: a program that prints jobs per second, given a port and how many jobs.
pub(super) struct Application {
    pub(super) name: &'static str,
    /// Its folder below `target/tmp`, in which its packages are.
    folder: &'static str,
    /// What runs it, from that folder or from the path.
    interpreter: &'static str,
    /// In the folder: it is installed if this is there.
    package: &'static str,
    /// The program, and its file's ending.
    text: &'static str,
    ending: &'static str,
    /// One of so many jobs is done, where they take longer.
    share: u32,
}

pub(super) const APPLICATIONS: [Application; 2] = [
    Application {
        name: "BullMQ",
        folder: "queues_node",
        interpreter: "node",
        package: "node_modules/bullmq",
        text: include_str!("bullmq.mjs"),
        ending: "mjs",
        share: 1,
    },
    Application {
        name: "RQ",
        folder: "queues",
        interpreter: "venv/bin/python",
        package: "venv/bin/rq",
        text: include_str!("rq.py"),
        ending: "py",
        share: 10,
    },
];

/// Of each application jobs per second of each server; `None`: it is not installed.
pub(super) fn measure(plan: &Plan, servers: &[Server]) -> Result<Vec<Option<Vec<Sample>>>> {
    let installed = APPLICATIONS.iter().map(Application::installed);
    let installed: Vec<Option<PathBuf>> = installed.collect();
    let none = || vec![Sample::default(); servers.len()];
    let mut all: Vec<Option<Vec<Sample>>> = installed
        .iter()
        .map(|folder| folder.as_ref().map(|_| none()))
        .collect();
    for round in 0..plan.rounds {
        eprintln!("types-jobs: round {} of {}", round + 1, plan.rounds);
        let places = APPLICATIONS.iter().zip(&installed).zip(&mut all);
        for ((application, folder), rates) in places {
            let (Some(folder), Some(rates)) = (folder, rates) else {
                continue;
            };
            for (server, rate) in servers.iter().zip(rates) {
                let jobs = plan.jobs / application.share;
                let done = application.run(folder, server, jobs);
                rate.push(
                    done.with_context(|| format!("{} of {}", application.name, server.name))?,
                );
            }
        }
    }
    Ok(all)
}

impl Application {
    /// The folder with its packages, if they are there.
    fn installed(&self) -> Option<PathBuf> {
        let program = env::current_exe().ok()?;
        let folder = program.ancestors().nth(2)?.join("tmp").join(self.folder);
        folder.join(self.package).exists().then_some(folder)
    }

    fn run(&self, folder: &Path, server: &Server, jobs: u32) -> Result<f64> {
        // Node looks for packages beside the program.
        let script = folder.join(format!("bench-{}.{}", process::id(), self.ending));
        fs::write(&script, self.text).context("write a program")?;
        let here = folder.join(self.interpreter);
        let interpreter = if here.exists() {
            here
        } else {
            self.interpreter.into()
        };
        let output = Command::new(interpreter)
            .arg(&script)
            .args([server.address.port().to_string(), jobs.to_string()])
            .current_dir(folder)
            .output();
        fs::remove_file(&script).context("remove a program")?;
        let output = output.context("start an application")?;
        let (told, wrong) = (output.stdout.trim_ascii(), output.stderr);
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&wrong)
        );
        let told = String::from_utf8_lossy(told);
        told.lines()
            .last()
            .and_then(|line| line.parse().ok())
            .with_context(|| format!("no figure: {told}"))
    }
}
