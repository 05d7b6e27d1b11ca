//! What kernels of attention are told at compile time: structs of CUDA C++.

use super::Problem;
use crate::generate::{Call, types};
use ein_ir::dtype::DType;
use std::fmt::Write;

impl Problem<'_> {
    /// The struct of sizes and operands.
    pub(super) fn constants(&self, unit: f64) -> String {
        let a = self.attention;
        let (element, real) = (types::stored(a.dtype), self.real());
        let mut text = String::from("struct NAME_of {\n");
        let mut int = |name: &str, v: usize| {
            let _ = writeln!(text, "    static constexpr int {name} = {v};");
        };
        int("BATCH", self.batch);
        int("PAIRS", self.pairs);
        int("GROUP", self.group);
        int("SHARE", a.group());
        int("QUERIES", self.queries);
        int("KEYS", self.keys);
        int("D", self.d);
        int("E", self.e);
        int("PACKED", a.packed.unwrap_or(0));
        let none = [0; 4];
        let own = self.own.map_or([none; 2], |own| own.map(|o| o.steps));
        let mut steps = |names: [&str; 3], steps: [i64; 4]| {
            for (name, step) in names.iter().zip(steps) {
                let _ = writeln!(text, "    static constexpr long long {name} = {step};");
            }
        };
        steps(["Q_B", "Q_H", "Q_S"], self.q.steps);
        steps(["K_B", "K_H", "K_T"], self.k.steps);
        steps(["V_B", "V_H", "V_T"], self.v.steps);
        steps(["OK_B", "OK_H", "OK_S"], own[0]);
        steps(["OV_B", "OV_H", "OV_S"], own[1]);
        let mask = self.mask.map_or(none, |m| m.steps);
        steps(["M_B", "M_H", "M_S"], mask);
        // Along which axes of their descriptions keys, heads and batches of operands go.
        let own_axes = self.own.map_or([[0; 3]; 2], |own| own.map(|o| o.axes()));
        for (name, axes) in [("K", self.k.axes()), ("V", self.v.axes()), ("OK", own_axes[0]), ("OV", own_axes[1])] {
            let [batch, head, key] = axes;
            let _ = writeln!(
                text,
                "    static constexpr int {name}_KEY = {key}, {name}_HEAD = {head}, {name}_BATCH = {batch};"
            );
        }
        let window = a.window.unwrap_or(0);
        let _ = writeln!(text, "    static constexpr long long M_T = {}, WINDOW = {window};", mask[3]);
        let (causal, masked, owned) = (a.causal, self.mask.is_some(), self.own.is_some());
        let words = self.words();
        let _ = writeln!(
            text,
            "    static constexpr bool CAUSAL = {causal}, MASK = {masked}, OWN = {owned}, WORDS = {words};"
        );
        let of = if real == "double" { DType::F64 } else { DType::F32 };
        let number = |v: f64| types::float(of, v);
        let _ = writeln!(text, "    static constexpr {real} UNIT = {};", number(unit));
        let _ = writeln!(text, "    typedef {element} element;\n    typedef {real} real;");
        let load = types::load(a.dtype, "v");
        let _ = writeln!(text, "    EIN_FN real load(element v) {{ return {load}; }}");
        let scored = match a.softcap.map(f64::from_bits) {
            None => format!("v * {}", number(a.scale() * unit)),
            Some(cap) => {
                let tanh = if real == "double" { "tanh" } else { "tanhf" };
                format!("{} * {tanh}(v * {} / {})", number(cap * unit), number(a.scale()), number(cap))
            }
        };
        let _ = writeln!(text, "    EIN_FN real scored(real v) {{ return {scored}; }}");
        let offset = types::stored(self.offsets.map_or(DType::I64, |o| o.1));
        let _ = writeln!(
            text,
            "    const element *q, *k, *v, *mask, *own_k, *own_v;
    const unsigned char* offsets;
    long long diagonal, phase, query, key;
    __device__ __forceinline__ long long offset(int n) const {{ return ((const {offset}*)offsets)[n]; }}
}};"
        );
        text
    }

    /// The struct that stores results: a value by its row and place, and the row's maximum and sum.
    pub(super) fn results(&self, call: &Call<'_>) -> String {
        let (real, e) = (self.real(), self.e);
        let of = call.result.dtype(if call.finish { 0 } else { 2 });
        let element = types::stored(of);
        let of_value = |v: &str| if call.finish { format!("(total == 0 ? 0 : {v} / total)") } else { v.to_owned() };
        let store = types::store(of, &of_value("v"));
        let rows = self.batch * self.pairs * self.group * self.queries;
        let place = if call.result.order.is_some() {
            // Counted in 32 bits where that is enough.
            let number = if rows < 1 << 31 { "unsigned" } else { "long long" };
            let (steps, heads, queries) = (call.result.steps(), self.pairs * self.group, self.queries);
            format!(
                "const {number} n = ({number})row, head = n / {queries};
        return (long long)(head / {heads}) * {} + (long long)(head % {heads}) * {} + (long long)(n % {queries}) * {};",
                steps[0], steps[1], steps[2]
            )
        } else {
            format!("return row * {e};")
        };
        let two = if matches!(of, DType::BF16 | DType::F16) && e.is_multiple_of(2) {
            let tag = if of == DType::BF16 { "ein_BF16" } else { "ein_F16" };
            let (a, b) = (of_value("v"), of_value("w"));
            format!("((unsigned*)values)[(place(row) + e) / 2] = ein_pack<{tag}>({a}, {b});")
        } else if !e.is_multiple_of(2) {
            format!("value(row, e, v, total);\n        if (e + 1 < {e}) value(row, e + 1, w, total);")
        } else {
            "value(row, e, v, total);\n        value(row, e + 1, w, total);".into()
        };
        let state = if call.finish {
            String::new()
        } else {
            format!("(({real}*)tops)[row] = top;\n        (({real}*)sums)[row] = sum;")
        };
        format!(
            "struct NAME_out {{
    unsigned char *values, *tops, *sums;
    // Where the values of a row of the block begin.
    EIN_FN long long place(long long row) {{
        {place}
    }}
    __device__ __forceinline__ void value(long long row, int e, {real} v, {real} total) const {{
        (({element}*)values)[place(row) + e] = {store};
    }}
    __device__ __forceinline__ void two(long long row, int e, {real} v, {real} w, {real} total) const {{
        {two}
    }}
    __device__ __forceinline__ void state(long long row, {real} top, {real} sum) const {{
        {state}
    }}
}};
"
        )
    }
}
