//! The compiled eBPF objects, embedded in the library.

/// An embedded object and the name of its source file, without `.bpf.c`.
#[derive(Clone, Copy, Debug)]
pub struct TestObject {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

#[cfg(test)]
mod tests {
    #[test]
    fn objects_are_aligned() {
        for object in [super::ENGINE, super::PROCEDURE] {
            assert_eq!(object.as_ptr().addr() % 16, 0);
        }
    }
}
