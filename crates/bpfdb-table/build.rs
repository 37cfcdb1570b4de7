//! Compiles the program that reads tables in the kernel (`bpf/table.bpf.c`), and has what it shares with
//! this crate.

fn main() {
    let programs = bpfdb_build::Programs::new().and_then(|programs| programs.shares(&["table.h"]));
    bpfdb_build::exit_on_error(programs.and_then(|programs| programs.own("table.bpf.c").build()));
}
