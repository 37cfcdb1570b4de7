//! Compiles the programs that are measured (`bpf/bench/bench.bpf.c`) and compared (`bpf/bench/voter.bpf.c`).

fn main() {
    let programs = bpfdb_build::Programs::new();
    bpfdb_build::exit_on_error(programs.and_then(|programs| {
        programs
            .own("bench/bench.bpf.c")
            .own("bench/voter.bpf.c")
            .build()
    }));
}
