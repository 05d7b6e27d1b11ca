//! What is compared: computations of different kinds and sizes, on 1 to 8 virtual devices, by plans of every kind.

use ein_plan::options::Strategy;

/// Which plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// The cheapest that the search finds.
    Searched,
    /// The one that moves least.
    FewestBytes,
    /// A fixed strategy.
    Fixed(Strategy),
}

/// A computation, a number of devices, a plan.
#[derive(Clone, Debug)]
pub struct Case {
    what: String,
    /// The graph in text form.
    pub graph: String,
    /// Virtual devices.
    pub devices: usize,
    /// Which plan.
    pub asked: Asked,
}

impl Case {
    /// What the table calls it.
    pub fn name(&self) -> String {
        let asked = match self.asked {
            Asked::Searched => "searched".into(),
            Asked::FewestBytes => "fewest bytes".into(),
            Asked::Fixed(strategy) => strategy.name(),
        };
        format!("{}, {asked}, {}", self.what, self.devices)
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    use Asked::{FewestBytes, Fixed, Searched};
    let mut cases = Vec::new();
    let mut add = |(what, graph): (String, String), asked: Asked, devices: &[usize]| {
        cases.extend(devices.iter().map(|&devices| Case { what: what.clone(), graph: graph.clone(), devices, asked }));
    };
    add(product(256, 256, 256), Searched, &[1, 2]);
    add(product(512, 512, 512), Searched, &[1, 2, 3, 8]);
    add(product(1024, 256, 512), Searched, &[2, 5]);
    add(product(1024, 1024, 1024), Searched, &[2, 8]);
    add(product(768, 768, 768), FewestBytes, &[2, 4, 7]);
    add(layers(256, 512, 1024), Searched, &[1, 2, 6]);
    add(layers(256, 512, 1024), Fixed(Strategy::Tensor), &[2, 4, 8]);
    add(layers(512, 256, 1024), Fixed(Strategy::Data), &[2, 4]);
    add(layers(256, 512, 1024), Fixed(Strategy::FullyShardedData), &[4]);
    add(attention(8, 512, 64), Searched, &[1, 2, 4, 8]);
    add(attention(4, 1024, 64), Searched, &[2, 3]);
    add(block(128, 256, 8, 688), Searched, &[1, 2, 4, 8]);
    add(block(128, 256, 8, 688), Fixed(Strategy::Tensor), &[2, 4]);
    add(block(512, 512, 8, 1376), Searched, &[1, 2, 3, 8]);
    add(block(512, 512, 8, 1376), Fixed(Strategy::Tensor), &[2, 4, 8]);
    add(block(512, 512, 8, 1376), Fixed(Strategy::TensorSequence), &[4]);
    add(block(512, 512, 8, 1376), Fixed(Strategy::Ulysses), &[4]);
    add(convolution(4, 32, 34), Searched, &[1, 2, 4]);
    add(convolution(1, 64, 58), Searched, &[2, 8]);
    add(softmax(1024, 2048), Searched, &[1, 2, 4]);
    add(norm(2048, 1024), Searched, &[1, 3, 8]);
    add(columns(4096, 1024), Searched, &[2, 8]);
    cases
}

fn product(m: usize, k: usize, n: usize) -> (String, String) {
    let graph = format!("x: input f32[{m}, {k}]\nw: param f32[{k}, {n}]\ny = einsum \"ik,kj->ij\" x w\nreturn y\n");
    (format!("product {m}×{k}×{n}"), graph)
}

/// Two linear layers with a relu between them.
fn layers(batch: usize, wide: usize, hidden: usize) -> (String, String) {
    let graph = format!(
        "x: input f32[{batch}, {wide}]\nw: param f32[{wide}, {hidden}]\nv: param f32[{hidden}, {wide}]\n\
         h = einsum \"bi,ih->bh\" x w\na = map max(h, 0.0)\ny = einsum \"bh,ho->bo\" a v\nreturn y\n"
    );
    (format!("two layers {batch}×{wide}×{hidden}"), graph)
}

fn attention(heads: usize, tokens: usize, size: usize) -> (String, String) {
    let ty = format!("input f32[1, {heads}, {tokens}, {size}]");
    let graph = format!("q: {ty}\nk: {ty}\nv: {ty}\ny = attention(q, k, v) causal\nreturn y\n");
    (format!("attention {heads}×{tokens}×{size}"), graph)
}

/// A decoder layer: norm, attention, norm, gated feed-forward.
fn block(tokens: usize, wide: usize, heads: usize, hidden: usize) -> (String, String) {
    let size = wide / heads;
    let norm = |x: &str, n: usize| {
        format!(
            "s{n} = einsum f32 (i | k) sum {x}[i, k] * {x}[i, k]\n\
             n{n} = einsum f32 (i, k) map {x}[i, k] * rsqrt(s{n}[i] / {wide}.0 + 1e-5) * g{n}[k]\n"
        )
    };
    let (first, second) = (norm("x", 1), norm("r", 2));
    let graph = format!(
        "x: input f32[{tokens}, {wide}]\ng1: param f32[{wide}]\ng2: param f32[{wide}]\n\
         wq: param f32[{wide}, {heads}, {size}]\nwk: param f32[{wide}, {heads}, {size}]\n\
         wv: param f32[{wide}, {heads}, {size}]\nwo: param f32[{heads}, {size}, {wide}]\n\
         wg: param f32[{wide}, {hidden}]\nwu: param f32[{wide}, {hidden}]\nwd: param f32[{hidden}, {wide}]\n\
         {first}\
         q = einsum \"td,dhe->hte\" n1 wq\nk = einsum \"td,dhe->hte\" n1 wk\nv = einsum \"td,dhe->hte\" n1 wv\n\
         q4 = reshape q [1, {heads}, {tokens}, {size}]\nk4 = reshape k [1, {heads}, {tokens}, {size}]\n\
         v4 = reshape v [1, {heads}, {tokens}, {size}]\na4 = attention(q4, k4, v4) causal\n\
         a = reshape a4 [{heads}, {tokens}, {size}]\no = einsum \"hte,hed->td\" a wo\nr = map x + o\n\
         {second}\
         gate = einsum \"td,df->tf\" n2 wg\nup = einsum \"td,df->tf\" n2 wu\n\
         act = map gate / (1.0 + exp(-gate)) * up\ndown = einsum \"tf,fd->td\" act wd\ny = map r + down\nreturn y\n"
    );
    (format!("decoder layer {tokens}×{wide}"), graph)
}

fn convolution(batch: usize, channels: usize, side: usize) -> (String, String) {
    let out = side - 2;
    let graph = format!(
        "x: input f32[{batch}, {channels}, {side}, {side}]\nw: param f32[{channels}, {channels}, 3, 3]\n\
         y = einsum f32 (n: {batch}, o: {channels}, h: {out}, v: {out} | c: {channels}, i: 3, j: 3) \
         sum x[n, c, h + i, v + j] * w[o, c, i, j]\nreturn y\n"
    );
    (format!("convolution {batch}×{channels}×{side}²"), graph)
}

fn softmax(rows: usize, columns: usize) -> (String, String) {
    let graph = format!(
        "x: input f32[{rows}, {columns}]\nt = einsum f32 (i | k) softmax x[i, k]\n\
         y = einsum f32 (i, k) map exp(x[i, k] - t[i, 0]) / t[i, 1]\nreturn y\n"
    );
    (format!("softmax {rows}×{columns}"), graph)
}

fn norm(rows: usize, columns: usize) -> (String, String) {
    let graph = format!(
        "x: input f32[{rows}, {columns}]\ng: param f32[{columns}]\nt = einsum f32 (i | k) moments x[i, k]\n\
         y = einsum f32 (i, k) map (x[i, k] - t[i, 0]) * rsqrt(t[i, 1] + 1e-5) * g[k]\nreturn y\n"
    );
    (format!("norm {rows}×{columns}"), graph)
}

/// Sums of columns, which leave partials where rows are cut.
fn columns(rows: usize, columns: usize) -> (String, String) {
    let graph = format!("x: input f32[{rows}, {columns}]\ny = einsum f32 (k | i) sum x[i, k]\nreturn y\n");
    (format!("column sums {rows}×{columns}"), graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_graphs_of_distinct_names() {
        let cases = all();
        assert!(cases.len() >= 30, "{}", cases.len());
        let names: std::collections::BTreeSet<String> = cases.iter().map(Case::name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            let graph = ein_ir::text::parse(&case.graph).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
            assert_eq!(graph.outputs().len(), 1, "{}", case.name());
        }
        for devices in 1..=8 {
            assert!(cases.iter().any(|c| c.devices == devices), "none on {devices} devices");
        }
    }
}
