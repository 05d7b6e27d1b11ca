//! What links do: they carry transfers, one at a time each, side by side.
//!
//! A transfer that is ready waits in its link's queue. It holds its link for [`Machine::issue`], then for its
//! bytes, at the rate that max–min fair sharing gives; it arrives the link's latency after the last byte is sent:
//! latency does not hold the link. A device with copy engines sends no more transfers at once than it has of them:
//! an engine is held as long as the link.

use crate::machine::Machine;
use crate::sharing::{ROUNDING, Sharing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a transfer held its link, and when its last byte was there: seconds from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// It takes its link.
    pub start: f64,
    /// Its last byte leaves; the link is free again.
    pub sent: f64,
    /// Its last byte is there.
    pub arrived: f64,
}

/// What became of a transfer at the present moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Passed {
    /// Its last byte left.
    Sent(u32),
    /// Its last byte is there.
    Arrived(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// The issue is over: bytes start to flow.
    Issued(u32),
    Arrived(u32),
}

#[derive(Clone, Copy)]
struct Row {
    link: u32,
    bytes: f64,
    span: Span,
}

/// Transfers on the links of a machine.
pub(crate) struct Network<'a> {
    machine: &'a Machine,
    rows: Vec<Row>,
    /// By link: ready transfers, the one that goes first on top.
    queues: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// By link: the transfer that holds it.
    carried: Vec<Option<u32>>,
    /// By device: copy engines that are free, if it has any number of them.
    engines: Vec<Option<u32>>,
    /// By device with engines: its outgoing links. None of other devices.
    outgoing: Vec<Vec<u32>>,
    /// Links that came free or got something.
    touched: Vec<u32>,
    /// By time; times are not negative, so their bits are in order.
    moments: BinaryHeap<Reverse<(u64, Moment)>>,
    sharing: Sharing,
    ended: Vec<u32>,
}

impl<'a> Network<'a> {
    pub(crate) fn new(machine: &'a Machine) -> Self {
        let links = machine.links.len();
        let engines: Vec<Option<u32>> = machine.devices.iter().map(|d| d.engines).collect();
        let mut outgoing = vec![Vec::new(); machine.len()];
        for (n, link) in machine.links.iter().enumerate().filter(|l| engines[l.1.from.index()].is_some()) {
            outgoing[link.from.index()].push(n as u32);
        }
        Self {
            machine,
            engines,
            outgoing,
            rows: Vec::new(),
            queues: vec![BinaryHeap::new(); links],
            carried: vec![None; links],
            touched: Vec::new(),
            moments: BinaryHeap::new(),
            sharing: Sharing::new(machine),
            ended: Vec::new(),
        }
    }

    /// A transfer that is known and not ready; transfers are numbered as they are added.
    pub(crate) fn add(&mut self, link: usize, bytes: u64) -> u32 {
        self.rows.push(Row { link: link as u32, bytes: bytes as f64, span: Span::default() });
        self.rows.len() as u32 - 1
    }

    /// A transfer may start; of those of a link, that of the lowest `turn` goes first, then that of the lowest
    /// number.
    pub(crate) fn ready(&mut self, transfer: u32, turn: u64) {
        let link = self.rows[transfer as usize].link;
        self.queues[link as usize].push(Reverse((turn, transfer)));
        self.touched.push(link);
    }

    /// Gives free links to what waits for them, at time `now`. Everything that is ready at this time must be known.
    pub(crate) fn start(&mut self, now: f64, passed: &mut Vec<Passed>) {
        let mut touched = std::mem::take(&mut self.touched);
        for &link in &touched {
            while let Some(link) = self.next_of(link)
                && let Some(Reverse((_, transfer))) = self.queues[link as usize].pop()
            {
                self.carried[link as usize] = Some(transfer);
                if let Some(free) = &mut self.engines[self.machine.links[link as usize].from.index()] {
                    *free -= 1;
                }
                self.rows[transfer as usize].span.start = now;
                if self.machine.issue.0 == 0.0 {
                    self.issued(transfer, now, passed);
                } else {
                    self.at(now + self.machine.issue.0, Moment::Issued(transfer));
                }
            }
        }
        touched.clear();
        self.touched = touched;
    }

    /// The link to be given out next after this one was touched: itself if it is free, or where links compete for
    /// copy engines, the free one of that device with the transfer that goes first.
    fn next_of(&self, link: u32) -> Option<u32> {
        let free = |l: u32| self.carried[l as usize].is_none();
        let device = self.machine.links[link as usize].from.index();
        match self.engines[device] {
            None => Some(link).filter(|&l| free(l)),
            Some(0) => None,
            Some(_) => {
                let first = |&l: &u32| Some((self.queues[l as usize].peek()?.0, l));
                self.outgoing[device].iter().filter(|&&l| free(l)).filter_map(first).min().map(|(_, l)| l)
            }
        }
    }

    /// When something happens next, if nothing more is started before.
    pub(crate) fn next(&mut self, now: f64) -> Option<f64> {
        let moment = self.moments.peek().map(|Reverse((bits, _))| f64::from_bits(*bits));
        let flow = self.sharing.next(now);
        match (moment, flow) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What happens at time `now`, give or take rounding.
    pub(crate) fn advance(&mut self, now: f64, passed: &mut Vec<Passed>) {
        let until = now * (1.0 + ROUNDING);
        let mut ended = std::mem::take(&mut self.ended);
        self.sharing.end(until, &mut ended);
        for link in ended.drain(..) {
            let transfer = self.carried[link as usize].expect("a flow has a transfer");
            self.sent(transfer, now, passed);
        }
        self.ended = ended;
        while let Some(&Reverse((bits, moment))) = self.moments.peek() {
            if f64::from_bits(bits) > until {
                break;
            }
            self.moments.pop();
            match moment {
                Moment::Issued(transfer) => self.issued(transfer, now, passed),
                Moment::Arrived(transfer) => self.arrived(transfer, now, passed),
            }
        }
    }

    pub(crate) fn span(&self, transfer: u32) -> Span {
        self.rows[transfer as usize].span
    }

    fn issued(&mut self, transfer: u32, now: f64, passed: &mut Vec<Passed>) {
        let Row { link, bytes, .. } = self.rows[transfer as usize];
        if bytes > 0.0 {
            self.sharing.begin(link, bytes, now);
        } else {
            self.sent(transfer, now, passed);
        }
    }

    fn sent(&mut self, transfer: u32, now: f64, passed: &mut Vec<Passed>) {
        let row = &mut self.rows[transfer as usize];
        row.span.sent = now;
        let link = row.link as usize;
        self.carried[link] = None;
        if let Some(free) = &mut self.engines[self.machine.links[link].from.index()] {
            *free += 1;
        }
        self.touched.push(link as u32);
        passed.push(Passed::Sent(transfer));
        let latency = self.machine.links[link].latency.0;
        if latency == 0.0 {
            self.arrived(transfer, now, passed);
        } else {
            self.at(now + latency, Moment::Arrived(transfer));
        }
    }

    fn arrived(&mut self, transfer: u32, now: f64, passed: &mut Vec<Passed>) {
        self.rows[transfer as usize].span.arrived = now;
        passed.push(Passed::Arrived(transfer));
    }

    fn at(&mut self, time: f64, moment: Moment) {
        self.moments.push(Reverse((time.to_bits(), moment)));
    }
}
