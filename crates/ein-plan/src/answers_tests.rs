//! Questions that are alike are searched once, and answered rightly every time.

use super::*;
use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::region::{Interval, Region};
use ein_task::exchange::Need;
use ein_task::relation::{Held, Relation};

/// Partials of the same box on `devices`, summed and read whole by each of them, `offset` rows down the tensor.
fn all_reduce(devices: &[u16], offset: usize, rows: usize) -> Exchange {
    let region = Region::of(&[(offset, offset + rows), (0, 64)]);
    let held = |d: &u16| Held { region: region.clone(), devices: DeviceSet::one(DeviceId(*d)) };
    let have = Relation {
        whole: region.clone(),
        monoid: Monoid::Sum,
        pending: Form::finished(DType::F32, 2),
        finished: Form::finished(DType::F32, 2),
        blocks: devices.iter().map(held).collect(),
        places: Vec::new(),
    };
    let need = |d: &u16| Need { device: DeviceId(*d), region: region.clone() };
    Exchange { have, needs: devices.iter().map(need).collect() }
}

#[test]
fn like_questions_are_searched_once() {
    let check = |machine: &str, questions: &[Exchange], expected: usize| {
        let machine = Machine::by_name(machine).unwrap();
        let mut answers = Answers::of(&Options::default());
        for question in questions {
            // The checker runs inside; what is delivered is what was asked.
            let answer = answers.answer(question, &machine).unwrap();
            assert_eq!(answer.program.yields.len(), question.needs.len());
        }
        assert_eq!(answers.searched(), expected, "{}", machine.name);
    };
    // Eighty layers; then the same at another place in the tensor.
    let layers = vec![all_reduce(&[0, 1, 2, 3], 0, 4096); 80];
    check("8xa100", &layers, 1);
    check("dgx-1v", &layers, 1);
    let elsewhere = [all_reduce(&[0, 1, 2, 3], 0, 4096), all_reduce(&[0, 1, 2, 3], 64, 4096)];
    check("8xa100", &elsewhere, 1);
    check("dgx-1v", &elsewhere, 1);
    // Other devices: alike behind a switch, and on the cube mesh those that are linked alike.
    let others = [all_reduce(&[0, 1, 2], 0, 4096), all_reduce(&[4, 5, 7], 0, 4096)];
    check("8xa100", &others, 1);
    check("dgx-1v", &others, 1);
    check("dgx-1v", &[all_reduce(&[0, 1, 2], 0, 4096), all_reduce(&[0, 1, 6], 0, 4096)], 2);
    // Its two halves are alike, and so are others that it becomes when turned.
    check("dgx-1v", &[all_reduce(&[0, 1, 2], 0, 4096), all_reduce(&[4, 5, 6], 0, 4096)], 1);
    check("dgx-1v", &[all_reduce(&[0, 1, 2], 0, 4096), all_reduce(&[5, 4, 7], 0, 4096)], 1);
    let halves = [all_reduce(&[0, 1, 2, 3], 0, 4096), all_reduce(&[4, 5, 6, 7], 0, 4096)];
    check("dgx-1v", &halves, 1);
    // In another order of its partials.
    for machine in ["8xa100", "dgx-1v"] {
        check(machine, &[all_reduce(&[0, 1, 2], 0, 4096), all_reduce(&[2, 0, 1], 0, 4096)], 1);
        check(machine, &[all_reduce(&[0, 1, 2, 3], 0, 4096), all_reduce(&[6, 5, 7, 4], 0, 4096)], 1);
    }
    // Unless the order is part of the question: not even a rotation is the same.
    let maps = |devices: &[u16]| {
        let mut question = all_reduce(devices, 0, 4096);
        question.have.monoid = Monoid::Affine;
        question.have.pending = Monoid::Affine.pending(DType::F32, 2, false);
        question.have.places = (0..devices.len()).map(|n| Interval::new(n, n + 1)).collect();
        question.needs.truncate(1);
        question
    };
    check("8xa100", &[maps(&[0, 1, 2, 3]), maps(&[0, 1, 2, 3])], 1);
    let mut renumbered = maps(&[0, 1, 2, 3]);
    renumbered.have.blocks.swap(1, 2);
    renumbered.have.places.swap(1, 2);
    check("8xa100", &[maps(&[0, 1, 2, 3]), renumbered], 1);
    check("8xa100", &[maps(&[0, 1, 2, 3]), maps(&[0, 5, 2, 4])], 1);
    let mut moved = maps(&[0, 1, 2, 3]);
    moved.have.places.swap(0, 3);
    check("8xa100", &[maps(&[0, 1, 2, 3]), moved], 2);
    // Another size is another question.
    check("8xa100", &[all_reduce(&[0, 1], 0, 4096), all_reduce(&[0, 1], 0, 64)], 2);
}

/// What is asked first decides nothing: a question has one program, whichever of those like it was searched.
#[test]
fn renamed_programs_depend_on_the_question_alone() {
    for (name, a, b) in [("dgx-1v", [0, 1, 2], [5, 4, 7]), ("8xa100", [0, 1, 2], [3, 5, 7])] {
        let machine = Machine::by_name(name).unwrap();
        let questions = [a, b].map(|devices| all_reduce(&devices, 0, 4096));
        let programs = |order: [usize; 2]| {
            let mut answers = Answers::of(&Options::default());
            let mut found = order.map(|n| (n, answers.answer(&questions[n], &machine).unwrap().program.to_string()));
            assert_eq!(answers.searched(), 1, "{name}");
            found.sort();
            found.map(|f| f.1)
        };
        let (first, last) = (programs([0, 1]), programs([1, 0]));
        assert_eq!(first, last, "{name}");
        assert_ne!(first[0], first[1], "{name}: other devices do it");
    }
}
