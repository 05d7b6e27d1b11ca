//! Bytes on their way between a reader or a writer at the host and a block of memory, through pinned memory.

use super::memory::Way;
use super::{DriverError, Gpu, Memory, Stream};
use std::sync::Arc;

/// Pieces of pinned memory: while one is on its way, another is filled.
const TURNS: usize = 2;

/// A block of memory that is written, or read, part by part from the host. What is written is there when
/// [`Passing::finish`] says so.
#[derive(Debug)]
pub struct Passing<'a> {
    memory: &'a mut Memory,
    gpu: Arc<Gpu>,
    turns: Vec<Turn>,
    next: usize,
    purpose: &'static str,
}

/// Pinned memory, and the stream on which what is in it goes.
#[derive(Debug)]
struct Turn {
    // Before the memory, because they are dropped in this order.
    stream: Stream,
    staging: Memory,
}

impl<'a> Passing<'a> {
    /// Nothing on its way yet; each piece of pinned memory has so many bytes, unless more are asked for at once. What it
    /// is for is said where there is none.
    pub fn new(gpu: &Arc<Gpu>, memory: &'a mut Memory, bytes: u64, purpose: &'static str) -> Result<Self, DriverError> {
        let turn = || Ok(Turn { stream: Stream::new(gpu)?, staging: Memory::of_host(gpu, bytes, purpose)? });
        let turns = (0..TURNS).map(|_| turn()).collect::<Result<_, DriverError>>()?;
        Ok(Self { memory, gpu: gpu.clone(), turns, next: 0, purpose })
    }

    /// The block.
    pub fn memory(&self) -> &Memory {
        self.memory
    }

    /// Has `fill` give bytes, and begins to copy them to the block, so many bytes in.
    ///
    /// # Errors
    ///
    /// What `fill` or the driver says, also of copies that were begun before.
    pub fn write<E: From<DriverError>>(
        &mut self,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = self.next;
        self.next = (next + 1) % TURNS;
        let turn = self.ready(next, bytes)?;
        fill(&mut self.turns[turn].staging.host_mut()[..bytes])?;
        let Turn { stream, staging } = &mut self.turns[turn];
        Ok(self.memory.begin(Way::Here, offset, staging, 0..bytes, stream)?)
    }

    /// Hands bytes of the block to `take`, after all that is on its way there.
    ///
    /// # Errors
    ///
    /// What `take` or the driver says.
    pub fn read<E: From<DriverError>>(
        &mut self,
        offset: u64,
        bytes: usize,
        take: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.finish()?;
        let turn = self.ready(0, bytes)?;
        let Turn { stream, staging } = &mut self.turns[turn];
        self.memory.begin(Way::There, offset, staging, 0..bytes, stream)?;
        stream.synchronize()?;
        take(&staging.host()[..bytes])
    }

    /// Waits for all that is on its way.
    ///
    /// # Errors
    ///
    /// What the driver says of it.
    pub fn finish(&self) -> Result<(), DriverError> {
        self.turns.iter().try_for_each(|turn| turn.stream.synchronize())
    }

    /// A turn whose pinned memory nothing uses any more, and which has so many bytes.
    fn ready(&mut self, turn: usize, bytes: usize) -> Result<usize, DriverError> {
        self.turns[turn].stream.synchronize()?;
        if bytes as u64 > self.turns[turn].staging.bytes() {
            self.turns[turn].staging = Memory::of_host(&self.gpu, bytes as u64, self.purpose)?;
        }
        Ok(turn)
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        // Neither the block nor pinned memory may be lent or given back before; what is said of it is of no use any more.
        for turn in &self.turns {
            let _ = turn.stream.synchronize();
        }
    }
}
