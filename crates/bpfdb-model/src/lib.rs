//! What bpfdb means, twice over: a plain reference engine, and a checker of
//! recorded histories. For tests only.
//!
//! # The reference engine
//!
//! [`Model`] is the whole engine as one would explain it on a whiteboard: a map
//! of keys to versions, a map of keys to locks, and what each session has open.
//! It has no memory layout, no latches and no parallelism, and so it is short
//! enough to be believed. Tests run the same operators on it and on the real
//! engine and compare every outcome.
//!
//! ```
//! use bpfdb_model::{Answer, Error, Model, Op, Rules};
//!
//! let mut model = Model::new(Rules::default());
//! let (a, b) = (model.open(), model.open());
//! let get = Op::Get(b"x".to_vec());
//! let set = |value: &[u8]| Op::Set(b"x".to_vec(), value.to_vec());
//!
//! model.apply(a, &Op::Begin).unwrap();
//! assert_eq!(model.apply(a, &get), Ok(Answer::Absent));
//! // Absence counts: a has read that x is not there, so b may not insert it.
//! assert_eq!(model.apply(b, &set(b"1")), Err(Error::Conflict));
//! // The only reader may go on to write.
//! assert_eq!(model.apply(a, &set(b"2")), Ok(Answer::Done));
//! assert_eq!(model.apply(b, &get), Ok(Answer::Absent));
//! model.apply(a, &Op::Commit).unwrap();
//! assert_eq!(model.apply(b, &get), Ok(Answer::Value(b"2".to_vec())));
//! ```
//!
//! # Faults
//!
//! A test that cannot fail proves nothing. [`Fault`] lists mistakes that an
//! engine could make; a model can be built with one of them, and the tests of
//! the tests demand that it is found.
//!
//! # The history checker
//!
//! The model cannot say what a parallel run should have answered. For that,
//! threads record what they did and saw ([`history`]), and [`check`] looks for
//! a cycle in "must come before": none means that some serial order explains
//! everything, and that it respects real time.

#![forbid(unsafe_code)]

mod checker;
mod engine;
mod fault;
pub mod history;
mod op;

pub use checker::{Anomaly, Violation, check};
pub use engine::{Model, Rules, SessionId};
pub use fault::Fault;
pub use op::{Answer, Error, Gauges, Op, Outcome};
