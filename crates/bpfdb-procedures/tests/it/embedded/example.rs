//! The example of docs/embedding.md, on packets made by hand: BPF_PROG_RUN, attached to nothing.

use bpfdb_procedures::NotReady;
use bpfdb_procedures::embedded::{PublishError, Published};
use libbpf_rs::{Object, ProgramInput};

use super::{engine, library, load};

const LIBRARY: &[u8] = include_bytes!("../../../../../examples/procedures/rate_limiter.lua");
const NAME: &str = "limit_packets";
const LIMIT_BUCKET: u32 = 0;
/// Packets that a source may send at once.
const CAPACITY: usize = 10;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// What becomes of an IPv4 packet from this address; of another one without.
fn send(object: &Object, source: Option<[u8; 4]>) -> u32 {
    let mut packet = vec![0; 64];
    if let Some(address) = source {
        packet[12..14].copy_from_slice(&[0x08, 0x00]);
        packet[14] = 0x45;
        packet[26..30].copy_from_slice(&address);
    }
    let program = object.progs_mut().find(|program| program.name() == NAME);
    let input = ProgramInput {
        data_in: Some(&packet),
        ..Default::default()
    };
    let output = program.expect("program").test_run(input).expect("it runs");
    output.return_value
}

fn send_many(object: &Object, source: [u8; 4], count: usize) -> usize {
    let passed = (0..count).filter(|_| send(object, Some(source)) == XDP_PASS);
    passed.count()
}

#[test]
fn each_source_has_its_bucket() {
    let engine = engine();
    let object = load(&engine, bpfdb::objects::EXAMPLES, NAME);
    let mut published = Published::new(&engine, &object, NAME).expect("procedures for it");
    // Nothing is published: there is no verdict.
    assert_eq!(send_many(&object, [10, 0, 0, 1], 20), 20);

    let functions = [(LIMIT_BUCKET, "limit_bucket")];
    published.publish(LIBRARY, &functions).expect("published");
    for source in [[10, 0, 0, 1], [10, 0, 0, 2]] {
        assert_eq!(send_many(&object, source, 25), CAPACITY);
        assert_eq!(send(&object, Some(source)), XDP_DROP);
    }
    assert_eq!(send(&object, None), XDP_PASS);
    let mut session = engine.session().expect("a session");
    let full_at = session.entry(&[10, 0, 0, 1]).expect("it is read");
    assert!(full_at.expect("a bucket").expires_at.is_some());

    // The same number stands for another function from now on.
    let open = library(&[("open", "return {1, 0}")]);
    published
        .publish(&open, &[(LIMIT_BUCKET, "open")])
        .expect("published");
    assert_eq!(send_many(&object, [10, 0, 0, 1], 20), 20);
    published
        .publish(LIBRARY, &functions)
        .expect("published again");
    assert_eq!(send(&object, Some([10, 0, 0, 1])), XDP_DROP);
    published.withdraw(&[LIMIT_BUCKET]).expect("withdrawn");
    assert_eq!(send(&object, Some([10, 0, 0, 1])), XDP_PASS);
    assert_eq!(engine.stats().expect("figures").transactions, 0);
}

#[test]
fn what_cannot_be_called_is_not_published() {
    let engine = engine();
    let object = load(&engine, bpfdb::objects::EXAMPLES, NAME);
    let mut published = Published::new(&engine, &object, NAME).expect("procedures for it");
    published
        .publish(LIBRARY, &[(LIMIT_BUCKET, "limit_bucket")])
        .expect("published");
    assert_eq!(send_many(&object, [10, 0, 0, 3], 20), CAPACITY);

    let text = library(&[("f", "return {0, 0}"), ("g", "return string.rep('x', 3)")]);
    let mut refused = |number, name| published.publish(&text, &[(number, name)]);
    let outcome = refused(LIMIT_BUCKET, "h");
    assert!(
        matches!(
            outcome,
            Err(PublishError::NotReady(NotReady::NoFunction(_)))
        ),
        "{outcome:?}"
    );
    let outcome = refused(LIMIT_BUCKET, "g");
    assert!(
        matches!(
            outcome,
            Err(PublishError::NotReady(NotReady::NotCompiled { .. }))
        ),
        "{outcome:?}"
    );
    let outcome = refused(64, "f");
    assert!(
        matches!(outcome, Err(PublishError::Number(64))),
        "{outcome:?}"
    );
    // What was published is there still.
    assert_eq!(send_many(&object, [10, 0, 0, 4], 20), CAPACITY);
}

/// An object that calls no procedures, and a program that is not there.
#[test]
fn an_object_without_calls_has_no_procedures() {
    let engine = engine();
    let object = load(&engine, bpfdb::objects::EXAMPLES, "count_direct");
    for program in ["count_direct", "nobody"] {
        let outcome = Published::new(&engine, &object, program);
        assert!(
            matches!(outcome, Err(bpfdb_procedures::Error::Missing { .. })),
            "{outcome:?}"
        );
    }
}
