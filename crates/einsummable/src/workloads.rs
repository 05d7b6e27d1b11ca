//! Named computations for planning and benchmarks, from a line of text.

mod arguments;
mod chain;
mod llama;

use crate::nn::{Linear, Module, ReLU, Scope, Sequential};
use crate::tensor::attention::AttentionOptions;
use crate::tensor::conv::{ConvOptions, Padding};
use crate::tensor::{Tensor, TensorError};
use crate::trace::trace;
use arguments::Arguments;
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
    /// The sizes make no computation.
    #[error("workload `{text}`: {source}")]
    Tensor {
        /// The whole line.
        text: String,
        /// Why.
        source: TensorError,
    },
}

/// The form of a llama workload: whole sequences, packed ones, or a step of generation.
macro_rules! llama {
    ($name:literal, $what:literal) => {
        ($name, concat!($name, ":BATCHxSEQ|packed=LEN+LEN+...|decode=BATCHxLENGTH[,DTYPE]"), $what)
    };
}

/// One kind of workload: its name, the form of its arguments, and what it is.
///
/// `decode=BATCHxLENGTH` is one new token for each of BATCH sequences of LENGTH tokens, whose keys and values are state of
/// the graph; the new ones are outputs beside the result.
pub const FORMS: [(&str, &str, &str); 16] = [
    ("gemm", "gemm:M,N,K[,DTYPE]", "one product, both operands inputs"),
    ("ffnn", "ffnn:IN,HIDDEN,OUT,BATCH[,DTYPE]", "two linear layers with relu between them"),
    ("chain", chain::FORM, "the product of eight matrices whose sizes follow from N, inputs"),
    ("attention", "attention:BATCHxSEQ,HEADS,KV,DIM[,causal][,DTYPE]", "attention of given queries, keys and values"),
    ("conv", "conv:BATCH,CHANNELS,HEIGHTxWIDTH,OUT,KERNEL[,DTYPE]", "a convolution to images of the same size"),
    ("block", llama::BLOCK, "one decoder layer of given sizes"),
    llama!("llama-7b-block", "one decoder layer"),
    llama!("llama-13b-block", "one decoder layer"),
    llama!("llama-65b-block", "one decoder layer"),
    llama!("llama-70b-block", "one decoder layer"),
    llama!("llama-3-8b-block", "one decoder layer"),
    llama!("llama-7b", "the whole model, forward"),
    llama!("llama-13b", "the whole model, forward"),
    llama!("llama-65b", "the whole model, forward"),
    llama!("llama-70b", "the whole model, forward"),
    llama!("llama-3-8b", "the whole model, forward"),
];

/// All forms, one a line.
pub fn usage() -> String {
    FORMS.iter().map(|(_, form, what)| format!("  {form}  ({what})")).collect::<Vec<_>>().join("\n")
}

pub use llama::llama_config;

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
    let Some(&(name, expected, _)) = FORMS.iter().find(|f| f.0 == name) else {
        return Err(WorkloadError::Unknown { name: name.into() });
    };
    let (arguments, dtype) = Arguments::read(text, expected, arguments);
    let one = |tensor: Tensor| vec![("out".to_owned(), tensor)];
    let outputs = match name {
        "gemm" => one(gemm(&arguments, dtype.unwrap_or(DType::F32))?),
        "ffnn" => one(ffnn(&arguments, dtype.unwrap_or(DType::F32))?),
        "chain" => one(chain::chain(&arguments, dtype.unwrap_or(DType::F32))?),
        "attention" => one(attention(&arguments, dtype.unwrap_or(DType::F32))?),
        "conv" => one(conv(&arguments, dtype.unwrap_or(DType::F32))?),
        "block" => llama::block(&arguments, dtype.unwrap_or(DType::F32))?,
        _ => llama::llama(&arguments, name, dtype.unwrap_or(DType::BF16))?,
    };
    let outputs: Vec<(&str, &Tensor)> = outputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    Ok(trace(&outputs).map_err(|source| WorkloadError::Tensor { text: text.into(), source })?.graph)
}

fn gemm(arguments: &Arguments, dtype: DType) -> Result<Tensor, WorkloadError> {
    let [m, n, k] = arguments.sizes()?;
    let (a, b) = (Tensor::input("a", [m, k], dtype), Tensor::input("b", [k, n], dtype));
    Ok(a.matmul(&b).named("product"))
}

fn ffnn(arguments: &Arguments, dtype: DType) -> Result<Tensor, WorkloadError> {
    let [input, hidden, output, batch] = arguments.sizes()?;
    let scope = Scope::root(dtype);
    let net = Sequential::new()
        .append(Linear::new(&scope.child(0), input, hidden, false))
        .append(ReLU)
        .append(Linear::new(&scope.child(2), hidden, output, false));
    Ok(net.forward(&Tensor::input("x", [batch, input], dtype)))
}

fn attention(arguments: &Arguments, dtype: DType) -> Result<Tensor, WorkloadError> {
    let (batch, sequence) = arguments.batch()?;
    let rest: Vec<&str> = arguments.list[1..].to_vec();
    let (sizes, causal) = match rest.as_slice() {
        [sizes @ .., "causal"] => (sizes, true),
        sizes => (sizes, false),
    };
    let &[heads, kv, dim] = sizes else {
        return Err(arguments.wrong(format!("{} arguments after BATCHxSEQ, not 3", sizes.len())));
    };
    let (heads, kv, dim) = (arguments.size(heads)?, arguments.size(kv)?, arguments.size(dim)?);
    let input = |name, heads| Tensor::input(name, [batch, heads, sequence, dim], dtype);
    let (q, k, v) = (input("q", heads), input("k", kv), input("v", kv));
    let options = AttentionOptions { is_causal: causal, enable_gqa: true, ..AttentionOptions::default() };
    Ok(q.scaled_dot_product_attention(&k, &v, &options))
}

fn conv(arguments: &Arguments, dtype: DType) -> Result<Tensor, WorkloadError> {
    let &[batch, channels, image, out, kernel] = arguments.list.as_slice() else {
        return Err(arguments.wrong(format!("{} arguments, not 5", arguments.list.len())));
    };
    let (batch, channels) = (arguments.size(batch)?, arguments.size(channels)?);
    let (height, width) = arguments.pair(image, "HEIGHTxWIDTH, such as 56x56")?;
    let (out, kernel) = (arguments.size(out)?, arguments.size(kernel)?);
    let x = Tensor::input("x", [batch, channels, height, width], dtype);
    let weight = Tensor::parameter("weight", [out, channels, kernel, kernel], dtype);
    Ok(x.conv2d(&weight, None, &ConvOptions::new().padding(Padding::Same)))
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
        for shape in ["left", "right", "zigzag", "skewed", "outer"] {
            check(&format!("chain:{shape},128"), 7, 8, 0, &[128, 128]);
        }
        check("chain:inner,128", 7, 8, 0, &[8, 8]);
        check("chain:power,128", 3, 1, 0, &[128, 128]);
        check("conv:4,3,32x24,8,5", 1, 1, 8 * 3 * 5 * 5, &[4, 8, 32, 24]);
        check("attention:2x128,8,2,64,causal,bf16", 1, 3, 0, &[2, 8, 128, 64]);
        let block = |d: u64, kv: u64, f: u64| 2 * d * d + 2 * d * kv + 3 * d * f + 2 * d;
        check("llama-7b-block:8x1024", 17, 1, block(4096, 4096, 11008), &[8, 1024, 4096]);
        check("llama-13b-block:1x8", 17, 1, block(5120, 5120, 13824), &[1, 8, 5120]);
        check("llama-65b-block:1x8", 17, 1, block(8192, 8192, 22016), &[1, 8, 8192]);
        check("llama-70b-block:1x8", 17, 1, block(8192, 1024, 28672), &[1, 8, 8192]);
        let whole = |layers: u64, d: u64, kv: u64, f: u64, vocab: u64| layers * block(d, kv, f) + 2 * vocab * d + d;
        check("llama-3-8b:1x4096", 32 * 17 + 4, 1, whole(32, 4096, 1024, 14336, 128_256), &[1, 4096, 128_256]);
        check("llama-7b:1x4096", 32 * 17 + 4, 1, whole(32, 4096, 4096, 11008, 32000), &[1, 4096, 32000]);
        check("block:2x8,64,4,2,96", 17, 1, block(64, 32, 96), &[2, 8, 64]);
        check("block:decode=3x8,64,4,2,96,bf16", 17, 1, block(64, 32, 96), &[3, 1, 64]);
        check("llama-7b-block:packed=900+100+24", 17, 3, block(4096, 4096, 11008), &[1, 1024, 4096]);
        check("llama-7b:packed=900+124", 32 * 17 + 4, 3, whole(32, 4096, 4096, 11008, 32000), &[1, 1024, 32000]);
        check("llama-65b:1x8", 80 * 17 + 4, 1, whole(80, 8192, 8192, 22016, 32000), &[1, 8, 32000]);
        check("llama-7b-block:decode=64x4096", 17, 1, block(4096, 4096, 11008), &[64, 1, 4096]);
        check("llama-70b-block:decode=8x100", 17, 1, block(8192, 1024, 28672), &[8, 1, 8192]);
        check("llama-7b:decode=8x4096", 32 * 17 + 4, 1, whole(32, 4096, 4096, 11008, 32000), &[8, 1, 32000]);
        check("llama-70b:8x128", 80 * 17 + 4, 1, whole(80, 8192, 1024, 28672, 32000), &[8, 128, 32000]);
    }

    /// A step reads the cache once, and leaves one row of it for each layer.
    #[test]
    fn a_step_has_a_cache_and_new_rows() {
        let check = |text: &str, layers: usize, past: &[usize], own: &[usize]| {
            let graph = workload(text).unwrap();
            let state = graph.inputs(InputKind::State);
            assert_eq!(state.len(), 2 * layers, "{text}");
            assert!(state.iter().all(|&id| graph.ty(id).shape == past), "{text}");
            assert_eq!(graph.outputs().len(), 1 + 2 * layers, "{text}");
            assert!(graph.outputs()[1..].iter().all(|&(_, id)| graph.ty(id).shape == own), "{text}");
            for id in state {
                assert_eq!(graph.nodes().iter().filter(|n| n.inputs.contains(&id)).count(), 1, "{text}");
            }
        };
        check("llama-7b-block:decode=64x4096", 1, &[64, 32, 4096, 128], &[64, 32, 1, 128]);
        check("llama-70b-block:decode=1x10", 1, &[1, 8, 10, 128], &[1, 8, 1, 128]);
        check("llama-3-8b:decode=8x4096", 32, &[8, 8, 4096, 128], &[8, 8, 1, 128]);
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
        check("chain:deep,4", &["no chain `deep`", "bushy|left|right"]);
        check("attention:2x4,3,2,8", &["3 query heads are not a multiple of 2 key/value heads"]);
        check("attention:2x4,3", &["1 arguments after BATCHxSEQ, not 3"]);
        let huge = 1_usize << 31;
        check(&format!("llama-7b:{huge}x{huge}"), &["more bytes than can be addressed"]);
        check(&format!("gemm:{huge},{huge},{huge}"), &["more bytes than can be addressed"]);
        check("block:2x8,64,4,2", &["4 arguments, not 5", "FEATURES,HEADS"]);
        check("block:2x8,64,3,1,96", &["64 features are not an even number for each of 3 heads"]);
        check("block:2x8,64,4,3,96", &["4 query heads are not a multiple of 3"]);
        check("llama-7b:128", &["`128` is not BATCHxSEQ"]);
        check("llama-7b-block:1x2,3", &["`3` after `1x2`"]);
        check(
            "decode:llama-7b:1x128",
            &["no workload `decode`", "llama-7b:BATCHxSEQ|packed=LEN+LEN+...|decode=BATCHxLENGTH"],
        );
        check("llama-7b:decode", &["`decode` takes BATCHxLENGTH", "decode=64x4096"]);
        check("llama-7b:decode=64", &["`64` is not BATCHxLENGTH"]);
        check("llama-7b:decode=0x64", &["`0` is not a size"]);
        check("llama-7b:decode=1x64,3", &["`3` after `decode=1x64`"]);
        check("conv:1,2,3,4,5", &["`3` is not HEIGHTxWIDTH"]);
        check("conv:1,2,8x8", &["3 arguments, not 5"]);
        check("llama-7b:packed,128,256", &["packed=2048+1024+512"]);
        check("llama-7b:packed=128+x", &["`x` is not a size"]);
        check("llama-7b:packed=", &["`` is not a size"]);
    }
}
