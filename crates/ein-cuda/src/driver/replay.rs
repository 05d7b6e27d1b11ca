//! A graph and its memory, to be run again and again.

use super::graph::Exec;
use super::memory::Way;
use super::{DriverError, Event, Memory, Products, Stream, Traced};
use std::ops::Range;

/// A graph that runs as often as it is wanted, and the memory that it uses.
///
/// The memory is its own, and lent only between runs: a run is waited for before it returns.
#[derive(Debug)]
pub struct Replay {
    // They are dropped in this order: what runs before what it uses.
    traced: Option<Traced>,
    /// Before and after a run that is timed.
    moments: Option<[Event; 2]>,
    exec: Exec,
    #[expect(dead_code, reason = "what the library of products recorded may use what belongs to its handle")]
    products: Vec<Products>,
    /// Of every GPU that has memory. The graph runs on the first.
    streams: Vec<Stream>,
    memory: Vec<Memory>,
    /// What a run before came to: after that GPUs may still be at work, so nothing is lent or run.
    failed: Option<DriverError>,
}

/// Some bytes of a block, and where they are in the host's block that they go to or come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block, by its place among the replay's.
    pub block: usize,
    /// Bytes before them in it.
    pub offset: u64,
    /// Where in the host's block.
    pub at: Range<usize>,
}

impl Replay {
    pub(super) fn new(
        exec: Exec,
        streams: Vec<Stream>,
        memory: Vec<Memory>,
        products: Vec<Products>,
        traced: Option<Traced>,
    ) -> Self {
        Self { traced, moments: None, exec, products, streams, memory, failed: None }
    }

    /// Runs the graph once, and waits for it. Of a traced one, when each of its pieces began and ended, in seconds.
    ///
    /// # Errors
    ///
    /// What the driver says. From then on it says so again, and nothing is run.
    pub fn run(&mut self) -> Result<Vec<[f64; 2]>, DriverError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = match &self.traced {
            Some(traced) => traced.run(),
            None => {
                self.exec.launch(&self.streams[0]).and_then(|()| self.streams[0].synchronize()).map(|()| Vec::new())
            }
        };
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    /// Runs the graph once, and waits for it: seconds from its begin to its end by the clock of the GPU that it is given to.
    ///
    /// # Errors
    ///
    /// As [`Replay::run`], and a driver that does not tell what is between two moments.
    pub fn timed(&mut self) -> Result<f64, DriverError> {
        let stream = &self.streams[0];
        if self.moments.is_none() {
            self.moments = Some([Event::new(stream.gpu())?, Event::new(stream.gpu())?]);
        }
        let [begin, end] = self.moments.as_ref().expect("just made");
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let given = begin.record(stream).and_then(|()| self.exec.launch(stream)).and_then(|()| end.record(stream));
        let result = given.and_then(|()| stream.synchronize()).and_then(|()| end.seconds_since(begin));
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    /// What block `n` of the host's memory holds.
    pub fn host(&self, n: usize) -> &[u8] {
        self.memory[n].host()
    }

    /// What block `n` of the host's memory holds, to be written.
    pub fn host_mut(&mut self, n: usize) -> &mut [u8] {
        self.memory[n].host_mut()
    }

    /// Copies parts of block `staging`, which is the host's, to other blocks, each on a stream of its GPU, and waits for
    /// all of them.
    ///
    /// # Errors
    ///
    /// What the driver says, and of which block.
    pub fn write(&mut self, staging: usize, parts: &[Part]) -> Result<(), (usize, DriverError)> {
        self.copy(staging, parts, Way::Here)
    }

    /// Copies bytes of blocks to parts of block `staging`, which is the host's, each on a stream of its GPU, and waits for
    /// all of them.
    ///
    /// # Errors
    ///
    /// What the driver says, and of which block.
    pub fn read(&mut self, staging: usize, parts: &[Part]) -> Result<(), (usize, DriverError)> {
        self.copy(staging, parts, Way::There)
    }

    /// Begins a copy for each part, and waits for all that were begun, whatever came of them.
    fn copy(&mut self, staging: usize, parts: &[Part], way: Way) -> Result<(), (usize, DriverError)> {
        let Some(first) = parts.first() else { return Ok(()) };
        if let Some(error) = &self.failed {
            return Err((first.block, error.clone()));
        }
        let mut result = Ok(());
        // By stream, the first block that is waited for there.
        let mut begun = vec![None; self.streams.len()];
        for part in parts {
            let [block, host] = self.memory.get_disjoint_mut([part.block, staging]).expect("two blocks");
            let own = |stream: &Stream| stream.gpu().ordinal() == block.gpu().ordinal();
            let stream = self.streams.iter().position(own).expect("a stream of every GPU that has memory");
            begun[stream].get_or_insert(part.block);
            let begun_copy = block.begin(way, part.offset, host, part.at.clone(), &self.streams[stream]);
            if let Err(error) = begun_copy {
                result = Err((part.block, error));
                break;
            }
        }
        for (stream, block) in self.streams.iter().zip(begun) {
            let Some(block) = block else { continue };
            if let Err(error) = stream.synchronize() {
                // It may still be at work.
                self.failed = Some(error.clone());
                result = result.and(Err((block, error)));
            }
        }
        result
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // After a failed run GPUs may still write to the host's memory: they are waited for.
        if self.failed.is_some() {
            for stream in &self.streams {
                let _ = stream.synchronize();
            }
            if let Some(traced) = &self.traced {
                traced.wait();
            }
        }
    }
}
