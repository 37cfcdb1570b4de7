//! A program that is loaded when it is first needed: a start does not wait for the verifier to walk
//! what may never be run.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::OpenObject;

use crate::error::{Error, Result};
use crate::program::{self, Program};

/// How long a load that has failed is not tried again: callers come often, and the verifier takes its
/// time. Twice as long after each failure, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

type Open = dyn Fn() -> Result<OpenObject> + Send + Sync;

/// One program of an object. The first caller loads it; others that come meanwhile wait for that.
pub struct LaterProgram {
    name: String,
    /// The object with its maps, before it is loaded.
    open: Box<Open>,
    loaded: OnceLock<Program>,
    /// The last attempt, if it failed. Locked by the caller that loads.
    failed: Mutex<Option<Failed>>,
}

#[derive(Debug)]
struct Failed {
    when: Instant,
    why: String,
    pause: Duration,
}

impl fmt::Debug for LaterProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaterProgram")
            .field("name", &self.name)
            .field("loaded", &self.loaded)
            .finish_non_exhaustive()
    }
}

impl LaterProgram {
    /// The program `name` of the object that `open` makes, with the maps that it is to use. Nothing is
    /// opened yet.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn() -> Result<OpenObject> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            open: Box::new(open),
            loaded: OnceLock::new(),
            failed: Mutex::new(None),
        }
    }

    pub fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    /// The program, which is loaded if it is not yet. That takes the verifier some hundred milliseconds.
    ///
    /// # Errors
    /// It cannot be loaded. The next attempt is made by a caller that comes a second later, or more after
    /// several; until then the error is the same.
    pub fn get(&self) -> Result<&Program> {
        if let Some(program) = self.loaded.get() {
            return Ok(program);
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one may have loaded it while this one waited.
        if let Some(program) = self.loaded.get() {
            return Ok(program);
        }
        if let Some(last) = failed.as_ref()
            && last.when.elapsed() < last.pause
        {
            return Err(Error::Invalid(last.why.clone()));
        }
        match self.load() {
            Ok(program) => Ok(self.loaded.get_or_init(|| program)),
            Err(error) => {
                tracing::error!(%error, program = self.name, "cannot load a program");
                let pause = failed.as_ref().map_or(PAUSE, |last| 2 * last.pause);
                *failed = Some(Failed {
                    when: Instant::now(),
                    why: error.to_string(),
                    pause: pause.min(LONGEST_PAUSE),
                });
                Err(error)
            }
        }
    }

    /// The other programs of the object are left out.
    fn load(&self) -> Result<Program> {
        let begun = Instant::now();
        let mut object = (self.open)()?;
        for mut program in object.progs_mut() {
            let is_wanted = program.name() == self.name.as_str();
            program.set_autoload(is_wanted);
        }
        let object = program::load(object, &self.name)?;
        let program = program::find(&object, &self.name)?;
        tracing::debug!(program = self.name, time = ?begun.elapsed(), "loaded a program");
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::objects;

    #[test]
    fn threads_that_need_it_at_once_load_it_once() {
        let opened = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&opened);
        let later = LaterProgram::new("bpfdb_create", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            program::open_object(objects::ENGINE, "engine")
        });
        assert!(!later.is_loaded());
        let ids = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| std::ptr::from_ref(later.get().expect("loaded")).addr()))
                .collect();
            let ids = threads.into_iter().map(|thread| thread.join());
            ids.collect::<Result<Vec<_>, _>>().expect("no panic")
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert!(later.is_loaded());
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_load_that_has_failed_is_tried_again_after_a_pause() {
        let opened = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&opened);
        let later = LaterProgram::new("bpfdb_create", move || {
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::Invalid("no memory at this moment".into())),
                _ => program::open_object(objects::ENGINE, "engine"),
            }
        });
        for _ in 0..3 {
            let error = later.get().expect_err("it cannot be loaded");
            assert_eq!(error.to_string(), "no memory at this moment");
        }
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        let long_ago = Instant::now().checked_sub(PAUSE).expect("a time");
        if let Some(last) = later.failed.lock().expect("no panic").as_mut() {
            last.when = long_ago;
        }
        assert_eq!(later.get().expect("loaded").name(), "bpfdb_create");
        assert_eq!(opened.load(Ordering::Relaxed), 2);
    }
}
