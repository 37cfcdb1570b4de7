// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loader with the crate bpfdb: lets an object that embeds bpfdb join the engine that is pinned
//! in a folder, attaches its XDP program to an interface, and does both again when the engine has
//! been replaced. Runs until it is killed. docs/joining.md explains each step.
//!
//! ```text
//! join FOLDER OBJECT PROGRAM INTERFACE
//! ```

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bpfdb::{Engine, Error};

const PERIOD: Duration = Duration::from_secs(1);

/// Until another engine is in the folder, or none.
fn serve(engine: &Engine, folder: &Path, file: &Path, program: &str, device: &str) -> Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let mut object = bpfdb::open_object(&bytes, program)?;
    engine.adopt(&mut object)?;
    let object = object.load()?;
    let found = object.progs_mut().find(|found| found.name() == program);
    let index = nix::net::if_::if_nametoindex(device)?;
    let _link = found
        .context("no such program")?
        .attach_xdp(index.try_into()?)?;
    println!("joined");
    while engine.is_in(folder)? {
        sleep(PERIOD);
    }
    Ok(())
}

/// Does not return, but for an error.
pub fn run(folder: &Path, file: &Path, program: &str, device: &str) -> Result<()> {
    loop {
        let engine = match Engine::attach(folder) {
            Err(Error::NotPinned { .. }) => {
                sleep(PERIOD);
                continue;
            }
            attached => attached?,
        };
        let served = serve(&engine, folder, file, program, device);
        // It may also have been replaced meanwhile.
        if served.is_err() && engine.is_in(folder)? {
            return served;
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file, program, device] = arguments.as_slice() else {
        bail!("usage: join FOLDER OBJECT PROGRAM INTERFACE");
    };
    run(folder.as_ref(), file.as_ref(), program, device)
}
