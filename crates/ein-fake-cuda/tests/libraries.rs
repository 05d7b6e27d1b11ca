//! The library of products and that of management, through the bindings that the device uses.

mod api_ffi;

use api_ffi as api;
use cudarc::cublaslt::{CudaBlasLT, MatmulConfig};
use cudarc::driver::{CudaContext, CudaSlice};
use ein_fake_cuda::{FakeMachine, install};
use nvml_wrapper::Nvml;

/// The transposed product of row-major matrices, which is what the library does.
#[test]
fn products_of_small_integers_are_exact() {
    let fake = install(&FakeMachine::new(1)).unwrap();
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let library = CudaBlasLT::new(stream.clone()).unwrap();
    for (m, n, k, batch) in [(1, 1, 1, 1), (3, 5, 7, 2), (17, 1, 4, 1), (2, 31, 1, 3)] {
        for (transa, transb) in [(false, false), (true, false), (false, true), (true, true)] {
            let value = |seed: usize, i: usize| ((i * 7 + seed * 5) % 11) as f32 - 5.0;
            let a: Vec<f32> = (0..batch * m * k).map(|i| value(1, i)).collect();
            let b: Vec<f32> = (0..batch * k * n).map(|i| value(2, i)).collect();
            let c: Vec<f32> = (0..batch * m * n).map(|i| value(3, i)).collect();
            let up = |v: &[f32]| stream.clone_htod(v).unwrap();
            let (da, db, mut dc): (CudaSlice<f32>, _, _) = (up(&a), up(&b), up(&c));
            let config = MatmulConfig {
                transa,
                transb,
                transc: false,
                m: m as u64,
                n: n as u64,
                k: k as u64,
                alpha: 2.0,
                lda: if transa { k } else { m } as i64,
                ldb: if transb { n } else { k } as i64,
                beta: -1.0,
                ldc: m as i64,
                stride_a: Some((m * k) as i64),
                stride_b: Some((k * n) as i64),
                stride_c: Some((m * n) as i64),
                stride_bias: None,
                batch_size: Some(batch as i32),
            };
            api::matmul(&library, config, &da, &db, &mut dc).unwrap();
            let got = stream.clone_dtoh(&dc).unwrap();
            for p in 0..batch {
                for i in 0..m {
                    for j in 0..n {
                        let left = |l: usize| a[p * m * k + if transa { i * k + l } else { l * m + i }];
                        let right = |l: usize| b[p * k * n + if transb { l * n + j } else { j * k + l }];
                        let at = p * m * n + j * m + i;
                        let want = 2.0 * (0..k).map(|l| left(l) * right(l)).sum::<f32>() - c[at];
                        assert_eq!(got[at], want, "{m} {n} {k} {batch} {transa} {transb}: {p} {i} {j}");
                    }
                }
            }
        }
    }
    assert_eq!(fake.report(), None);
    assert_eq!(fake.counters().products, 16);
}

/// `gelu(A B + C + bias)`, and what the real library refuses: a vector that does not begin at a multiple of 16 bytes.
#[test]
fn epilogues_are_those_of_the_library() {
    let fake = install(&FakeMachine::new(1)).unwrap();
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let library = CudaBlasLT::new(stream.clone()).unwrap();
    let (m, n, k) = (5, 3, 4);
    let value = |seed: usize, i: usize| ((i * 7 + seed * 5) % 11) as f32 / 8.0 - 0.5;
    let [a, b, c, v] = [(1, m * k), (2, k * n), (3, m * n), (4, m + 4)]
        .map(|(seed, count)| (0..count).map(|i| value(seed, i)).collect::<Vec<f32>>());
    let config = MatmulConfig {
        transa: false,
        transb: false,
        transc: false,
        m: m as u64,
        n: n as u64,
        k: k as u64,
        alpha: 1.0,
        lda: m as i64,
        ldb: k as i64,
        beta: 1.0,
        ldc: m as i64,
        stride_a: None,
        stride_b: None,
        stride_c: None,
        stride_bias: None,
        batch_size: None,
    };
    let up = |v: &[f32]| stream.clone_htod(v).unwrap();
    let (da, db, dv): (CudaSlice<f32>, CudaSlice<f32>, CudaSlice<f32>) = (up(&a), up(&b), up(&v));
    for (first, gelu) in [(0, false), (0, true), (4, true), (1, false)] {
        let mut dc: CudaSlice<f32> = up(&c);
        let bias = dv.slice(first..first + m);
        let given = [&da.slice(..), &db.slice(..), &bias];
        let done = api::matmul_then(&library, config, given, &mut dc, gelu);
        assert_eq!(done.is_ok(), first % 4 == 0, "a vector from {first} on: {done:?}");
        let got = stream.clone_dtoh(&dc).unwrap();
        for at in 0..m * n {
            let (i, j) = (at % m, at / m);
            let sum: f32 = (0..k).map(|l| a[l * m + i] * b[j * k + l]).sum();
            let sum = f64::from(sum + c[at] + v[first + i]);
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let activated = 0.5 * sum * (1.0 + (root * (sum + 0.044_715 * sum * sum * sum)).tanh());
            let wanted = if gelu { activated } else { sum };
            let want = if done.is_err() { f64::from(c[at]) } else { wanted };
            assert!((f64::from(got[at]) - want).abs() < 1e-5, "{first} {gelu} at {at}: {} for {want}", got[at]);
        }
    }
    let told = fake.report().expect("one vector was refused");
    assert!(told.contains("it begins at a multiple of 16 bytes"), "{told}");
}

#[test]
fn management_tells_of_the_same_gpus() {
    let _fake = install(&FakeMachine::new(3).apart(0, 2)).unwrap();
    api::begin().unwrap();
    let nvml = Nvml::init().unwrap();
    assert_eq!(nvml.device_count().unwrap(), 3);
    let links: Vec<usize> = (0..3)
        .map(|g| {
            let device = nvml.device_by_index(g).unwrap();
            assert_eq!(device.pci_info().unwrap().bus, g + 1);
            assert_eq!(device.memory_info().unwrap().total, 1 << 30);
            (0..18).filter(|&n| device.link_wrapper_for(n).is_active().unwrap_or(false)).count()
        })
        .collect();
    assert_eq!(links, [2, 4, 2]);
}
