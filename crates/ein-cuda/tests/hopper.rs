//! What only Hopper has is used there and where it is asked for, on fake GPUs.

#[path = "../../ein-run/tests/common/mod.rs"]
mod common;
mod support;

use common::Build;
use ein_cuda::devices::{Devices, Seat, Settings};
use ein_cuda::nodes::Work;
use ein_fake_cuda::{FakeMachine, install};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Attention, Kernel};
use ein_ir::op::{InputKind, Op};
use ein_ir::reference;
use ein_ir::region::Region;
use ein_run::Executor;
use std::collections::BTreeMap;
use support::Rng;

#[test]
fn attention_by_wgmma_is_for_hopper_and_those_who_ask() {
    let (dtype, shape) = (DType::BF16, [1, 2, 70, 16]);
    let a = Attention { causal: true, ..Attention::new([1, 2, 2, 70, 70, 16, 16], dtype) };
    let (op, ty) = (Op::Kernel(Kernel::Attention(a)), TensorType::new(dtype, shape.to_vec()));
    let whole = Region::whole(&shape);
    let mut rng = Rng::new(71);
    let tensors = [(); 3].map(|()| rng.dense(dtype, &shape, false));
    let space = op.spec(&[dtype; 3]).expect("it computes").space();
    let given = tensors.each_ref().map(|data| Some(reference::Operand { data, region: whole.clone() }));
    let form = ein_ir::monoid::Form::finished(dtype, 4);
    let expected = reference::block(&op, &space, &given, &form, true).expect("the reference agrees").remove(0);
    for (capability, wgmma, kind) in [
        ((9, 0), true, "attention_groups"),
        ((9, 0), false, "attention_tiles"),
        ((8, 0), true, "attention_tiles"),
        ((10, 0), true, "attention_tiles"),
    ] {
        let mut b = Build::new(1);
        let op = b.op("attention", op.clone(), &[ty.clone(), ty.clone(), ty.clone()], ty.clone());
        let feeds = ["q", "k", "v"].map(|name| {
            let external = b.external(name, InputKind::Input, dtype, &shape);
            b.feed(0, external, whole.clone())
        });
        let row = b.kernel(0, op, space.clone(), true, &feeds);
        b.output("y", dtype, &shape, &[row]);
        let fake = install(&FakeMachine { capability, ..FakeMachine::new(1) }).expect("g++ is there");
        let settings = Settings { wgmma, ..Settings::default() };
        let mut kinds = Vec::new();
        let made = Executor::on(b.finish(), |graph| {
            let devices = Devices::new(graph, &BTreeMap::new(), &[Seat::Gpu(0)], settings)?;
            let kind = |work: &Work| {
                if let Work::Kernel { kernel, .. } = work { Some(kernel.kind().to_owned()) } else { None }
            };
            kinds = devices.nodes().all.iter().filter_map(|node| kind(&node.work)).collect();
            Ok(Box::new(devices))
        });
        let mut executor = made.unwrap_or_else(|e| panic!("{capability:?}: {e}: {:?}", fake.report()));
        let inputs: BTreeMap<String, Dense> =
            ["q", "k", "v"].map(str::to_owned).into_iter().zip(tensors.clone()).collect();
        let run = executor.run(&inputs).unwrap_or_else(|e| panic!("{capability:?}: {e}: {:?}", fake.report()));
        drop(executor);
        assert_eq!(kinds, [kind], "{capability:?} {wgmma}");
        let apart = run.outputs["y"].max_abs_difference(&expected);
        assert!(apart <= 0.025, "{capability:?} {wgmma}: {apart:e} off");
        assert_eq!(fake.report(), None, "{capability:?}");
    }
}
