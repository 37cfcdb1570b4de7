//! Finds out what texts of libraries register: by running them, in slices.

use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bpfdb_lua::{Answer, Call, Source, Step};

use super::super::super::attempts;
use super::super::super::prelude::*;
use super::super::super::time_slice::TimeSlice;
use crate::scripting::functions::libraries::Library;
use crate::scripting::functions::{self, LOAD_MAX};
use crate::scripting::scripts::{self, Machine, TEXT_MAX};

/// Libraries that are to be understood.
#[derive(Debug)]
pub(super) struct Analysis {
    names: Vec<Vec<u8>>,
    sources: Vec<Source>,
    done: Vec<Rc<Library>>,
    running: Option<Running>,
}

/// The text that is being run.
#[derive(Debug)]
struct Running {
    // First: it ends before its state of Lua is given back.
    call: Call,
    machine: Machine,
    spent: Duration,
}

impl Analysis {
    /// # Errors
    /// What is wrong with the first line of one, or that it is too long to be compiled in one piece.
    pub(super) fn new(texts: &[Vec<u8>]) -> Result<Self, Failure> {
        if texts.iter().any(|text| text.len() > TEXT_MAX) {
            let most = TEXT_MAX >> 20;
            return Err(format!("ERR a library may have {most} MiB").into());
        }
        let name = |text: &Vec<u8>| functions::library_name(text);
        Ok(Self {
            names: texts.iter().map(name).collect::<Result<_, _>>()?,
            sources: texts.iter().map(|text| Source::new(text)).collect(),
            done: Vec::new(),
            running: None,
        })
    }

    pub(super) fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// After all steps: the libraries.
    pub(super) fn libraries(&self) -> &[Rc<Library>] {
        &self.done
    }

    pub(super) fn memory(&self) -> usize {
        let texts: usize = self.sources.iter().map(|source| source.text.len()).sum();
        let running = self.running.as_ref();
        texts + running.map_or(0, |running| running.machine.vm.memory())
    }

    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        let slice = TimeSlice::begin();
        while self.done.len() < self.sources.len() {
            let waits = self.advance(context)? == Progress::More && self.running.is_none();
            if waits || slice.is_over() {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }

    /// A part of the next text.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<Progress, Failure> {
        let source = &self.sources[self.done.len()];
        let known = context.instance.functions.known(source.sha1());
        if let Some(known) = known.filter(|known| known.is_understood) {
            self.done.push(known);
            return Ok(Progress::Done);
        }
        let mut running = match self.running.take() {
            Some(running) => running,
            None => match begin(context, source)? {
                Some(running) => running,
                // Too many calls are on their way.
                None => {
                    context.rest(attempts::PAUSED);
                    return Ok(Progress::More);
                }
            },
        };
        if running.go_on()? == Progress::More {
            self.running = Some(running);
            return Ok(Progress::More);
        }
        let functions = functions::loaded(&running.machine.vm, source)?;
        drop(running.call);
        context.instance.scripts.give_back(running.machine);
        let library = Rc::new(Library {
            name: mem::take(&mut self.names[self.done.len()]),
            source: source.clone(),
            functions,
            is_understood: true,
        });
        context.instance.functions.learn(Rc::clone(&library));
        self.done.push(library);
        Ok(Progress::Done)
    }
}

fn begin(context: &mut Context<'_>, source: &Source) -> Result<Option<Running>, Failure> {
    let Some(mut machine) = context.instance.scripts.machine_to_load() else {
        return Ok(None);
    };
    let call = machine.vm.load_library(source.clone());
    let call = call.ok_or("ERR there is no memory for the library")?;
    Ok(Some(Running {
        call,
        machine,
        spent: Duration::ZERO,
    }))
}

impl Running {
    /// One slice.
    fn go_on(&mut self) -> Result<Progress, Failure> {
        let begun = Instant::now();
        if self.spent > LOAD_MAX {
            self.call.stop();
        }
        let step = scripts::resume(&mut self.call, Answer::GoOn);
        self.spent += begun.elapsed();
        match step {
            Step::Done(_) => Ok(Progress::Done),
            Step::Failed(failure) => Err(functions::load_error(failure).into()),
            // A library that is being loaded has no commands.
            Step::SliceOver | Step::Command { .. } => Ok(Progress::More),
        }
    }
}
