//! What a graph does, in pieces of which each is timed.

use super::graph::Exec;
use super::{Builder, DriverError, Event, Gpu, Stream};
use std::sync::Arc;

/// The pieces of a graph, which are given one after the other to a stream of their GPU: so every piece has its GPU for
/// itself, and its seconds are its own.
#[derive(Debug)]
pub struct Traced {
    // Before the streams that they run on, because they are dropped in this order.
    pieces: Vec<Piece>,
    /// By GPU: its stream, and when a run began there.
    gpus: Vec<(Stream, Event)>,
}

/// A part of a graph.
#[derive(Debug)]
struct Piece {
    exec: Exec,
    gpu: usize,
    after: Vec<usize>,
    begin: Event,
    end: Event,
}

impl Traced {
    /// No pieces yet, of so many GPUs.
    ///
    /// # Errors
    ///
    /// What the driver says, and of which GPU by its place among them.
    pub fn new(gpus: &[Arc<Gpu>]) -> Result<Self, (usize, DriverError)> {
        let own = |gpu: &Arc<Gpu>| Ok((Stream::new(gpu)?, Event::new(gpu)?));
        let gpus = gpus.iter().enumerate().map(|(n, gpu)| own(gpu).map_err(|e| (n, e))).collect::<Result<_, _>>()?;
        Ok(Self { gpus, pieces: Vec::new() })
    }

    /// Adds a piece that a GPU, by its place among them, does after earlier pieces.
    pub fn push(&mut self, gpu: usize, piece: Builder, after: Vec<usize>) -> Result<(), DriverError> {
        let of = self.gpus[gpu].0.gpu();
        let (begin, end) = (Event::new(of)?, Event::new(of)?);
        let exec = piece.exec(&self.gpus[gpu].0)?;
        self.pieces.push(Piece { exec, gpu, after, begin, end });
        Ok(())
    }

    /// Waits for what its GPUs still do, whatever comes of that.
    pub(super) fn wait(&self) {
        for (stream, _) in &self.gpus {
            let _ = stream.synchronize();
        }
    }

    /// Does all of it once, and waits: when each piece began and ended, in seconds, every GPU's clock beginning at 0.
    pub(super) fn run(&self) -> Result<Vec<[f64; 2]>, DriverError> {
        for (stream, origin) in &self.gpus {
            origin.record(stream)?;
        }
        for piece in &self.pieces {
            let stream = &self.gpus[piece.gpu].0;
            for other in piece.after.iter().map(|&n| &self.pieces[n]).filter(|other| other.gpu != piece.gpu) {
                other.end.wait(stream)?;
            }
            piece.begin.record(stream)?;
            piece.exec.launch(stream)?;
            piece.end.record(stream)?;
        }
        for (stream, _) in &self.gpus {
            stream.gpu().synchronize()?;
        }
        let since = |piece: &Piece| {
            let origin = &self.gpus[piece.gpu].1;
            Ok([piece.begin.seconds_since(origin)?, piece.end.seconds_since(origin)?])
        };
        self.pieces.iter().map(since).collect()
    }
}
