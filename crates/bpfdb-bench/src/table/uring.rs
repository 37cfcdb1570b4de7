//! Look-ups by a process with io_uring: registered buffers and file, one system call for all that can be
//! submitted.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result, ensure};
use bpfdb_table::{Step, Table, Walk};
use io_uring::{IoUring, opcode, types};

/// A block, at an address for O_DIRECT.
#[repr(C, align(512))]
#[derive(Clone, Copy)]
struct Block([u8; 512]);

pub(super) struct Uring<'a> {
    ring: IoUring,
    table: &'a Table,
    /// One for each look-up at the same time.
    blocks: Box<[Block]>,
}

/// A look-up that runs in a place.
#[derive(Clone, Copy)]
struct Running<'a> {
    walk: Walk<'a>,
    index: usize,
}

impl<'a> Uring<'a> {
    pub(super) fn new(table: &'a Table, many: usize) -> Result<Self> {
        ensure!(table.about().block_size == 512, "blocks of 512 bytes");
        let ring = IoUring::new(64).context("make an io_uring")?;
        let mut blocks = vec![Block([0; 512]); many].into_boxed_slice();
        let buffers: Vec<libc::iovec> = blocks
            .iter_mut()
            .map(|block| libc::iovec {
                iov_base: block.0.as_mut_ptr().cast(),
                iov_len: block.0.len(),
            })
            .collect();
        // SAFETY: the blocks live as long as the ring, which is dropped first.
        unsafe { ring.submitter().register_buffers(&buffers)? };
        ring.submitter()
            .register_files(&[table.as_fd().as_raw_fd()])?;
        Ok(Self {
            ring,
            table,
            blocks,
        })
    }

    pub(super) fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        let mut places: Vec<Option<Running<'_>>> = vec![None; self.blocks.len()];
        let (mut started, mut ended) = (0, 0);
        for place in 0..places.len().min(keys.len()) {
            places[place] = Some(self.start(place, keys, &mut started)?);
        }
        while ended < keys.len() {
            self.ring.submit_and_wait(1)?;
            let completed: Vec<(usize, i32)> = self
                .ring
                .completion()
                .map(|entry| (entry.user_data() as usize, entry.result()))
                .collect();
            for (place, result) in completed {
                ensure!(result == 512, "a read gave {result}");
                let mut running = places[place].take().context("no request runs here")?;
                let step = running.walk.step(&self.blocks[place].0)?;
                if let Step::Found(value) = step {
                    values[running.index] = value.map(<[u8]>::to_vec);
                    ended += 1;
                    if started < keys.len() {
                        places[place] = Some(self.start(place, keys, &mut started)?);
                    }
                } else {
                    self.read(place, &running.walk)?;
                    places[place] = Some(running);
                }
            }
        }
        Ok(values)
    }

    fn start<'k>(
        &mut self,
        place: usize,
        keys: &[&'k [u8]],
        started: &mut usize,
    ) -> Result<Running<'k>>
    where
        'a: 'k,
    {
        let walk = Walk::new(self.table, keys[*started]);
        self.read(place, &walk)?;
        *started += 1;
        Ok(Running {
            walk,
            index: *started - 1,
        })
    }

    fn read(&mut self, place: usize, walk: &Walk<'_>) -> Result<()> {
        let block = self.blocks[place].0.as_mut_ptr();
        let read = opcode::ReadFixed::new(types::Fixed(0), block, 512, place as u16);
        let entry = read.offset(walk.offset()).build().user_data(place as u64);
        // SAFETY: the block is registered, and it is not read until the read has completed.
        unsafe {
            self.ring
                .submission()
                .push(&entry)
                .context("the queue is full")
        }
    }
}
