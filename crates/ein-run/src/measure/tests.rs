//! The arithmetic of fits, the file, and one run that asks for nothing of its times.

use super::*;
use ein_task::rates::ShapeRate;

#[test]
fn lines_are_fitted() {
    let check = |points: &[(f64, f64)], start: f64, slope: f64, tolerance: f64| {
        let line = fit(points);
        let near = |found: f64, expected: f64| (found - expected).abs() <= tolerance * expected.abs() + 1e-15;
        assert!(near(line.start, start) && near(line.slope, slope), "{line:?} is not {start} + {slope} x");
    };
    let at = |start: f64, slope: f64, off: f64| {
        let sizes = [1e3, 1e4, 1e5, 1e6, 1e7];
        let sign = |n: usize| if n.is_multiple_of(2) { 1.0 + off } else { 1.0 - off };
        sizes.iter().enumerate().map(|(n, &x)| (x, (start + slope * x) * sign(n))).collect::<Vec<_>>()
    };
    check(&at(5e-6, 1e-10, 0.0), 5e-6, 1e-10, 1e-9);
    check(&at(0.0, 2e-10, 0.0), 0.0, 2e-10, 1e-9);
    // Errors of 5 % either way shift the line by about as much.
    check(&at(5e-6, 1e-10, 0.05), 5e-6, 1e-10, 0.06);
    // A line that would start below nothing starts at nothing, and then is the best of those.
    check(&[(1.0, 1.0), (2.0, 4.0)], 0.0, 1.2, 1e-9);
    assert_eq!(fit(&[(1.0, 3.0), (2.0, 5.0)]).at(4.0).round(), 9.0);
    assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0]), median(&[])), (2.0, 2.5, 0.0));
}

fn figures() -> Figures {
    Figures {
        processors: 2,
        memory: Bytes(10 << 30),
        flops: vec![(DType::F64, 71.234_567e9), (DType::F32, 1.0 / 3.0 * 1e12)],
        under_softmax: 21.0e9,
        products: Products {
            shapes: vec![ShapeRate { dtype: DType::F32, side: 32.0, points: 1_048_576.0, rate: 123.456e9 }],
            windows: Some(9.876_54e9),
        },
        turns: Turns { alone: 1.234_56, crowded: 0.9 },
        elements: 0.432_1e9,
        memory_bandwidth: 12.345_678e9,
        launch: Seconds(1.234_567e-6),
        copy_bandwidth: 2.718_281_8e9,
        issue: Seconds(0.0),
        latency: Seconds(7e-6 / 3.0),
    }
}

#[test]
fn the_file_is_a_machine() {
    for devices in [1, 3, 8, 128] {
        let text = figures().file(devices, UNIX_EPOCH + std::time::Duration::from_hours(264_384)).unwrap();
        let machine = Machine::parse(&text).unwrap_or_else(|e| panic!("{e} in\n{text}"));
        assert_eq!(machine.len(), devices);
        assert_eq!(machine.turns, Turns { alone: 1.235, crowded: 0.9 });
        assert_eq!(machine.devices[0].products.windows, Some(9.877e9));
        assert_eq!(machine.devices[0].products.shapes[0], ShapeRate { rate: 123.5e9, ..figures().products.shapes[0] });
        assert_eq!((machine.processors, machine.devices[0].rate(DType::F32)), (Some(2), 333.3e9));
        assert_eq!((machine.devices[0].rate(DType::BF16), machine.devices[0].memory_bandwidth), (333.3e9, 12.35e9));
        assert_eq!(machine.devices[0].memory.0, (((10_u64 << 30) / devices as u64) >> 20) << 20);
        if let Some(link) = machine.links.first() {
            assert_eq!((machine.bandwidth(link), link.latency.0), (2.718e9, 2.333e-6));
        }
        // The same figures and moment, the same text; and its machine writes what stands below the comment.
        assert!(text.starts_with("# Measured by `ein machine measure` on 2000-02-29 00:00 UTC"), "{text}");
        let body: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(machine.to_text().lines().collect::<Vec<_>>(), body);
    }
    assert!(matches!(figures().file(0, UNIX_EPOCH), Err(MeasureError::Devices { asked: 0 })));
    assert!(matches!(measure(129, 1), Err(MeasureError::Devices { asked: 129 })));
    let still = Figures { memory_bandwidth: f64::INFINITY, ..figures() };
    assert!(matches!(still.file(2, UNIX_EPOCH), Err(MeasureError::Machine(_))));
}

#[test]
fn figures_of_several_rounds_are_their_medians() {
    let slower = |times: f64| {
        let mut f = figures();
        f.flops.iter_mut().for_each(|r| r.1 *= times);
        f.products.shapes[0].rate *= times;
        f.turns.crowded *= times;
        f.latency.0 *= times;
        f
    };
    assert_eq!(Figures::medians(&slower(0.5), &[slower(2.0), figures()]), figures());
    assert_eq!(Figures::medians(&figures(), &[]), figures());
    let two = Figures::medians(&figures(), &[slower(0.5)]);
    assert_eq!((two.turns.crowded, two.turns.alone), (0.75 * 0.9, figures().turns.alone));
}

#[test]
fn dates_are_those_of_the_calendar() {
    let check = |seconds: u64, expected: &str| {
        assert_eq!(date(UNIX_EPOCH + std::time::Duration::from_secs(seconds)), expected);
    };
    check(0, "1970-01-01 00:00 UTC");
    check(951_782_399, "2000-02-28 23:59 UTC");
    check(1_709_251_199, "2024-02-29 23:59 UTC");
    check(4_102_444_800, "2100-01-01 00:00 UTC");
}
