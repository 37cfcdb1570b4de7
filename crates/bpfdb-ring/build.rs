//! Has what this crate shares with programs (`include/bpfdb/ring.h`).

fn main() {
    let programs = bpfdb_build::Programs::new().and_then(|programs| programs.shares(&["ring.h"]));
    bpfdb_build::exit_on_error(programs.and_then(bpfdb_build::Programs::build));
}
