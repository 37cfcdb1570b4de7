//! Compiles the engine's programs and generates Rust from its headers: see `bpfdb_build::engine`.

fn main() {
    bpfdb_build::exit_on_error(bpfdb_build::engine());
}
