//! The border between devices: tagged messages, and the transport inside one process.

use crate::error::Cause;
use ein_task::machine::DeviceId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What tells messages apart: the number of the row that sends.
pub type Tag = u32;

/// A message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Who sent it.
    pub from: DeviceId,
    /// Its tag.
    pub tag: Tag,
}

/// What an end of a transport reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// A message has arrived and can be received.
    Arrived(Arrival),
    /// The receiver of the message of this tag has room for it, so that it can be sent.
    Granted(Tag),
}

/// One device's end of a transport.
pub trait Transport: Send {
    /// Whether a message can be sent before its receiver has room for it. Where it cannot, a message is sent only
    /// after [`News::Granted`], and no end ever waits inside a send.
    fn buffers(&self) -> bool;

    /// Tells the sender of a message of `bytes` bytes that there is room for it. Called once for every message,
    /// by its receiver, and only where nothing is buffered.
    fn grant(&mut self, message: Arrival, bytes: u64) -> Result<(), Cause>;

    /// Sends a message. Never waits for the receiver.
    fn send(&mut self, to: DeviceId, tag: Tag, bytes: &[u8]) -> Result<(), Cause>;

    /// The next news that was not reported yet. With `wait`, blocks until there is some or the run is aborted;
    /// an aborted run is [`Cause::Stopped`], a wait beyond the transport's limit [`Cause::Silence`].
    fn poll(&mut self, wait: bool) -> Result<Option<News>, Cause>;

    /// Hands a reported message to `take` and forgets it.
    fn receive(&mut self, message: Arrival, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause>;

    /// Ends the run on every device and wakes all that wait.
    fn abort(&mut self);

    /// Forgets messages and aborts of an earlier run. Called on every end before any device starts.
    fn reset(&mut self);
}

/// Waits for news, no longer than until a limit since `since`; [`Cause::Silence`] beyond it.
pub(crate) fn wait_for<'a, T>(
    news: &Condvar,
    guard: MutexGuard<'a, T>,
    since: Instant,
    limit: Option<Duration>,
) -> Result<MutexGuard<'a, T>, Cause> {
    let Some(limit) = limit else { return Ok(news.wait(guard).unwrap_or_else(PoisonError::into_inner)) };
    let left = limit.saturating_sub(since.elapsed());
    if left.is_zero() {
        return Err(Cause::Silence { limit });
    }
    Ok(news.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0)
}

/// Mailboxes of the devices of one process.
struct Hub {
    boxes: Vec<Mailbox>,
    stopped: AtomicBool,
    limit: Option<Duration>,
}

#[derive(Default)]
struct Mailbox {
    inner: Mutex<Letters>,
    news: Condvar,
}

#[derive(Default)]
struct Letters {
    arrived: BTreeMap<(DeviceId, Tag), Vec<u8>>,
    unreported: VecDeque<Arrival>,
    /// Whether the device waits for news: only then is it woken, which is dear.
    waits: bool,
    /// Buffers of messages received before, smallest first, so that a second run allocates nothing.
    spare: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Letters {
    /// A buffer for `bytes`, reusing a spare one unless the smallest that fits is over twice as big.
    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let Some((&capacity, stack)) = self.spare.range_mut(bytes..=2 * bytes).next() else {
            return Vec::with_capacity(bytes);
        };
        let buffer = stack.pop().unwrap_or_default();
        if stack.is_empty() {
            self.spare.remove(&capacity);
        }
        buffer
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.entry(buffer.capacity()).or_default().push(buffer);
    }
}

/// A mutex is never held while user code runs, so a poisoned one still holds whole data.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One device's end of the transport inside a process.
pub struct Local {
    hub: Arc<Hub>,
    me: DeviceId,
}

impl Local {
    /// The ends of `devices` devices, which wait for each other as long as it takes: in one process a device that
    /// fails says so.
    pub fn ends(devices: usize) -> Vec<Self> {
        Self::ends_within(devices, None)
    }

    /// The ends of `devices` devices, which wait for news no longer than `limit`.
    pub fn ends_within(devices: usize, limit: Option<Duration>) -> Vec<Self> {
        let boxes = (0..devices).map(|_| Mailbox::default()).collect();
        let hub = Arc::new(Hub { boxes, stopped: AtomicBool::new(false), limit });
        (0..devices).map(|d| Self { hub: Arc::clone(&hub), me: DeviceId(d as u16) }).collect()
    }

    fn mailbox(&self) -> &Mailbox {
        &self.hub.boxes[self.me.index()]
    }
}

impl Transport for Local {
    fn buffers(&self) -> bool {
        true
    }

    fn grant(&mut self, _: Arrival, _: u64) -> Result<(), Cause> {
        Ok(())
    }

    fn send(&mut self, to: DeviceId, tag: Tag, bytes: &[u8]) -> Result<(), Cause> {
        let Some(mailbox) = self.hub.boxes.get(to.index()) else {
            return Err(Cause::Transport { reason: format!("there is no device {to}") });
        };
        // The copy is made outside the lock, so that senders to one device do not wait for each other.
        let mut buffer = lock(&mailbox.inner).buffer(bytes.len());
        buffer.extend_from_slice(bytes);
        let mut letters = lock(&mailbox.inner);
        letters.arrived.insert((self.me, tag), buffer);
        letters.unreported.push_back(Arrival { from: self.me, tag });
        let waits = std::mem::take(&mut letters.waits);
        drop(letters);
        if waits {
            mailbox.news.notify_one();
        }
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<Option<News>, Cause> {
        let mailbox = self.mailbox();
        let mut since = None;
        let mut letters = lock(&mailbox.inner);
        loop {
            if self.hub.stopped.load(Ordering::SeqCst) {
                return Err(Cause::Stopped);
            }
            if let Some(arrival) = letters.unreported.pop_front() {
                return Ok(Some(News::Arrived(arrival)));
            }
            if !wait {
                return Ok(None);
            }
            letters.waits = true;
            letters = wait_for(&mailbox.news, letters, *since.get_or_insert_with(Instant::now), self.hub.limit)?;
        }
    }

    fn receive(&mut self, message: Arrival, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        let mailbox = self.mailbox();
        let Some(buffer) = lock(&mailbox.inner).arrived.remove(&(message.from, message.tag)) else {
            let Arrival { from, tag } = message;
            return Err(Cause::Transport { reason: format!("message {tag} from {from} has not arrived") });
        };
        let result = take(&buffer);
        lock(&mailbox.inner).recycle(buffer);
        result
    }

    fn abort(&mut self) {
        self.hub.stopped.store(true, Ordering::SeqCst);
        for mailbox in &self.hub.boxes {
            // Taking the lock orders the store before the check of a thread about to wait.
            drop(lock(&mailbox.inner));
            mailbox.news.notify_all();
        }
    }

    fn reset(&mut self) {
        self.hub.stopped.store(false, Ordering::SeqCst);
        let mut letters = lock(&self.mailbox().inner);
        letters.unreported.clear();
        while let Some((_, buffer)) = letters.arrived.pop_first() {
            letters.recycle(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DeviceId = DeviceId(0);
    const B: DeviceId = DeviceId(1);

    #[test]
    fn messages_are_reported_in_order_and_taken_in_any() {
        let mut ends = Local::ends(2);
        let mut b = ends.pop().expect("two ends");
        let mut a = ends.pop().expect("two ends");
        a.send(B, 7, &[1, 2]).expect("sent");
        a.send(B, 8, &[]).expect("sent");
        let mut next = |wait| match b.poll(wait) {
            Ok(Some(News::Arrived(arrival))) => arrival,
            other => panic!("{other:?}"),
        };
        let (first, second) = (next(false), next(true));
        assert_eq!((first.from, first.tag, second.tag), (A, 7, 8));
        assert_eq!(b.poll(false), Ok(None));
        let mut got = Vec::new();
        for message in [second, first] {
            b.receive(message, &mut |bytes| {
                got.push(bytes.to_vec());
                Ok(())
            })
            .expect("received");
        }
        assert_eq!(got, [vec![], vec![1, 2]]);
        assert!(b.receive(first, &mut |_| Ok(())).is_err());
        assert!(a.send(DeviceId(2), 1, &[]).is_err());
    }

    #[test]
    fn an_abort_wakes_who_waits_and_a_reset_forgets_it() {
        let mut ends = Local::ends(2);
        let mut b = ends.pop().expect("two ends");
        let mut a = ends.pop().expect("two ends");
        let waiting = std::thread::spawn(move || (b.poll(true), b));
        a.abort();
        let (result, mut b) = waiting.join().expect("no panic");
        assert_eq!(result, Err(Cause::Stopped));
        b.reset();
        assert_eq!(b.poll(false), Ok(None));
    }

    #[test]
    fn buffers_are_used_again() {
        let mut letters = Letters::default();
        let mut buffer = letters.buffer(100);
        buffer.extend_from_slice(&[1; 100]);
        let address = buffer.as_ptr();
        letters.recycle(buffer);
        let small = letters.buffer(10);
        assert_ne!(small.as_ptr(), address, "a small message does not take a big buffer");
        let again = letters.buffer(80);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
    }
}
