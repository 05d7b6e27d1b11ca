//! What a program achieves beside what no program can beat.

use super::machines::Wiring;
use super::questions::Kind;
use crate::report::micros;
use ein_plan::synthesis::{bound, sharpest_bound, synthesize};
use ein_task::bounds::{Bound, soonest};
use ein_task::check::{check, check_rendezvous};
use ein_task::exchange::{Exchange, Program};
use ein_task::flow;
use ein_task::machine::{DeviceId, Machine};
use ein_task::program_time::transfers;
use ein_task::traffic::count;

/// A program's figures. Times are simulated, in seconds.
#[derive(Clone, Debug)]
pub struct Judged {
    /// When the last move arrives.
    pub seconds: f64,
    /// Seconds that the busiest resource carries bytes.
    pub load: f64,
    /// Which one.
    pub busiest: String,
    /// Seconds during which that resource carries nothing: before its first byte, between, after its last.
    pub idle: [f64; 3],
    /// The largest number of bytes that a device sends or receives.
    pub port_bytes: u64,
    /// Moves on the longest chain.
    pub depth: usize,
    /// All moves.
    pub moves: usize,
    /// Bytes over all links.
    pub bytes: u64,
    /// The largest number of bytes that a device sends.
    pub sent: u64,
}

/// Our program for a question. A panic is an answer too, and a wrong one: it must not end the measurement.
pub fn synthesized(exchange: &Exchange, machine: &Machine) -> Result<Program, String> {
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| synthesize(exchange, machine)));
    match answer {
        Ok(program) => program.map_err(|e| e.to_string()),
        Err(_) => Err("the synthesiser panicked".into()),
    }
}

/// Checks a program, both ways, and simulates it.
pub fn judge(exchange: &Exchange, program: &Program, machine: &Machine) -> Result<Judged, String> {
    let pieces = check(exchange, program, machine).map_err(|e| e.to_string())?;
    check_rendezvous(program, &pieces, machine).map_err(|e| e.to_string())?;
    let counted = count(exchange, program, machine);
    let list = transfers(exchange, program, machine);
    let spans = flow::run(machine, &list);
    let seconds = spans.iter().map(|s| s.arrived).fold(0.0, f64::max);
    let mut busy = vec![0.0; machine.resources.len()];
    for t in &list {
        for &r in &machine.links[t.link].resources {
            busy[r] += t.bytes as f64 / machine.resources[r].bandwidth;
        }
    }
    let busiest = (0..busy.len()).max_by(|&a, &b| busy[a].total_cmp(&busy[b]).then(b.cmp(&a)));
    let (mut name, mut load, mut idle) = ("nothing".to_string(), 0.0, [0.0; 3]);
    if let Some(r) = busiest.filter(|&r| busy[r] > 0.0) {
        (name, load) = (machine.resources[r].name.clone(), busy[r]);
        let uses = |n: &usize| machine.links[list[*n].link].resources.contains(&r);
        let mut used: Vec<(f64, f64)> = (0..list.len()).filter(uses).map(|n| (spans[n].start, spans[n].sent)).collect();
        used.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut until = 0.0;
        for (n, &(start, sent)) in used.iter().enumerate() {
            idle[usize::from(n > 0)] += (start - until).max(0.0);
            until = f64::max(until, sent);
        }
        idle[2] = seconds - until;
    }
    let most = |list: &[ein_task::units::Bytes]| list.iter().map(|b| b.0).max().unwrap_or(0);
    Ok(Judged {
        seconds,
        load,
        busiest: name,
        idle,
        port_bytes: most(&counted.sent).max(most(&counted.received)),
        depth: counted.depth,
        moves: counted.moves,
        bytes: counted.bytes_total.0,
        sent: most(&counted.sent),
    })
}

/// What no program can beat.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// Least seconds of the busiest resource.
    pub bandwidth: f64,
    /// What says so: a port, a cut, or prices.
    pub binds: &'static str,
    /// Least latency of the longest chain.
    pub latency: f64,
    /// Seconds before which no reader can have what it folds, port and latency together.
    pub soonest: f64,
}

/// The bound of a question.
pub fn least(exchange: &Exchange, machine: &Machine) -> Least {
    let bound = bound(exchange, machine).unwrap_or_else(|e| panic!("a question on {}: {e}", machine.name));
    Least::of(&bound, exchange, machine)
}

/// The sharpest bound that can be found of a question.
pub fn least_of_all(exchange: &Exchange, machine: &Machine) -> Least {
    let bound = sharpest_bound(exchange, machine).unwrap_or_else(|e| panic!("a question on {}: {e}", machine.name));
    Least::of(&bound, exchange, machine)
}

impl Least {
    /// What a bound says. Each move of the longest chain is issued before its first byte flows.
    fn of(bound: &Bound, exchange: &Exchange, machine: &Machine) -> Self {
        let latency = bound.latency.0 + bound.depth as f64 * machine.issue.0;
        let soonest = soonest(exchange, &exchange.atoms(), machine).0;
        Self { bandwidth: bound.bandwidth().0, binds: bound.binds(), latency, soonest }
    }

    /// Seconds: bandwidth and latency, or what takes a reader longer.
    pub fn total(&self) -> f64 {
        self.soonest.max(self.bandwidth + self.latency)
    }
}

/// The latency of the way of fewest links.
pub fn way_latency(machine: &Machine, from: DeviceId, to: DeviceId) -> f64 {
    let way = machine.path(from, to).expect("machines are connected");
    way.windows(2).map(|w| machine.link(w[0], w[1]).map_or(0.0, |l| l.latency.0)).sum()
}

/// The latency of the shallowest program that can reach the bandwidth bound of a named question, and its moves. Each of
/// them is issued before its first byte flows, so that its latency is what it takes to issue and the link's.
///
/// * Where all are linked alike, one move is enough, but for a broadcast (one move would send everything from one
///   port: a device has to pass on what it got) and an all-reduce (fold, then hand out): two.
/// * Over two levels, what many devices need crosses once and is then handed out inside: two moves for
///   all-gather and reduce-scatter, three (inside, across, inside) for broadcast and all-reduce. Where every device
///   has its own way across, using all of them takes a move inside before or after it for scatter and gather, and
///   both for questions that concern few devices (halo, relayout); else one move is enough for those.
/// * Where links are absent: the longest of the ways between devices, through the host if it relays, because
///   the bound counts its links; one link more for broadcast, twice for all-reduce.
pub fn shallow(kind: Kind, machine: &Machine) -> (usize, f64) {
    let (moves, latency) = chain(kind, machine);
    (moves, latency + moves as f64 * machine.issue.0)
}

/// The moves of that program, and the latency of their links.
fn chain(kind: Kind, machine: &Machine) -> (usize, f64) {
    let wiring = Wiring::of(machine);
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    match &wiring {
        Wiring::Flat => {
            let moves = match kind {
                Kind::Broadcast | Kind::AllReduce => 2,
                Kind::AllGather
                | Kind::ReduceScatter
                | Kind::Scatter
                | Kind::Gather
                | Kind::AllToAll
                | Kind::Halo
                | Kind::Relayout { .. } => 1,
            };
            let latency = machine.links.iter().map(|l| l.latency.0).fold(0.0, f64::max);
            (moves, moves as f64 * latency)
        }
        Wiring::TwoLevel(groups) => {
            let latency = |a, b| machine.link(a, b).map_or(0.0, |l| l.latency.0);
            let inside = latency(groups[0][0], groups[0][1]);
            let across = latency(groups[0][0], groups[1][0]);
            let moves = match kind {
                Kind::Broadcast | Kind::AllReduce => 3,
                Kind::AllGather | Kind::ReduceScatter => 2,
                Kind::Scatter | Kind::Gather if wiring.rails(machine) => 2,
                Kind::Halo | Kind::Relayout { .. } if wiring.rails(machine) => 3,
                Kind::Scatter | Kind::Gather | Kind::AllToAll | Kind::Halo | Kind::Relayout { .. } => 1,
            };
            (moves, across.max(inside) + (moves - 1) as f64 * inside)
        }
        Wiring::Sparse => {
            let mut longest: (f64, usize) = (0.0, 0);
            let linked = |a: DeviceId, b: DeviceId| machine.link(a, b).is_some();
            for &a in &workers {
                for &b in workers.iter().filter(|&&b| b != a) {
                    let moves = machine.path(a, b).expect("machines are connected").len() - 1;
                    longest = (longest.0.max(way_latency(machine, a, b)), longest.1.max(moves));
                    for host in machine.ids().filter(|h| !machine.workers().contains(*h)) {
                        if linked(a, host) && linked(host, b) {
                            let through = way_latency(machine, a, host) + way_latency(machine, host, b);
                            longest = (longest.0.max(through), longest.1.max(2));
                        }
                    }
                }
            }
            let one = machine.links.iter().map(|l| l.latency.0).fold(f64::INFINITY, f64::min);
            match kind {
                Kind::Broadcast => (longest.1 + 1, longest.0 + one),
                Kind::AllReduce => (2 * longest.1, 2.0 * longest.0),
                Kind::AllGather
                | Kind::ReduceScatter
                | Kind::Scatter
                | Kind::Gather
                | Kind::AllToAll
                | Kind::Halo
                | Kind::Relayout { .. } => (longest.1, longest.0),
            }
        }
    }
}

/// Why a program is not faster.
pub fn reason(judged: &Judged, least: &Least) -> String {
    let over = judged.load / least.bandwidth;
    let [before, between, after] = judged.idle.map(micros);
    format!(
        "{} carries {} ({over:.3} of the bound), idle {before} before, {between} between, {after} after; depth {}, {} moves",
        judged.busiest,
        micros(judged.load),
        judged.depth,
        judged.moves
    )
}
