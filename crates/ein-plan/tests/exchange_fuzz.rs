//! Random exchange questions: programs compute the right numbers.

mod common;

use common::*;
use ein_plan::synthesis::{Aim, synthesize_for};
use ein_task::buffers::peak_buffers;
use ein_task::check::{check, check_rendezvous};
use ein_task::exchange::{Exchange, Program};
use ein_task::machine::Machine;
use ein_task::traffic::{count, traffic};

fn machines(p: usize) -> Vec<Machine> {
    let mut all = vec![
        switch(p, 100e9, 1e-6),
        switch(p, 100e9, 0.0),
        cube(1e-6),
        cliques(p.div_ceil(2), 100e9, 10e9, 0.0),
        pairs(p),
        ring(p.max(2)),
    ];
    all[0].issue = ein_task::units::Seconds(1e-7);
    all
}

fn right(exchange: &Exchange, program: &Program) {
    for (got, need) in execute(exchange, program).iter().zip(&exchange.needs) {
        assert_eq!(*got, expected(exchange, need), "{}\n{program}", exchange.have);
    }
}

#[test]
fn random_questions() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let p = 1 + random.below(6);
        let exchange = question(&mut random, p);
        for machine in machines(p) {
            let crude = naive(&exchange, &machine);
            check(&exchange, &crude, &machine).unwrap_or_else(|e| panic!("{e}\n{crude}"));
            for aim in [Aim::Seconds, Aim::Bytes, Aim::Buffers] {
                let program = synthesize_for(&exchange, &machine, aim).unwrap();
                let pieces = check(&exchange, &program, &machine).unwrap_or_else(|e| panic!("{e}\n{program}"));
                check_rendezvous(&program, &pieces, &machine).unwrap();
                right(&exchange, &program);
                assert_eq!(Program::parse(&program.annotated(&pieces)).as_ref(), Ok(&program));
                assert_eq!(synthesize_for(&exchange, &machine, aim).as_ref(), Ok(&program), "not repeatable");
                let (ours, theirs) = (traffic(&exchange, &program, &machine), count(&exchange, &crude, &machine));
                let at = format!(
                    "seed {seed} on {} for {aim:?}\n{}\n{program}\n{crude}\n{ours:?}\n{theirs:?}",
                    machine.name, exchange.have
                );
                assert!(ours.seconds.0 >= ours.bound.total().0 * 0.999_999, "below its bound: {at}");
                match aim {
                    Aim::Bytes => assert!(ours.bytes_total <= theirs.bytes_total, "{at}"),
                    Aim::Seconds => assert!(ours.seconds.0 <= theirs.seconds.0 * 1.002, "{at}"),
                    Aim::Buffers => {
                        let most = |program: &Program| {
                            let pieces = check(&exchange, program, &machine).unwrap();
                            peak_buffers(&exchange, program, &pieces).into_iter().max()
                        };
                        let quick = synthesize_for(&exchange, &machine, Aim::Seconds).unwrap();
                        assert!(most(&program) <= most(&quick), "{at}");
                    }
                }
            }
        }
    }
}
