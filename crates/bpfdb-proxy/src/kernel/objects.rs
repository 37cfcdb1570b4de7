//! The compiled programs.

include!(concat!(env!("OUT_DIR"), "/objects.rs"));
