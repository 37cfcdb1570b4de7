//! Compiles the program that finds live entries of runs (`bpf/compact.bpf.c`), and has what this crate shares with it
//! and with the programs that have values read, or send them (`include/bpfdb/prefetch.h`, `park.h`).

fn main() {
    let programs = bpfdb_build::Programs::new()
        .and_then(|programs| programs.shares(&["run.h", "compact.h", "prefetch.h", "park.h"]));
    bpfdb_build::exit_on_error(programs.and_then(|programs| programs.own("compact.bpf.c").build()));
}
