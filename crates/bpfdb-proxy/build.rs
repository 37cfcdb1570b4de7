//! Compiles the programs of the proxy (`bpf/pg.bpf.c`), and has what they share with it.

fn main() {
    let programs = bpfdb_build::Programs::new().and_then(|programs| programs.shares(&["proxy.h"]));
    bpfdb_build::exit_on_error(programs.and_then(|programs| programs.own("pg.bpf.c").build()));
}
