//! Compiles the programs that are measured (`bpf/bench.bpf.c`) and compared (`bpf/voter.bpf.c`).

fn main() {
    let programs = bpfdb_build::Programs::new();
    bpfdb_build::exit_on_error(
        programs.and_then(|programs| programs.own("bench.bpf.c").own("voter.bpf.c").build()),
    );
}
