//! The compiled program.

include!(concat!(env!("OUT_DIR"), "/objects.rs"));
