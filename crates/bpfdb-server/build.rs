//! Compiles the programs of the network (`bpf/redis.bpf.c`).

fn main() {
    let programs = bpfdb_build::Programs::new();
    bpfdb_build::exit_on_error(programs.and_then(|programs| programs.own("redis.bpf.c").build()));
}
