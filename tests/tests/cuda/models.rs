//! Models of Hugging Face folders, from the machine that is found to the numbers that come out.

use ein_cuda::gpus::{Gpus, GpusError, Selection};
use ein_fake_cuda::{Check, FakeMachine, install};
use ein_tests::fixtures::fixture;
use einsummable::Session;
use einsummable::generate::Generator;
use einsummable::models::Folder;

#[test]
fn a_model_continues_as_on_the_cpu() {
    let folder = Folder::open(&fixture("llama-tiny/model")).unwrap_or_else(|e| panic!("{e}"));
    let config = folder.config.causal_lm().expect("a model that continues");
    let prompt = [1, 5, 9, 2];
    let continued = |session: Session| {
        let generator = Generator::new(&session, config, &folder.weights, 6);
        generator.and_then(|mut g| g.greedy(&prompt, 3)).unwrap_or_else(|e| panic!("{e}"))
    };
    let expected = continued(Session::cpu(1).expect("a machine"));
    for list in [vec![0], vec![0, 0, 1]] {
        let fake = install(&FakeMachine::new(2).check(Check::Bounds)).expect("g++ is there");
        let gpus = Gpus::new(Selection::These(&list)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(gpus.machine.workers().len(), list.len());
        assert_eq!(continued(Session::on_gpus(gpus)), expected, "{list:?}: {:?}", fake.report());
    }
}

#[test]
fn gpus_that_are_not_there_are_said() {
    let _fake = install(&FakeMachine::new(2)).expect("g++ is there");
    assert_eq!(Gpus::new(Selection::These(&[0, 2])), Err(GpusError::Unknown { ordinal: 2, count: 2 }));
    assert_eq!(Gpus::new(Selection::All).map(|g| g.machine.workers().len()), Ok(2));
}
