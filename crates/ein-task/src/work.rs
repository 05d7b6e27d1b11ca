//! Discrete events: work on devices and transfers between them, each behind what it waits for.
//!
//! A device works on one row at a time; of the rows that are ready, that of the lowest turn goes first, then the
//! lowest number. Rows that take no time do not queue. What links do is [`crate::network`]'s.

use crate::flow::Readers;
use crate::machine::{DeviceKind, Machine};
use crate::network::{Network, Passed};
use crate::rates::Turns;
use crate::sharing::ROUNDING;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// Takes the device this many seconds; what waits for its arrival waits `latency` longer.
    Local { device: usize, seconds: f64, latency: f64 },
    /// Moves bytes over a link, by position.
    Transfer { link: usize, bytes: u64 },
}

/// Rows and who waits for whom. Rows are numbered as they are added and wait only for others of the list.
#[derive(Default)]
pub(crate) struct Work {
    rows: Vec<(Act, u64)>,
    arrived: Vec<(u32, u32)>,
    sent: Vec<(u32, u32)>,
    memory: Vec<(u32, u32)>,
}

/// When a row began, when its device or link was free again, and when its result was there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) start: f64,
    pub(crate) sent: f64,
    pub(crate) arrived: f64,
}

impl Work {
    /// Adds a row; rows of lower `turn` go first.
    pub(crate) fn push(&mut self, act: Act, turn: u64) -> u32 {
        self.rows.push((act, turn));
        self.rows.len() as u32 - 1
    }

    /// `row` starts when the result of `earlier` is there.
    pub(crate) fn after(&mut self, row: u32, earlier: u32) {
        self.arrived.push((earlier, row));
    }

    /// `row` starts when the device or the link of `earlier` is done with it.
    pub(crate) fn after_sent(&mut self, row: u32, earlier: u32) {
        self.sent.push((earlier, row));
    }

    /// The transfer `row` lands where `earlier` works, so it starts when that is over; when nothing else can happen
    /// any more it starts all the same, since a receiver would have to put it aside.
    pub(crate) fn lands_after(&mut self, row: u32, earlier: u32) {
        self.memory.push((earlier, row));
    }

    /// When every row happens.
    pub(crate) fn run(&self, machine: &Machine) -> Vec<Times> {
        let mut run = Run::new(self, machine);
        run.go();
        run.times
    }
}

/// What waits for a row.
struct Waiting {
    arrived: Readers,
    sent: Readers,
    memory: Readers,
}

struct Run<'a> {
    work: &'a Work,
    network: Network<'a>,
    waiting: Waiting,
    waits: Vec<u32>,
    memory: Vec<u32>,
    /// The number in the network of a row that is a transfer, and back.
    transfer: Vec<u32>,
    row: Vec<u32>,
    times: Vec<Times>,
    queued: Vec<bool>,
    queues: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    busy: Vec<bool>,
    /// Devices that came free or got something.
    touched: Vec<usize>,
    /// Rows that took no time, and whose readers do not know yet.
    instant: Vec<u32>,
    clocks: Clocks,
    /// Results on their way from one thread to another, by time and row.
    late: BinaryHeap<Reverse<(u64, u32)>>,
    now: f64,
}

impl<'a> Run<'a> {
    fn new(work: &'a Work, machine: &'a Machine) -> Self {
        let count = work.rows.len();
        let mut network = Network::new(machine);
        let (mut transfer, mut row) = (vec![u32::MAX; count], Vec::new());
        for (n, (act, _)) in work.rows.iter().enumerate() {
            if let Act::Transfer { link, bytes } = *act {
                transfer[n] = network.add(link, bytes);
                row.push(n as u32);
            }
        }
        let (mut waits, mut memory) = (vec![0; count], vec![0; count]);
        for &(_, to) in work.arrived.iter().chain(&work.sent) {
            waits[to as usize] += 1;
        }
        for &(_, to) in &work.memory {
            memory[to as usize] += 1;
        }
        let waiting = Waiting {
            arrived: Readers::new(count, &work.arrived),
            sent: Readers::new(count, &work.sent),
            memory: Readers::new(count, &work.memory),
        };
        Self {
            work,
            network,
            waiting,
            waits,
            memory,
            transfer,
            row,
            times: vec![Times::default(); count],
            queued: vec![false; count],
            queues: vec![BinaryHeap::new(); machine.len()],
            busy: vec![false; machine.len()],
            touched: Vec::new(),
            instant: Vec::new(),
            clocks: Clocks::new(machine),
            late: BinaryHeap::new(),
            now: 0.0,
        }
    }

    fn go(&mut self) {
        for row in 0..self.waits.len() as u32 {
            self.enqueue(row);
        }
        self.settle();
        let mut passed = Vec::new();
        loop {
            self.start(&mut passed);
            if passed.is_empty() {
                let late = self.late.peek().map(|Reverse((bits, _))| f64::from_bits(*bits));
                let times = [self.network.next(self.now), self.clocks.next(self.now), late];
                let Some(next) = times.into_iter().flatten().reduce(f64::min) else {
                    if self.start_stalled() {
                        continue;
                    }
                    break;
                };
                self.now = next;
                self.network.advance(next, &mut passed);
                self.local();
            }
            for event in passed.drain(..) {
                match event {
                    Passed::Sent(transfer) => self.sent(self.row[transfer as usize]),
                    Passed::Arrived(transfer) => {
                        let (row, span) = (self.row[transfer as usize], self.network.span(transfer));
                        self.times[row as usize] = Times { start: span.start, sent: span.sent, arrived: span.arrived };
                        self.arrived(row);
                    }
                }
            }
            self.settle();
        }
        debug_assert!(self.queued.iter().all(|q| *q), "a row waits for one that waits for it");
    }

    /// What devices are done with by now.
    fn local(&mut self) {
        while let Some(row) = self.clocks.pop(self.now) {
            let Act::Local { device, latency, .. } = self.work.rows[row as usize].0 else {
                unreachable!("it was local")
            };
            self.busy[device] = false;
            self.touched.push(device);
            self.times[row as usize].sent = self.now;
            self.sent(row);
            if latency == 0.0 {
                self.times[row as usize].arrived = self.now;
                self.arrived(row);
            } else {
                self.late.push(Reverse(((self.now + latency).to_bits(), row)));
            }
        }
        while let Some(&Reverse((bits, row))) = self.late.peek()
            && f64::from_bits(bits) <= self.now * (1.0 + ROUNDING)
        {
            self.late.pop();
            self.times[row as usize].arrived = self.now;
            self.arrived(row);
        }
    }

    fn sent(&mut self, row: u32) {
        for n in 0..self.waiting.sent.of(row as usize).len() {
            let reader = self.waiting.sent.of(row as usize)[n];
            self.waits[reader as usize] -= 1;
            self.enqueue(reader);
        }
    }

    /// Tells those that wait for a row's result.
    fn arrived(&mut self, row: u32) {
        for n in 0..self.waiting.arrived.of(row as usize).len() {
            let reader = self.waiting.arrived.of(row as usize)[n];
            self.waits[reader as usize] -= 1;
            self.enqueue(reader);
        }
        for n in 0..self.waiting.memory.of(row as usize).len() {
            let reader = self.waiting.memory.of(row as usize)[n];
            self.memory[reader as usize] -= 1;
            self.enqueue(reader);
        }
    }

    /// Puts a row that waits for nothing more in its queue.
    fn enqueue(&mut self, row: u32) {
        let n = row as usize;
        if self.waits[n] > 0 || self.memory[n] > 0 || self.queued[n] {
            return;
        }
        self.queued[n] = true;
        let (act, turn) = self.work.rows[n];
        match act {
            Act::Local { seconds: 0.0, latency: 0.0, .. } => {
                self.times[n] = Times { start: self.now, sent: self.now, arrived: self.now };
                self.instant.push(row);
            }
            Act::Local { device, .. } => {
                self.queues[device].push(Reverse((turn, row)));
                self.touched.push(device);
            }
            Act::Transfer { .. } => self.network.ready(self.transfer[n], turn),
        }
    }

    /// Goes on behind rows that take no time.
    fn settle(&mut self) {
        while let Some(row) = self.instant.pop() {
            self.sent(row);
            self.arrived(row);
        }
    }

    /// Starts what the free devices and links have in their queues.
    fn start(&mut self, passed: &mut Vec<Passed>) {
        for device in std::mem::take(&mut self.touched) {
            if !self.busy[device]
                && let Some(Reverse((_, row))) = self.queues[device].pop()
            {
                let Act::Local { seconds, .. } = self.work.rows[row as usize].0 else { unreachable!("it is local") };
                self.busy[device] = true;
                self.times[row as usize].start = self.now;
                self.clocks.push(device, row, seconds, self.now);
            }
        }
        self.network.start(self.now, passed);
    }

    /// Only transfers are left, and each waits for memory that another one has to free. Starts the first.
    fn start_stalled(&mut self) -> bool {
        let stalled = |&n: &usize| self.transfer[n] != u32::MAX && self.waits[n] == 0 && !self.queued[n];
        let first = (0..self.waits.len()).find(stalled);
        if let Some(row) = first {
            self.queued[row] = true;
            self.network.ready(self.transfer[row], self.work.rows[row].1);
        }
        first.is_some()
    }
}

/// The times of devices: threads that share the host's processors are slower the more of them work.
struct Clocks {
    own: Clock,
    shared: Clock,
    processors: f64,
    turns: Turns,
    /// Whether a device is a thread that shares processors.
    shares: Vec<bool>,
}

/// Work under way at one speed: ends by the clock's own time, which runs at that speed.
#[derive(Default)]
struct Clock {
    time: f64,
    at: f64,
    /// By end; ends are not negative, so their bits are in order.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Clocks {
    fn new(machine: &Machine) -> Self {
        let shares = |kind| kind == DeviceKind::Cpu && machine.processors.is_some();
        Self {
            own: Clock::default(),
            shared: Clock::default(),
            processors: machine.processors.map_or(f64::INFINITY, f64::from),
            turns: machine.turns,
            shares: machine.devices.iter().map(|d| shares(d.kind)).collect(),
        }
    }

    /// How fast threads run that share processors: all of them alike.
    fn speed(&self) -> f64 {
        self.turns.speed(self.shared.ends.len(), self.processors)
    }

    fn push(&mut self, device: usize, row: u32, seconds: f64, now: f64) {
        if self.shares[device] {
            self.shared.advance(self.speed(), now);
            self.shared.push(row, seconds);
        } else {
            self.own.advance(1.0, now);
            self.own.push(row, seconds);
        }
    }

    fn next(&self, now: f64) -> Option<f64> {
        let next = |clock: &Clock, speed: f64| clock.next(speed).map(|t| t.max(now));
        let (own, shared) = (next(&self.own, 1.0), next(&self.shared, self.speed()));
        own.into_iter().chain(shared).reduce(f64::min)
    }

    /// A row whose work is over by `now`.
    fn pop(&mut self, now: f64) -> Option<u32> {
        self.own.pop(1.0, now).or_else(|| self.shared.pop(self.speed(), now))
    }
}

impl Clock {
    fn advance(&mut self, speed: f64, now: f64) {
        // At full speed the clock shows the time since it last differed, without sums that round.
        self.time = if speed == 1.0 && self.time == self.at { now } else { self.time + speed * (now - self.at) };
        self.at = now;
    }

    fn push(&mut self, row: u32, seconds: f64) {
        self.ends.push(Reverse(((self.time + seconds).to_bits(), row)));
    }

    fn next(&self, speed: f64) -> Option<f64> {
        let Reverse((bits, _)) = self.ends.peek()?;
        let left = f64::from_bits(*bits) - self.time;
        let exact = speed == 1.0 && self.time == self.at;
        Some(if exact { f64::from_bits(*bits) } else { self.at + left / speed })
    }

    fn pop(&mut self, speed: f64, now: f64) -> Option<u32> {
        if self.next(speed)? > now * (1.0 + ROUNDING) {
            return None;
        }
        self.advance(speed, now);
        self.ends.pop().map(|Reverse((_, row))| row)
    }
}
