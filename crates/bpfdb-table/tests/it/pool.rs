//! The pool: what look-ups find through it is what the table has, whoever shares it and however small it is.
//! Decision 51 numbers the invariants.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bpfdb_table::{
    Access, Bounds, ChainFigures, ChainOptions, Chains, Error, Pool, PoolFigures, PoolReader, Table,
};
use bpfdb_tests::random::Random;

use crate::common::{Folder, Model, build, options, random_tables};

const CHAINS: ChainOptions = ChainOptions {
    idle: std::time::Duration::from_millis(20),
    processor: None,
    spin: std::time::Duration::ZERO,
    together: 64,
    pool: 0,
    programs: 0,
};

fn pool(table: &Table, bytes: usize) -> Arc<Pool<'_>> {
    Arc::new(Pool::new(table, bytes).expect("a pool"))
}

fn over<'a>(pool: &Arc<Pool<'a>>) -> Chains<'a> {
    Chains::start_over(pool, &CHAINS).expect("chains run")
}

/// Entries with numbers as keys; values tell them apart, also a part of one from that of another.
fn numbered(entries: u32, value: usize) -> Model {
    let value = |number: u32| number.to_le_bytes().repeat(value / 4);
    (0..entries)
        .map(|number| (number.to_be_bytes().to_vec(), value(number)))
        .collect()
}

/// Invariants 1, 3 and 4: several rings and several threads of the process over a pool that is much smaller than
/// the table. Large blocks are longer in being filled and copied. Each thread reads in so many batches of 40 or 60.
fn share(block_size: u32, value: usize, frames: usize, batches: usize) {
    let folder = Folder::new();
    let model = numbered(2000, value);
    let table = build(&folder.path(), &model, &options(block_size, 4));
    let pool = pool(&table, frames * block_size as usize);
    assert_eq!(pool.frames() as usize, frames);
    let pooled: u64 = std::thread::scope(|scope| {
        let threads = (0..4).map(|seed| {
            let (pool, model) = (&pool, &model);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let drawn = |random: &mut Random| (random.below(2100) as u32).to_be_bytes();
                if seed % 2 == 0 {
                    let mut reader = PoolReader::new(pool);
                    for _ in 0..60 * batches {
                        let key = drawn(&mut random);
                        let found = reader.get(&key).expect("read");
                        assert_eq!(found.as_ref(), model.get(&key[..]));
                    }
                    return reader.figures().pooled;
                }
                let mut chains = over(pool);
                for _ in 0..batches {
                    let keys: Vec<_> = (0..40).map(|_| drawn(&mut random)).collect();
                    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                    let found = chains.get_many(&keys).expect("read");
                    for (key, found) in keys.iter().zip(found) {
                        assert_eq!(found.as_ref(), model.get(*key));
                    }
                }
                assert_eq!(chains.figures().by_process, 0);
                chains.figures().pooled
            })
        });
        let threads: Vec<_> = threads.collect();
        let pooled = threads
            .into_iter()
            .map(|thread| thread.join().expect("it ends"));
        pooled.sum()
    });
    assert!(pooled > 0, "the pool was of use");
}

#[test]
fn many_share_a_pool_smaller_than_the_table() {
    share(512, 64, 12, 100);
}

#[test]
fn many_share_one_frame() {
    share(512, 64, 1, 100);
}

#[test]
fn many_share_frames_of_the_largest_blocks() {
    share(65536, 8000, 3, 25);
}

/// The same over tables of all shapes, by one thread, with any size of pool.
#[test]
fn random_tables_through_a_pool() {
    random_tables(21, |random, model, block_size, fanout| {
        let folder = Folder::new();
        let table = build(&folder.path(), model, &options(block_size, fanout));
        for bytes in [1, 20 * block_size as usize, 1 << 24] {
            let pool = pool(&table, bytes);
            let (mut reader, mut chains) = (PoolReader::new(&pool), over(&pool));
            let drawn: Vec<Vec<u8>> = (0..50).map(|_| crate::common::key(random)).collect();
            let keys: Vec<&[u8]> = model.keys().chain(&drawn).map(Vec::as_slice).collect();
            let found = chains.get_many(&keys).expect("read");
            for (key, found) in keys.iter().zip(found) {
                assert_eq!(found.as_ref(), model.get(*key), "{}", key.escape_ascii());
                let found = reader.get(key).expect("read");
                assert_eq!(found.as_ref(), model.get(*key), "{}", key.escape_ascii());
            }
            assert_eq!(chains.figures().by_process, 0);
        }
    });
}

#[test]
fn what_is_in_the_pool_is_not_read() {
    let folder = Folder::new();
    let model = numbered(500, 64);
    let table = build(&folder.path(), &model, &options(512, 4));
    let depth = u64::from(table.about().depth);
    // All but header and footer.
    let blocks = table.about().blocks - 2;
    let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
    let asked = keys.len() as u64;

    let pool_of_chains = pool(&table, 1 << 24);
    let mut chains = over(&pool_of_chains);
    for key in &keys {
        assert_eq!(chains.get(key).expect("read").as_ref(), model.get(*key));
    }
    let first = chains.figures();
    // The chain by which they start has read root, leaf, and what is between.
    assert_eq!((first.reads, first.by_process), (blocks - depth, 0));
    assert_eq!(first.reads + first.pooled, asked * depth);
    chains.get_many(&keys).expect("read");
    let expected = ChainFigures {
        from_pool: first.from_pool + asked,
        pooled: first.pooled + asked * depth,
        ..first
    };
    assert_eq!(chains.figures(), expected, "no chain runs");

    let mut reader = PoolReader::new(&pool_of_chains);
    for key in &keys {
        assert_eq!(reader.get(key).expect("read").as_ref(), model.get(*key));
    }
    let expected = PoolFigures {
        reads: 0,
        pooled: asked * depth,
    };
    assert_eq!(reader.figures(), expected, "what chains have brought");

    let pool_of_reader = pool(&table, 1 << 24);
    let mut reader = PoolReader::new(&pool_of_reader);
    for key in &keys {
        assert_eq!(reader.get(key).expect("read").as_ref(), model.get(*key));
    }
    assert_eq!(reader.figures().reads, blocks);
    let mut chains = over(&pool_of_reader);
    chains.get_many(&keys).expect("read");
    assert_eq!(
        chains.figures().from_pool,
        asked,
        "what the reader has brought"
    );
}

/// CLOCK: root and inner blocks, which every look-up uses, stay; of leaves that are looked at once most go.
#[test]
fn what_is_used_stays() {
    let folder = Folder::new();
    let model = numbered(3000, 64);
    let table = build(&folder.path(), &model, &options(512, 0));
    let inner = table.about().blocks - 2 - table.about().leaves;
    let pool = pool(&table, 512 * (inner as usize + 60));
    let mut reader = PoolReader::new(&pool);
    let mut random = Random::new(22);
    for _ in 0..3000 {
        let key = (random.below(3000) as u32).to_be_bytes();
        reader.get(&key).expect("read");
    }
    let PoolFigures { reads, pooled } = reader.figures();
    assert!(
        reads < 3000,
        "less than one for a look-up: {reads}, {pooled}"
    );
}

/// Leaves of a range are not kept, and drive out nothing.
#[test]
fn ranges_leave_the_pool_as_it_is() {
    let folder = Folder::new();
    let model = numbered(3000, 64);
    let table = build(&folder.path(), &model, &options(512, 0));
    let pool = pool(&table, 512 * 40);
    let mut chains = over(&pool);
    let keys: Vec<_> = (0..6_u32).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    for _ in 0..3 {
        chains.get_many(&keys).expect("read");
    }
    let before = chains.figures();
    for _ in 0..3 {
        let all = chains.aggregate(&Bounds::default(), None).expect("read");
        assert_eq!(all.entries, 3000);
        let mut each = |_: &[u8], _: &[u8]| true;
        chains.scan(&Bounds::default(), &mut each).expect("read");
    }
    chains.get_many(&keys).expect("read");
    assert_eq!(chains.figures().from_pool, before.from_pool + 6);
}

fn flip(path: &Path, at: u64, bit: u8) {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1 << bit], at)
        .expect("written");
}

/// Invariant 2: a block that is not as it was written is an error, and is not kept; one that was read before
/// answers as it was.
#[test]
fn a_flipped_bit_on_the_disk_never_comes_into_the_pool() {
    let mut random = Random::new(23);
    let folder = Folder::new();
    let model = numbered(200, 100);
    let table = build(&folder.path(), &model, &options(512, 5));
    let known = pool(&table, 1 << 24);
    let mut warm = PoolReader::new(&known);
    for key in model.keys() {
        warm.get(key).expect("read");
    }
    for _ in 0..20 {
        let block = 1 + random.below(table.about().blocks as usize - 2) as u64;
        let at = block * 512 + random.below(512) as u64;
        let bit = random.below(8) as u8;
        let fresh = pool(&table, 1 << 24);
        let (mut reader, mut chains) = (PoolReader::new(&fresh), over(&fresh));
        flip(&folder.path(), at, bit);
        let mut errors = [0; 2];
        for (key, value) in &model {
            for (found, errors) in [reader.get(key), chains.get(key)]
                .into_iter()
                .zip(&mut errors)
            {
                match found {
                    Ok(found) => assert_eq!(found.as_ref(), Some(value)),
                    Err(Error::Damaged { offset, .. }) => {
                        assert_eq!(offset, block * 512);
                        *errors += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(warm.get(key).expect("from the pool").as_ref(), Some(value));
        }
        let is_before = chains.figures().by_process == 0;
        assert_eq!(errors[0], errors[1]);
        assert!(errors[0] > 0 || is_before, "block {block}");
        flip(&folder.path(), at, bit);
        for (key, value) in &model {
            assert_eq!(reader.get(key).expect("read").as_ref(), Some(value));
            assert_eq!(chains.get(key).expect("read").as_ref(), Some(value));
        }
    }
}

/// Invariant 6: a table that is open stays what it is, and so does its pool.
#[test]
fn another_table_of_the_name_has_a_pool_of_its_own() {
    let folder = Folder::new();
    let (old, new) = (numbered(300, 64), numbered(300, 32));
    let table = build(&folder.path(), &old, &options(512, 4));
    let small = pool(&table, 512 * 6);
    let (mut reader, mut chains) = (PoolReader::new(&small), over(&small));
    reader.get(b"\0\0\0\x07").expect("read");
    build(&folder.path(), &new, &options(512, 4));
    let replaced = Table::open(&folder.path(), Access::Cached).expect("opened");
    let mut other = PoolReader::new(&pool(&replaced, 512 * 6));
    for (key, value) in &old {
        assert_eq!(reader.get(key).expect("read").as_ref(), Some(value));
        assert_eq!(chains.get(key).expect("read").as_ref(), Some(value));
        assert_eq!(other.get(key).expect("read").as_ref(), new.get(key));
    }
}

/// Invariant 7.
#[test]
fn a_pool_has_as_many_frames_as_were_asked_for() {
    let folder = Folder::new();
    let table = build(&folder.path(), &numbered(300, 64), &options(512, 4));
    let blocks = table.about().blocks as usize;
    for (bytes, frames) in [(0, 1), (1, 1), (1024, 2), (1535, 2), (1 << 30, blocks)] {
        let pool = Pool::new(&table, bytes).expect("a pool");
        assert_eq!(pool.frames() as usize, frames, "{bytes}");
        assert!(pool.bytes() <= frames * (512 + 32) + 4 * (blocks + 16));
    }
}
