//! What random numbers are like, and that only the seed and the index decide them.

use super::{c, constant, value};
use ein_ir::reference;
use einsummable::session::Session;
use einsummable::{DType, Dense, Tensor, trace};
use std::collections::BTreeMap;

fn numbers(tensor: &Tensor) -> Vec<f64> {
    value(tensor).to_f64()
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n)
}

#[test]
fn uniform_numbers_fill_their_interval() {
    for (dtype, digits) in [(DType::F64, 53), (DType::F32, 24), (DType::F16, 11), (DType::BF16, 8)] {
        let values = numbers(&Tensor::rand(&[100, 1000], dtype, 3));
        let (mean, variance) = moments(&values);
        assert!((mean - 0.5).abs() < 0.004 && (variance - 1.0 / 12.0).abs() < 0.001, "{dtype}: {mean} {variance}");
        let step = 2f64.powi(digits);
        assert!(values.iter().all(|v| (0.0..1.0).contains(v) && (v * step).fract() == 0.0), "{dtype}");
        for low in 0..10 {
            let share = values.iter().filter(|v| (**v * 10.0) as i32 == low).count() as f64 / 1e5;
            assert!((share - 0.1).abs() < 0.005, "{dtype}: {share} from 0.{low}");
        }
    }
    let (mean, variance) = moments(&numbers(&Tensor::uniform(&[50_000], -1.0, 3.0, DType::F32, 4)));
    assert!((mean - 1.0).abs() < 0.02 && (variance - 4.0 / 3.0).abs() < 0.02, "{mean} {variance}");
}

#[test]
fn normal_numbers_have_normal_tails() {
    for dtype in [DType::F64, DType::F32, DType::BF16] {
        let values = numbers(&Tensor::randn(&[200_000], dtype, 5));
        let (mean, variance) = moments(&values);
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.01, "{dtype}: {mean} {variance}");
        let fourth = values.iter().map(|v| v.powi(4)).sum::<f64>() / 2e5;
        assert!((fourth - 3.0).abs() < 0.1, "{dtype}: {fourth}");
        // Shares beyond one, two, three and four deviations.
        for (limit, share, within) in
            [(1.0, 0.3173, 0.005), (2.0, 0.0455, 0.002), (3.0, 0.0027, 5e-4), (4.0, 6e-5, 6e-5)]
        {
            let found = values.iter().filter(|v| v.abs() > limit).count() as f64 / 2e5;
            assert!((found - share).abs() < within, "{dtype}: {found} beyond {limit}");
        }
    }
    let (mean, variance) = moments(&numbers(&Tensor::normal(&[50_000], 2.0, 0.5, DType::F32, 6)));
    assert!((mean - 2.0).abs() < 0.01 && (variance - 0.25).abs() < 0.01, "{mean} {variance}");
}

#[test]
fn neighbours_and_seeds_are_independent() {
    let correlation = |a: &[f64], b: &[f64]| {
        let ((ma, va), (mb, vb)) = (moments(a), moments(b));
        let n = a.len() as f64;
        a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / n / (va * vb).sqrt()
    };
    let a = numbers(&Tensor::randn(&[50_000], DType::F32, 1));
    let b = numbers(&Tensor::randn(&[50_000], DType::F32, 2));
    for (what, r) in [
        ("neighbours", correlation(&a[1..], &a[..a.len() - 1])),
        ("rows", correlation(&a[256..], &a[..a.len() - 256])),
        ("seeds", correlation(&a, &b)),
    ] {
        assert!(r.abs() < 0.02, "{what}: {r}");
    }
}

#[test]
fn integers_truths_and_dropout() {
    let dice = numbers(&Tensor::randint(1, 7, &[60_000], DType::I64, 8));
    for face in 1..=6 {
        let count = dice.iter().filter(|v| **v == f64::from(face)).count();
        assert!(count.abs_diff(10_000) < 400, "{face}: {count}");
    }
    let wide = numbers(&Tensor::randint(i64::MIN / 4, i64::MAX / 4, &[1000], DType::I64, 9));
    assert!(wide.iter().any(|v| *v > 2e18) && wide.iter().any(|v| *v < -2e18));
    let p = c(&[4], &[0.0, 0.25, 0.75, 1.0]);
    let truths = value(&p.expand(&[20_000, 4]).bernoulli(10).mean(&[0], false)).to_f64();
    assert!(truths[0] == 0.0 && truths[3] == 1.0 && (truths[1] - 0.25).abs() < 0.01, "{truths:?}");
    let kept = numbers(&Tensor::full(&[20_000], 3.0, DType::F32).dropout(0.25, 11));
    assert!(kept.iter().all(|v| *v == 0.0 || *v == 4.0));
    assert!((moments(&kept).0 - 3.0).abs() < 0.05);
    assert_eq!(numbers(&c(&[3], &[1.0, f64::NAN, -1.0]).dropout(1.0, 1)), [0.0; 3]);
    assert_eq!(numbers(&c(&[2], &[1.0, -1.5]).dropout(0.0, 1)), [1.0, -1.5]);
}

#[test]
fn waiting_times_orders_and_choices() {
    for dtype in [DType::F64, DType::F32] {
        let times = numbers(&Tensor::exponential(&[100_000], 2.0, dtype, 12));
        let (mean, variance) = moments(&times);
        assert!((mean - 0.5).abs() < 0.01 && (variance - 0.25).abs() < 0.01, "{dtype}: {mean} {variance}");
        assert!(times.iter().all(|t| *t > 0.0 && t.is_finite()));
    }
    let order = numbers(&Tensor::randperm(1000, 13));
    let mut sorted = order.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, (0..1000).map(f64::from).collect::<Vec<_>>());
    assert!(order[..500].iter().filter(|v| **v < 500.0).count().abs_diff(250) < 50);
    // Shares as the weights say, and none of weight 0.
    let weights = c(&[2, 4], &[1.0, 0.0, 3.0, 4.0, 0.0, 5.0, 5.0, 0.0]);
    let drawn = numbers(&weights.multinomial(20_000, true, 14));
    for (row, shares) in [[0.125, 0.0, 0.375, 0.5], [0.0, 0.5, 0.5, 0.0]].iter().enumerate() {
        for (class, share) in shares.iter().enumerate() {
            let found = drawn[row * 20_000..(row + 1) * 20_000].iter().filter(|v| **v == class as f64).count();
            assert!((found as f64 / 20_000.0 - share).abs() < 0.01, "{found} of {class} in row {row}");
        }
    }
    // Without replacement every index is drawn once, and the first as the weights say.
    let rows = c(&[3], &[1.0, 2.0, 5.0]).expand(&[4000, 3]);
    let drawn = value(&rows.multinomial(3, false, 15)).to_f64();
    for row in drawn.chunks(3) {
        assert_eq!(row.iter().sum::<f64>(), 3.0);
        assert_ne!(row[0], row[1]);
    }
    let firsts = drawn.chunks(3).filter(|row| row[0] == 2.0).count();
    assert!((firsts as f64 / 4000.0 - 0.625).abs() < 0.03, "{firsts}");
}

/// Not by a bit, whatever is computed with them: one device's numbers are any number's.
#[test]
fn normal_numbers_are_the_same_on_any_devices() {
    let draw = Tensor::randn(&[37, 5], DType::F32, 21);
    let run = |devices| {
        let session = Session::cpu(devices).expect("it ships");
        let mut compiled = session.compile(&[("draw", &draw)]).expect("it compiles");
        compiled.run::<String>([]).expect("it runs")["draw"].to_le_bytes()
    };
    let one = run(1);
    for devices in 2..=8 {
        assert_eq!(run(devices), one, "on {devices}");
    }
}

/// Case G1: the numbers of seed 7 in shape (6, 4), against the generator written down in another language; on any number
/// of devices, with the seed known while planning or given at run time.
#[test]
fn seed_seven_gives_the_same_on_any_devices() {
    let expected: Vec<f64> = SEED_SEVEN.iter().map(|v| f64::from(*v) / f64::from(1 << 24)).collect();
    let draw = Tensor::rand(&[6, 4], DType::F32, 7);
    assert_eq!(numbers(&draw), expected);
    let seed = Tensor::input("seed", [], DType::I64);
    let later = Tensor::rand(&[6, 4], DType::F32, &seed);
    let traced = trace(&[("later", &later)]).expect("well formed");
    let given = BTreeMap::from([("seed".to_owned(), Dense::i64([], vec![7]))]);
    let found = reference::run(&traced.graph, &given).expect("it runs");
    assert_eq!(found["later"].to_f64(), expected);
    for devices in 1..=8 {
        let session = Session::cpu(devices).expect("it ships");
        let mut compiled = session.compile(&[("draw", &draw), ("flat", &draw.reshape(&[24]))]).expect("it compiles");
        let found = compiled.run::<String>([]).expect("it runs");
        assert_eq!(found["draw"].to_f64(), expected, "on {devices}");
        assert_eq!(found["flat"].to_f64(), expected, "on {devices}");
    }
}

/// The first words of Philox4x32-10 with key (7, 0), counters 0 to 23: their upper 24 bits.
const SEED_SEVEN: [i32; 24] = [
    16015482, 6827662, 101923, 6546454, 4864195, 5680982, 13467161, 4540700, 212982, 9530615, 12716034, 13303129,
    5238010, 49577, 3686336, 378114, 10166709, 9300392, 4243747, 9970442, 3049825, 3307395, 7631133, 7460287,
];

#[test]
fn mistakes_are_told() {
    let check = |tensor: &Tensor, message: &str| {
        assert_eq!(tensor.check().expect_err(message).to_string(), message);
    };
    check(&Tensor::rand(&[2], DType::I64, 1), "rand of i64: needs a type of floats; use `randint` for integers");
    check(
        &Tensor::rand(&[2], DType::F32, 1.5),
        "rand of [2]: the seed must be a whole number or an i64 tensor of rank 0",
    );
    check(
        &Tensor::rand(&[2], DType::F32, c(&[1], &[1.0])),
        "rand of [2]: the seed must be a whole number or an i64 tensor of rank 0, not f32[1]",
    );
    check(
        &Tensor::randint(3, 3, &[2], DType::I64, 1),
        "randint of [2]: from 3 below 3 there is no integer, or more than 2^63",
    );
    check(&c(&[2], &[1.0, 2.0]).dropout(1.5, 1), "dropout of [2]: the probability 1.5 is not between 0 and 1");
    check(&Tensor::exponential(&[2], 0.0, DType::F32, 1), "exponential of [2]: the rate 0 is not above 0");
    check(
        &c(&[2], &[1.0, 2.0]).multinomial(3, false, 1),
        "multinomial of [2]: 3 of 2 indices without replacement; draw from 1 to all of them",
    );
    let ints = constant(DType::I64, &[2], &[0.0, 1.0]);
    check(&ints.dropout(0.5, 1), "dropout of i64: needs floats; convert with `.to`");
    check(&ints.bernoulli(1), "bernoulli of i64: probabilities are floats; convert with `.to`");
    check(
        &Tensor::normal(&[2], 0.0, -1.0, DType::F32, 1),
        "normal of [2]: a standard deviation of -1, which is below 0",
    );
}
