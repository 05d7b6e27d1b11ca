//! What known ways to lay a decoder layer out cost, from first principles: every operation is limited by its arithmetic
//! or by its bytes, every collective by the volume of a ring, one after the other. `bf16`, forward.

/// A device of round figures: operations, memory and link bytes in a second (one way).
const PEAK: f64 = 312e12;
const MEMORY: f64 = 2e12;
const LINK: f64 = 300e9;
/// Bytes of an element.
const WIDTH: f64 = 2.0;

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Features of a token.
    pub features: f64,
    /// Query heads.
    pub heads: f64,
    /// Key and value heads.
    pub kv: f64,
    /// Features inside the feed-forward network.
    pub inner: f64,
    /// Layers.
    pub layers: f64,
    /// Words.
    pub words: f64,
}

/// The models that are compared, with their names among workloads.
pub const MODELS: [(&str, Sizes); 3] = [
    ("llama-7b", Sizes { features: 4096.0, heads: 32.0, kv: 32.0, inner: 11008.0, layers: 32.0, words: 32000.0 }),
    ("llama-65b", Sizes { features: 8192.0, heads: 64.0, kv: 64.0, inner: 22016.0, layers: 80.0, words: 32000.0 }),
    ("llama-70b", Sizes { features: 8192.0, heads: 64.0, kv: 8.0, inner: 28672.0, layers: 80.0, words: 32000.0 }),
];

/// One known way.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Serial seconds of a layer.
    pub seconds: f64,
    /// Bytes of the whole model's weights, and of its keys and values, on a device.
    pub memory: f64,
}

impl Sizes {
    fn kv_features(&self) -> f64 {
        self.kv * self.features / self.heads
    }

    /// Elements of a layer's weights.
    fn weights(&self) -> f64 {
        let Self { features: d, inner, .. } = *self;
        2.0 * d * d + 2.0 * d * self.kv_features() + 3.0 * d * inner
    }

    /// Seconds of one device that has `batch` sequences of `tokens` behind `past` more, one of `heads` parts of the heads
    /// and one of `inner` parts of the feed-forward network: its products, and its attention.
    fn work(&self, batch: f64, (past, tokens): (f64, f64), heads: f64, inner: f64) -> (f64, f64) {
        let (d, rows) = (self.features, batch * tokens);
        // Fewer heads of keys and values than devices: devices repeat whole heads.
        let kv = (self.kv_features() / heads).max(d / self.heads);
        let part = self.inner / inner;
        let products = [(d, d / heads), (d, 2.0 * kv), (d / heads, d), (d, 2.0 * part), (part, d)];
        let products = products.iter().map(|&(k, n)| roofline(2.0 * rows * k * n, rows * k + k * n + rows * n)).sum();
        let seen = tokens * past + tokens * (tokens + 1.0) / 2.0;
        let read = 2.0 * tokens * d / heads + 2.0 * (past + tokens) * kv;
        let attention = roofline(4.0 * batch * seen * d / heads, batch * read);
        (products, attention)
    }

    /// Every known way to lay `batch` sequences of `tokens` behind `past` more out over `devices`.
    pub fn known(&self, batch: usize, (past, tokens): (usize, usize), devices: usize) -> Vec<Known> {
        let (n, b, s, d) = (devices as f64, batch as f64, tokens as f64, self.features);
        let past = past as f64;
        let x = WIDTH * b * s * d;
        let weights = WIDTH * self.weights();
        let whole = weights * self.layers + 2.0 * WIDTH * self.words * d;
        let cache = WIDTH * 2.0 * b * (past + s) * self.kv_features() * self.layers;
        let sum = |(products, attention): (f64, f64)| products + attention;
        // Of a ring over `n`, each device sends this share of what is gathered or scattered.
        let ring = |bytes: f64, n: f64| (n - 1.0) / n * bytes / LINK;
        let mut known = Vec::new();
        let mut add = |name: &str, seconds: f64, weights: f64, cache: f64| {
            known.push(Known { name: name.into(), seconds, memory: weights + cache });
        };
        add("one device", sum(self.work(b, (past, s), 1.0, 1.0)), whole, cache);
        let tensor = sum(self.work(b, (past, s), n, n));
        let share = cache / n.min(self.kv);
        add("tensor", tensor + 4.0 * ring(x, n), whole / n, share);
        if tokens.is_multiple_of(devices) {
            // Causal work is shared fairly: what strips of queries from both ends see is alike.
            let (products, _) = self.work(b, (0.0, s / n), 1.0, 1.0);
            let seen = s * (s + 1.0) / 2.0;
            let bytes = b * (2.0 * s / n * d + 2.0 * s * self.kv_features());
            let work = products + roofline(4.0 * b * seen * d / n, bytes);
            let rows = WIDTH * b * s;
            add("tokens, keys and values gathered", work + ring(rows * 2.0 * self.kv_features(), n), whole, cache / n);
            let swapped = 2.0 * d + 2.0 * self.kv_features().max(n * d / self.heads);
            add("tokens outside, heads inside", work + ring(rows * swapped / n, n), whole, cache / n);
        }
        let most = batch.div_ceil(devices) as f64;
        let data = sum(self.work(most, (past, s), 1.0, 1.0));
        add("data", data, whole, cache / b.min(n));
        if batch >= devices {
            add("data, weights gathered", data + ring(weights, n), whole / n, cache / n);
            for groups in [2, 4].into_iter().filter(|&g| devices.is_multiple_of(g) && g < devices) {
                let inside = (devices / groups) as f64;
                let work = sum(self.work(batch.div_ceil(groups) as f64, (past, s), inside, inside));
                let seconds = work + 4.0 * ring(x / groups as f64, inside);
                let cache = cache / groups as f64 / inside.min(self.kv);
                add(&format!("data {groups} × tensor {inside}"), seconds, whole / inside, cache);
            }
        }
        known
    }

    /// The quickest known way that fits in `memory` bytes.
    pub fn best(&self, batch: usize, tokens: (usize, usize), devices: usize, memory: f64) -> Option<Known> {
        let fits = self.known(batch, tokens, devices).into_iter().filter(|k| k.memory <= memory);
        fits.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

/// Seconds of an operation of so many operations and elements.
fn roofline(operations: f64, elements: f64) -> f64 {
    (operations / PEAK).max(WIDTH * elements / MEMORY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand, and by another program, in milliseconds a layer.
    #[test]
    fn known_ways_cost_what_they_are_known_to() {
        let check = |model: usize, batch: usize, tokens: usize, name: &str, ms: f64, gb: f64| {
            let known = MODELS[model].1.known(batch, (0, tokens), 8);
            let one = known.iter().find(|k| k.name == name).unwrap_or_else(|| panic!("{name} of {known:?}"));
            assert!((one.seconds * 1e3 / ms - 1.0).abs() < 1e-3, "{name}: {} ms, not {ms}", one.seconds * 1e3);
            assert!((one.memory / 1e9 - gb).abs() < 0.06, "{name}: {} GB, not {gb}", one.memory / 1e9);
        };
        let cache = 2.0 * 2.0 * 4096.0 * 4096.0 * 32.0 / 1e9;
        check(0, 1, 4096, "one device", 5.754, 13.476 + cache);
        check(0, 1, 4096, "tensor", 1.111, (13.476 + cache) / 8.0);
        check(0, 1, 4096, "tokens, keys and values gathered", 0.915, 13.476 + cache / 8.0);
        check(0, 1, 4096, "tokens outside, heads inside", 0.7682, 13.476 + cache / 8.0);
        check(0, 8, 1024, "data", 1.356, 13.476 + 2.0 * cache / 8.0);
        check(0, 8, 1024, "data, weights gathered", 2.536, (13.476 + 2.0 * cache) / 8.0);
        check(0, 8, 1024, "data 2 × tensor 4", 1.692, (13.476 + 2.0 * cache / 2.0) / 4.0);
        check(0, 1, 1024, "tokens outside, heads inside", 0.233, 13.476 + cache / 32.0);
        check(2, 8, 1024, "data 4 × tensor 2", 5.895, 138.0 / 2.0 + 2.684 / 8.0);
        let step = MODELS[0].1.best(8, (4096, 1), 8, 80e9).expect("it fits");
        assert_eq!(step.name, "tensor");
        assert!((step.seconds * 1e3 / 0.05985 - 1.0).abs() < 1e-3, "{step:?}");
    }

    #[test]
    fn what_does_not_fit_is_not_the_best() {
        let best = |memory: f64| MODELS[2].1.best(1, (0, 4096), 8, memory).map(|k| k.name);
        assert_eq!(best(200e9).unwrap(), "tokens, keys and values gathered");
        assert_eq!(best(80e9).unwrap(), "tensor");
        assert_eq!(best(10e9), None);
    }
}
