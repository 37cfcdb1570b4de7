//! The compiled programs of the network.

include!(concat!(env!("OUT_DIR"), "/objects.rs"));
