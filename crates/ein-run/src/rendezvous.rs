//! A transport inside one process that buffers nothing: a message goes only where its receiver has made room.
//!
//! The room is the receiver's and as large as the message, made once the receive waits for nothing but its
//! message. A send before that is refused. Nobody waits inside a send, so a device whose message is not taken yet
//! goes on, and receives. A task graph that ends over this transport needs no memory for messages under way.

use crate::error::Cause;
use crate::transport::{Arrival, News, Tag, Transport, lock, wait_for};
use ein_task::machine::DeviceId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// One device's end.
pub struct Rendezvous {
    hub: Arc<Hub>,
    me: DeviceId,
}

struct Hub {
    devices: Vec<Desk>,
    stopped: AtomicBool,
    limit: Option<Duration>,
}

/// Where others leave word for a device.
#[derive(Default)]
struct Desk {
    inner: Mutex<Papers>,
    news: Condvar,
}

#[derive(Default)]
struct Papers {
    /// Rooms for messages that are due, empty until they are there.
    rooms: BTreeMap<Arrival, Room>,
    unreported: VecDeque<News>,
}

struct Room {
    bytes: u64,
    message: Option<Vec<u8>>,
}

impl Rendezvous {
    /// The ends of `devices` devices, which wait for news no longer than `limit`.
    pub fn ends(devices: usize, limit: Option<Duration>) -> Vec<Self> {
        let desks = (0..devices).map(|_| Desk::default()).collect();
        let hub = Arc::new(Hub { devices: desks, stopped: AtomicBool::new(false), limit });
        (0..devices).map(|d| Self { hub: Arc::clone(&hub), me: DeviceId(d as u16) }).collect()
    }

    fn desk(&self, device: DeviceId) -> Result<&Desk, Cause> {
        let unknown = || Cause::Transport { reason: format!("there is no device {device}") };
        self.hub.devices.get(device.index()).ok_or_else(unknown)
    }
}

impl Transport for Rendezvous {
    fn buffers(&self) -> bool {
        false
    }

    fn grant(&mut self, message: Arrival, bytes: u64) -> Result<(), Cause> {
        let room = Room { bytes, message: None };
        if lock(&self.desk(self.me)?.inner).rooms.insert(message, room).is_some() {
            let Arrival { from, tag } = message;
            return Err(Cause::Transport { reason: format!("message {tag} from {from} has room already") });
        }
        let sender = self.desk(message.from)?;
        lock(&sender.inner).unreported.push_back(News::Granted(message.tag));
        sender.news.notify_one();
        Ok(())
    }

    fn send(&mut self, to: DeviceId, tag: Tag, bytes: &[u8]) -> Result<(), Cause> {
        let desk = self.desk(to)?;
        let mut papers = lock(&desk.inner);
        let message = Arrival { from: self.me, tag };
        let refuse = |why: String| Err(Cause::Transport { reason: format!("message {tag} to {to}: {why}") });
        match papers.rooms.get_mut(&message) {
            None => return refuse("there is no room for it".into()),
            Some(Room { message: Some(_), .. }) => return refuse("it was sent before".into()),
            Some(room) if room.bytes != bytes.len() as u64 => {
                return refuse(format!("it has {} bytes and room for {}", bytes.len(), room.bytes));
            }
            Some(room) => room.message = Some(bytes.to_vec()),
        }
        papers.unreported.push_back(News::Arrived(message));
        drop(papers);
        desk.news.notify_one();
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<Option<News>, Cause> {
        let since = Instant::now();
        let desk = self.desk(self.me)?;
        let mut papers = lock(&desk.inner);
        loop {
            if self.hub.stopped.load(Ordering::SeqCst) {
                return Err(Cause::Stopped);
            }
            if let Some(news) = papers.unreported.pop_front() {
                return Ok(Some(news));
            }
            if !wait {
                return Ok(None);
            }
            papers = wait_for(&desk.news, papers, since, self.hub.limit)?;
        }
    }

    fn receive(&mut self, message: Arrival, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        let room = lock(&self.desk(self.me)?.inner).rooms.remove(&message);
        if let Some(bytes) = room.and_then(|r| r.message) {
            take(&bytes)
        } else {
            let Arrival { from, tag } = message;
            Err(Cause::Transport { reason: format!("message {tag} from {from} has not arrived") })
        }
    }

    fn abort(&mut self) {
        self.hub.stopped.store(true, Ordering::SeqCst);
        for desk in &self.hub.devices {
            // Taking the lock orders the store before the check of a thread about to wait.
            drop(lock(&desk.inner));
            desk.news.notify_all();
        }
    }

    fn reset(&mut self) {
        self.hub.stopped.store(false, Ordering::SeqCst);
        if let Some(desk) = self.hub.devices.get(self.me.index()) {
            *lock(&desk.inner) = Papers::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DeviceId = DeviceId(0);
    const B: DeviceId = DeviceId(1);

    #[test]
    fn a_message_needs_room() {
        let mut ends = Rendezvous::ends(2, None);
        let mut b = ends.pop().expect("two ends");
        let mut a = ends.pop().expect("two ends");
        let message = Arrival { from: A, tag: 3 };
        let refused = |result: Result<(), Cause>| result.expect_err("refused").to_string();
        assert_eq!(refused(a.send(B, 3, &[1, 2])), "the transport failed: message 3 to d1: there is no room for it");
        assert_eq!(a.poll(false), Ok(None));
        b.grant(message, 2).expect("room");
        assert_eq!(refused(b.grant(message, 2)), "the transport failed: message 3 from d0 has room already");
        assert_eq!(a.poll(true), Ok(Some(News::Granted(3))));
        assert_eq!(refused(a.send(B, 3, &[1])), "the transport failed: message 3 to d1: it has 1 bytes and room for 2");
        assert!(b.receive(message, &mut |_| Ok(())).is_err());
        b.grant(message, 2).expect("a failed receive gives up its room");
        a.send(B, 3, &[1, 2]).expect("there is room");
        assert_eq!(refused(a.send(B, 3, &[1, 2])), "the transport failed: message 3 to d1: it was sent before");
        assert_eq!(b.poll(false), Ok(Some(News::Arrived(message))));
        let mut got = Vec::new();
        b.receive(message, &mut |bytes| {
            got = bytes.to_vec();
            Ok(())
        })
        .expect("it arrived");
        assert_eq!(got, [1, 2]);
        assert!(a.send(DeviceId(2), 1, &[]).is_err());
    }

    #[test]
    fn a_wait_ends_by_an_abort_or_at_its_limit() {
        let limit = Duration::from_millis(20);
        let mut ends = Rendezvous::ends(2, Some(limit));
        let mut b = ends.pop().expect("two ends");
        assert_eq!(b.poll(true), Err(Cause::Silence { limit }));
        ends[0].abort();
        assert_eq!(b.poll(true), Err(Cause::Stopped));
        ends.iter_mut().for_each(Transport::reset);
        b.reset();
        assert_eq!(b.poll(false), Ok(None));
    }
}
