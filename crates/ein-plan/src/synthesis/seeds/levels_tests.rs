//! Known shapes become right programs, whether or not a search would keep them.

#[path = "../../../tests/common/mod.rs"]
mod common;

use super::super::super::bundle::shared;
use super::super::super::cut::{Cuts, Sizes};
use super::super::super::emit::emit;
use super::super::super::net::{Net, Ways};
use super::super::super::route::{Growth, Scheme};
use super::super::super::schedule::{Order, schedule};
use super::*;
use common::{Random, cliques, execute, expected, nodes, pairs, question};
use ein_task::check::{check, check_rendezvous};
use ein_task::exchange::{Exchange, Step};
use ein_task::machine::Machine;

fn right(net: &Net, exchange: &Exchange, scheme: &Scheme, at: &str) {
    let tries = [
        (1, Sizes::Even, Order::Deep),
        (2, Sizes::Even, Order::Justified(2)),
        (3, Sizes::Even, Order::Piecewise),
        (3, Sizes::Falling, Order::Deep),
        (4, Sizes::Humped, Order::Late(1)),
        (2, Sizes::Staggered, Order::Settled(1)),
    ];
    let mixed = |n: usize| (1 + n % 3, [Sizes::Even, Sizes::Falling, Sizes::Humped, Sizes::Staggered][n % 4]);
    let (counts, sizes) = (0..scheme.legs.len()).map(mixed).unzip();
    let all = tries.map(|(count, sizes, order)| (Cuts::sized(vec![count; scheme.legs.len()], sizes), order));
    for (cuts, order) in all.into_iter().chain([(Cuts { counts, sizes }, Order::Late(1))]) {
        let made = schedule(net, exchange, scheme, &cuts, order);
        let program = emit(net, exchange, scheme, &made);
        let pieces = check(exchange, &program, net.machine).unwrap_or_else(|e| panic!("{at}: {e}\n{program}"));
        check_rendezvous(&program, &pieces, net.machine).unwrap();
        for (got, need) in execute(exchange, &program).iter().zip(&exchange.needs) {
            assert_eq!(*got, expected(exchange, need), "{at}\n{program}");
        }
        let moves = program.steps.iter().filter(|s| matches!(s, Step::Move { .. })).count();
        let computing = net.workers.len() == net.devices;
        assert!(!computing || moves <= made.travels.len(), "{at}: more moves than crossings\n{program}");
    }
}

#[test]
fn folds_share_moves_and_stay_right() {
    let machines: Vec<Machine> = vec![
        nodes(2, 2, (100e9, 1e-6), (10e9, 2e-6)),
        nodes(2, 3, (100e9, 1e-6), (10e9, 2e-6)),
        nodes(3, 2, (100e9, 1e-6), (10e9, 2e-6)),
        cliques(3, 100e9, 10e9, 1e-6),
        pairs(4),
    ];
    let (mut peers, mut saved) = (0, 0);
    for seed in 0..300 {
        for machine in &machines {
            let net = Net::new(machine);
            let exchange = question(&mut Random::new(seed), net.workers.len());
            let bundles = Rc::new(shared(&exchange, exchange.atoms()).unwrap());
            if bundles.is_empty() {
                continue;
            }
            let ways = Ways::new(&net, &net.alone(1e6));
            let growth = Growth::FREE;
            let seeds = Seeds { net: &net, bundles: Rc::clone(&bundles), ways: &ways, at_reader: true, growth };
            let across = |across| groups(&net).and_then(|g| seeds.two_level(&g, across));
            let shapes =
                [seeds.direct(), across(Across::Owner), across(Across::Spread), across(Across::Rails), seeds.peers()];
            peers += usize::from(shapes[4].is_some());
            for (n, scheme) in shapes.iter().enumerate().filter_map(|(n, s)| Some((n, s.as_ref()?))) {
                for leg in &scheme.legs {
                    let crossings = leg.route.crossings(&net, &bundles[leg.bundle]).len();
                    let hops = leg.route.folds.iter().map(|f| f.sends.len()).sum::<usize>() + leg.route.hands.len();
                    saved += hops - crossings;
                }
                right(&net, &exchange, scheme, &format!("seed {seed} on {}, shape {n}", machine.name));
            }
        }
    }
    assert!(peers > 200 && saved > 1000, "{peers} between peers, {saved} moves saved");
}
