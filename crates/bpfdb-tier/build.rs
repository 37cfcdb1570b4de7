//! Compiles the program that finds live entries of runs (`bpf/compact.bpf.c`), and has what it shares with this
//! crate.

fn main() {
    let programs = bpfdb_build::Programs::new().and_then(|programs| programs.shares("compact.h"));
    bpfdb_build::exit_on_error(programs.and_then(|programs| programs.own("compact.bpf.c").build()));
}
