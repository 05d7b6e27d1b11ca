//! Losses on several devices, and what mistakes in them are told.

use super::{c, constant, value};
use einsummable::session::Session;
use einsummable::{CrossEntropyOptions, DType, Dense, Reduction, Tensor, trace};

/// Case C13: five rows of seven classes, cut anywhere. The classes that are counted are those of all devices, as are
/// the rows that are not ignored. The values are `PyTorch`'s.
#[test]
fn smoothed_cross_entropy_counts_all_classes_and_rows() {
    let scores: Vec<f32> = (0..35).map(|n| ((n * 37) % 23) as f32 / 4.0 - 2.0).collect();
    let x = Tensor::input("x", [5, 7], DType::F32);
    let target = constant(DType::I64, &[5], &[6.0, 0.0, -100.0, 3.0, 3.0]);
    let options = CrossEntropyOptions::new().label_smoothing(0.1);
    let mean = x.cross_entropy(&target, &options);
    let sum = x.cross_entropy(&target, &options.reduction(Reduction::Sum));
    for devices in 1..=8 {
        let session = Session::cpu(devices).expect("it ships");
        let mut compiled = session.compile(&[("mean", &mean), ("sum", &sum)]).expect("it compiles");
        let found = compiled.run([("x", Dense::f32([5, 7], scores.clone()))]).expect("it runs");
        for (name, expected) in [("mean", SMOOTHED), ("sum", 4.0 * SMOOTHED)] {
            let loss = found[name].to_f64()[0];
            assert!((loss - expected).abs() < 1e-5, "{name} on {devices}: {loss}, not {expected}");
        }
    }
}

/// `torch.nn.functional.cross_entropy(scores, target, label_smoothing=0.1)`.
const SMOOTHED: f64 = 2.284272368175;

/// No tensor of ones and zeros stands in the graph: only the scores have an element for every row and class.
#[test]
fn a_target_is_picked_where_it_lives() {
    let scores = Tensor::input("scores", [64, 1000], DType::F32);
    let target = Tensor::input("target", [64], DType::I64);
    let loss = scores.cross_entropy(&target, &CrossEntropyOptions::new().label_smoothing(0.1));
    let graph = trace(&[("loss", &loss)]).expect("well formed").graph;
    for id in graph.ids() {
        let elements: usize = graph.ty(id).shape.iter().product();
        assert!(elements <= 128 || graph.node(id).name == "scores", "{} {}", graph.node(id).name, graph.ty(id));
    }
}

/// Where `PyTorch`'s CPU fails at run time, the loss is no number, whichever device would have held the class.
#[test]
fn a_number_that_is_no_class_gives_nan() {
    let scores = c(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let target = constant(DType::I64, &[3], &[2.0, -1.0, 1.0]);
    let losses = value(&scores.cross_entropy(&target, &CrossEntropyOptions::new().reduction(Reduction::None)));
    let nan: Vec<bool> = losses.to_f64().iter().map(|v| v.is_nan()).collect();
    assert_eq!(nan, [true, true, false]);
}

#[test]
fn mistakes_are_told() {
    let check = |tensor: &Tensor, message: &str| {
        assert_eq!(tensor.check().expect_err(message).to_string(), message);
    };
    let options = CrossEntropyOptions::new();
    let (scores, target) = (Tensor::input("s", [4, 7], DType::F32), Tensor::input("t", [4], DType::I64));
    check(
        &scores.cross_entropy(&Tensor::input("t", [7], DType::I64), &options),
        "cross_entropy of [4, 7], [7]: class numbers must have shape [4], the scores' without axis 1",
    );
    check(
        &scores.cross_entropy(&Tensor::input("t", [4], DType::F32), &options),
        "cross_entropy of [4, 7], [4]: probabilities must have the scores' shape; class numbers are integers",
    );
    check(
        &scores.nll_loss(&Tensor::input("t", [4], DType::F32), &options),
        "nll_loss of f32: targets are class numbers, which are integers; convert with `.to`",
    );
    check(
        &scores.cross_entropy(&target, &options.clone().weight(&c(&[4], &[1.0; 4]))),
        "cross_entropy of [4, 7], [4]: the weight must have shape [7], one for each class on axis 1",
    );
    check(
        &scores.cross_entropy(&target, &options.clone().label_smoothing(1.5)),
        "cross_entropy of [4, 7]: a label smoothing of 1.5, which is not between 0 and 1",
    );
    check(
        &Tensor::input("s", [4, 0], DType::F32).cross_entropy(&target, &options),
        "cross_entropy of [4, 0]: axis 1, of classes, is 0 long",
    );
    check(
        &scores.nll_loss(&target, &options.label_smoothing(0.5)),
        "nll_loss of [4, 7]: smooths no labels; `cross_entropy` does",
    );
    check(
        &scores.mse_loss(&c(&[3], &[0.0; 3]), Reduction::Mean),
        "mse_loss: shapes [4, 7] and [3] do not broadcast: axis 1 from the right is 7 long in one and 3 in the other",
    );
    check(&target.mse_loss(&target, Reduction::Mean), "mse_loss of i64, i64: needs floats; convert with `.to`");
    check(&scores.huber_loss(&scores, 0.0, Reduction::Sum), "huber_loss of [4, 7]: delta is 0, which is not above 0");
    check(
        &Tensor::input("x", [2, 0], DType::F32).norm(f64::INFINITY, &[1], false),
        "norm of [2, 0]: axis 1 is 0 long, and of nothing the inf-norm has no value",
    );
}
