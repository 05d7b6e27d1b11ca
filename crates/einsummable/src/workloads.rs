//! Named computations for planning and benchmarks, from a line of text.

use crate::models::{Decoder, DecoderConfig, DecoderInputs, DecoderLayer};
use crate::nn::rotary::{Positions, Rotary};
use crate::nn::{Linear, Module, ReLU, Scope, Sequential};
use crate::tensor::attention::AttentionOptions;
use crate::tensor::{Tensor, TensorError};
use crate::trace::trace;
use ein_ir::dtype::DType;
use ein_ir::graph::Graph;

/// Why a workload's line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("there is no workload `{name}`; there are {}", FORMS.map(|f| f.1).join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The arguments do not fit.
    #[error("workload `{text}`: {reason}; expected: {expected}")]
    Arguments {
        /// The whole line.
        text: String,
        /// What is wrong.
        reason: String,
        /// The form that works.
        expected: &'static str,
    },
    /// A form that is planned but not built.
    #[error("workload `{text}`: {what} is not there yet; `llama-…:BATCHxSEQ` plans whole sequences of one length")]
    NotYet {
        /// The whole line.
        text: String,
        /// What is missing.
        what: &'static str,
    },
    /// The sizes make no computation.
    #[error("workload `{text}`: {source}")]
    Tensor {
        /// The whole line.
        text: String,
        /// Why.
        source: TensorError,
    },
}

/// One kind of workload: its name, the form of its arguments, and what it is.
pub const FORMS: [(&str, &str, &str); 14] = [
    ("gemm", "gemm:M,N,K[,DTYPE]", "one product, both operands inputs"),
    ("ffnn", "ffnn:IN,HIDDEN,OUT,BATCH[,DTYPE]", "two linear layers with relu between them"),
    ("chain", "chain:bushy|left,N[,DTYPE]", "the product of eight N by N matrices, inputs"),
    ("attention", "attention:BATCHxSEQ,HEADS,KV,DIM[,causal][,DTYPE]", "attention of given queries, keys and values"),
    ("llama-7b-block", "llama-7b-block:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "one decoder layer"),
    ("llama-13b-block", "llama-13b-block:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "one decoder layer"),
    ("llama-65b-block", "llama-65b-block:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "one decoder layer"),
    ("llama-70b-block", "llama-70b-block:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "one decoder layer"),
    ("llama-3-8b-block", "llama-3-8b-block:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "one decoder layer"),
    ("llama-7b", "llama-7b:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "the whole model, forward"),
    ("llama-13b", "llama-13b:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "the whole model, forward"),
    ("llama-65b", "llama-65b:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "the whole model, forward"),
    ("llama-70b", "llama-70b:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "the whole model, forward"),
    ("llama-3-8b", "llama-3-8b:BATCHxSEQ|packed=LEN+LEN+...[,DTYPE]", "the whole model, forward"),
];

/// All forms, one a line.
pub fn usage() -> String {
    FORMS.iter().map(|(_, form, what)| format!("  {form}  ({what})")).collect::<Vec<_>>().join("\n")
}

/// The configuration of a published Llama model.
pub fn llama_config(name: &str) -> Option<DecoderConfig> {
    let of = DecoderConfig::of_sizes;
    match name {
        "llama-7b" => Some(of(4096, 32, 32, 11008, 32, 32000)),
        "llama-13b" => Some(of(5120, 40, 40, 13824, 40, 32000)),
        "llama-65b" => Some(of(8192, 64, 64, 22016, 80, 32000)),
        "llama-70b" => Some(of(8192, 64, 8, 28672, 80, 32000)),
        "llama-3-8b" => Some(DecoderConfig { rotary: Rotary::new(500_000.0), ..of(4096, 32, 8, 14336, 32, 128_256) }),
        _ => None,
    }
}

/// The graph of a workload such as `gemm:4096,4096,4096` or `llama-7b-block:8x1024`.
///
/// ```
/// let graph = einsummable::workloads::workload("ffnn:64,256,64,32").unwrap();
/// assert_eq!(graph.outputs().len(), 1);
/// let error = einsummable::workloads::workload("gemm:4096").unwrap_err();
/// assert!(error.to_string().contains("gemm:M,N,K"));
/// ```
pub fn workload(text: &str) -> Result<Graph, WorkloadError> {
    let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
    let form = FORMS.iter().find(|f| f.0 == name);
    let not_yet = |what| Err(WorkloadError::NotYet { text: text.into(), what });
    let mut arguments: Vec<&str> =
        if arguments.is_empty() { vec![] } else { arguments.split(',').map(str::trim).collect() };
    if name == "decode" || name.starts_with("decode-") || arguments.iter().any(|a| a.starts_with("decode")) {
        return not_yet("generation with a cache");
    }
    let Some(&(name, expected, _)) = form else { return Err(WorkloadError::Unknown { name: name.into() }) };
    let dtype = arguments.last().and_then(|a| DType::parse(a));
    if dtype.is_some() {
        arguments.pop();
    }
    let parser = Parser { text, expected, arguments };
    let output = match name {
        "gemm" => parser.gemm(dtype.unwrap_or(DType::F32))?,
        "ffnn" => parser.ffnn(dtype.unwrap_or(DType::F32))?,
        "chain" => parser.chain(dtype.unwrap_or(DType::F32))?,
        "attention" => parser.attention(dtype.unwrap_or(DType::F32))?,
        _ => parser.llama(name, dtype.unwrap_or(DType::BF16))?,
    };
    let traced = trace(&[("out", &output)]).map_err(|source| WorkloadError::Tensor { text: text.into(), source })?;
    Ok(traced.graph)
}

struct Parser<'a> {
    text: &'a str,
    expected: &'static str,
    arguments: Vec<&'a str>,
}

impl Parser<'_> {
    fn wrong(&self, reason: String) -> WorkloadError {
        WorkloadError::Arguments { text: self.text.into(), reason, expected: self.expected }
    }

    fn size(&self, text: &str) -> Result<usize, WorkloadError> {
        // Products of several sizes must not overflow either.
        text.parse()
            .ok()
            .filter(|&n| n > 0 && n <= 1 << 31)
            .ok_or_else(|| self.wrong(format!("`{text}` is not a size from 1 to {}", 1_u64 << 31)))
    }

    fn sizes<const N: usize>(&self) -> Result<[usize; N], WorkloadError> {
        let mut sizes = [0; N];
        if self.arguments.len() != N {
            return Err(self.wrong(format!("{} arguments, not {N}", self.arguments.len())));
        }
        for (size, text) in sizes.iter_mut().zip(&self.arguments) {
            *size = self.size(text)?;
        }
        Ok(sizes)
    }

    fn batch(&self) -> Result<(usize, usize), WorkloadError> {
        let text = self.arguments.first().copied().unwrap_or("");
        let Some((batch, sequence)) = text.split_once('x') else {
            return Err(self.wrong(format!("`{text}` is not BATCHxSEQ, such as 8x1024")));
        };
        Ok((self.size(batch)?, self.size(sequence)?))
    }

    fn gemm(&self, dtype: DType) -> Result<Tensor, WorkloadError> {
        let [m, n, k] = self.sizes()?;
        let (a, b) = (Tensor::input("a", [m, k], dtype), Tensor::input("b", [k, n], dtype));
        Ok(a.matmul(&b).named("product"))
    }

    fn ffnn(&self, dtype: DType) -> Result<Tensor, WorkloadError> {
        let [input, hidden, output, batch] = self.sizes()?;
        let scope = Scope::root(dtype);
        let net = Sequential::new()
            .append(Linear::new(&scope.child(0), input, hidden, false))
            .append(ReLU)
            .append(Linear::new(&scope.child(2), hidden, output, false));
        Ok(net.forward(&Tensor::input("x", [batch, input], dtype)))
    }

    fn chain(&self, dtype: DType) -> Result<Tensor, WorkloadError> {
        let &[shape, n] = self.arguments.as_slice() else {
            return Err(self.wrong(format!("{} arguments, not 2", self.arguments.len())));
        };
        let n = self.size(n)?;
        let mut level: Vec<Tensor> =
            ["A", "B", "C", "D", "E", "F", "G", "H"].map(|name| Tensor::input(name, [n, n], dtype)).into();
        match shape {
            "bushy" => {
                while level.len() > 1 {
                    level = level.chunks(2).map(|pair| pair[0].matmul(&pair[1])).collect();
                }
                Ok(level.remove(0))
            }
            "left" => Ok(level.into_iter().reduce(|product, next| product.matmul(&next)).expect("eight matrices")),
            other => Err(self.wrong(format!("there is no chain `{other}`"))),
        }
    }

    fn attention(&self, dtype: DType) -> Result<Tensor, WorkloadError> {
        let (batch, sequence) = self.batch()?;
        let rest: Vec<&str> = self.arguments[1..].to_vec();
        let (sizes, causal) = match rest.as_slice() {
            [sizes @ .., "causal"] => (sizes, true),
            sizes => (sizes, false),
        };
        let &[heads, kv, dim] = sizes else {
            return Err(self.wrong(format!("{} arguments after BATCHxSEQ, not 3", sizes.len())));
        };
        let (heads, kv, dim) = (self.size(heads)?, self.size(kv)?, self.size(dim)?);
        let input = |name, heads| Tensor::input(name, [batch, heads, sequence, dim], dtype);
        let (q, k, v) = (input("q", heads), input("k", kv), input("v", kv));
        let options = AttentionOptions { is_causal: causal, enable_gqa: true, ..AttentionOptions::default() };
        Ok(q.scaled_dot_product_attention(&k, &v, &options))
    }

    /// The lengths of `packed=2048+1024+512`.
    fn packed(&self) -> Result<Option<Vec<usize>>, WorkloadError> {
        let Some(list) = self.arguments.first().and_then(|a| a.strip_prefix("packed")) else { return Ok(None) };
        let Some(list) = list.strip_prefix('=') else {
            return Err(self.wrong("`packed` takes the lengths of the sequences, such as packed=2048+1024+512".into()));
        };
        list.split('+').map(|length| self.size(length)).collect::<Result<_, _>>().map(Some)
    }

    fn llama(&self, name: &str, dtype: DType) -> Result<Tensor, WorkloadError> {
        let packed = self.packed()?;
        let (batch, sequence) = match &packed {
            Some(lengths) => (1, self.size(&lengths.iter().sum::<usize>().to_string())?),
            None => self.batch()?,
        };
        if self.arguments.len() != 1 {
            return Err(self.wrong(format!("`{}` after BATCHxSEQ", self.arguments[1])));
        }
        let (model, block) = name.strip_suffix("-block").map_or((name, false), |m| (m, true));
        let config = DecoderConfig { dtype, ..llama_config(model).expect("every listed model has a configuration") };
        // One plan serves every packing of so many sequences: where they begin is known at run time.
        let tokens = |name, shape: &[usize]| Tensor::input(name, shape.to_vec(), DType::I64);
        let given = packed.map(|l| (tokens("position_ids", &[1, sequence]), tokens("offsets", &[l.len()])));
        let positions = given.as_ref().map_or_else(Positions::default, |(ids, offsets)| Positions {
            ids: Some(ids),
            offsets: Some(offsets),
            ..Positions::default()
        });
        if block {
            let scope = Scope::root(dtype).child("model").child("layers").child(0);
            let x = Tensor::input("x", [batch, sequence, config.hidden_size], dtype);
            return Ok(DecoderLayer::new(&scope, &config, 0).forward(&x, None, positions));
        }
        let inputs = DecoderInputs { attention_mask: None, positions };
        Ok(Decoder::new(&config).forward_with(&tokens("input_ids", &[batch, sequence]), inputs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::op::{InputKind, Op};

    #[test]
    fn workloads_have_the_sizes_they_name() {
        // Rows that compute, inputs, elements of all parameters, shape of the result.
        let check = |text: &str, computing: usize, inputs: usize, parameters: u64, shape: &[usize]| {
            let graph = workload(text).unwrap();
            let compute = |op: &Op| matches!(op, Op::Einsum(_) | Op::Kernel(_));
            assert_eq!(graph.nodes().iter().filter(|n| compute(&n.op)).count(), computing, "{text}");
            assert_eq!(graph.inputs(InputKind::Input).len(), inputs, "{text}");
            let elements = |&id| graph.ty(id).elements() as u64;
            assert_eq!(graph.inputs(InputKind::Parameter).iter().map(elements).sum::<u64>(), parameters, "{text}");
            assert_eq!(graph.ty(graph.outputs()[0].1).shape, shape, "{text}");
        };
        check("gemm:64,32,16", 1, 2, 0, &[64, 32]);
        check("ffnn:64,256,10,32", 3, 1, 64 * 256 + 256 * 10, &[32, 10]);
        check("chain:bushy,128", 7, 8, 0, &[128, 128]);
        check("chain:left,128", 7, 8, 0, &[128, 128]);
        check("attention:2x128,8,2,64,causal,bf16", 1, 3, 0, &[2, 8, 128, 64]);
        let block = |d: u64, kv: u64, f: u64| 2 * d * d + 2 * d * kv + 3 * d * f + 2 * d;
        check("llama-7b-block:8x1024", 17, 1, block(4096, 4096, 11008), &[8, 1024, 4096]);
        check("llama-13b-block:1x8", 17, 1, block(5120, 5120, 13824), &[1, 8, 5120]);
        check("llama-65b-block:1x8", 17, 1, block(8192, 8192, 22016), &[1, 8, 8192]);
        check("llama-70b-block:1x8", 17, 1, block(8192, 1024, 28672), &[1, 8, 8192]);
        let whole = |layers: u64, d: u64, kv: u64, f: u64, vocab: u64| layers * block(d, kv, f) + 2 * vocab * d + d;
        check("llama-3-8b:1x4096", 32 * 17 + 4, 1, whole(32, 4096, 1024, 14336, 128_256), &[1, 4096, 128_256]);
        check("llama-7b:1x4096", 32 * 17 + 4, 1, whole(32, 4096, 4096, 11008, 32000), &[1, 4096, 32000]);
        check("llama-7b-block:packed=900+100+24", 17, 3, block(4096, 4096, 11008), &[1, 1024, 4096]);
        check("llama-7b:packed=900+124", 32 * 17 + 4, 3, whole(32, 4096, 4096, 11008, 32000), &[1, 1024, 32000]);
        check("llama-65b:1x128", 80 * 17 + 4, 1, whole(80, 8192, 8192, 22016, 32000), &[1, 128, 32000]);
        check("llama-70b:8x128", 80 * 17 + 4, 1, whole(80, 8192, 1024, 28672, 32000), &[8, 128, 32000]);
    }

    #[test]
    fn wrong_lines_are_answered() {
        let check = |text: &str, parts: &[&str]| {
            let message = workload(text).unwrap_err().to_string();
            for part in parts {
                assert!(message.contains(part), "{text}: {message}");
            }
        };
        check("", &["there is no workload ``", "gemm:M,N,K", "llama-3-8b:BATCHxSEQ|packed"]);
        check("gem:1,2,3", &["`gem`", "gemm:M,N,K"]);
        check("gemm:1,2", &["2 arguments, not 3", "gemm:M,N,K"]);
        check("gemm:1,2,x", &["`x` is not a size"]);
        check("gemm:1,2,0", &["`0` is not a size"]);
        check("gemm:1,,2", &["`` is not a size"]);
        check("gemm:", &["0 arguments, not 3"]);
        check("gemm:1,2,3,f33", &["4 arguments, not 3"]);
        check("chain:deep,4", &["no chain `deep`", "bushy|left"]);
        check("attention:2x4,3,2,8", &["3 query heads are not a multiple of 2 key/value heads"]);
        check("attention:2x4,3", &["1 arguments after BATCHxSEQ, not 3"]);
        let huge = 1_usize << 31;
        check(&format!("llama-7b:{huge}x{huge}"), &["more bytes than can be addressed"]);
        check(&format!("gemm:{huge},{huge},{huge}"), &["more bytes than can be addressed"]);
        check("llama-7b:128", &["`128` is not BATCHxSEQ"]);
        check("llama-7b-block:1x2,3", &["`3` after BATCHxSEQ"]);
        check("decode:llama-7b:1x128", &["generation with a cache is not there yet"]);
        check("llama-7b:packed,128,256", &["packed=2048+1024+512"]);
        check("llama-7b:packed=128+x", &["`x` is not a size"]);
        check("llama-7b:packed=", &["`` is not a size"]);
    }
}
