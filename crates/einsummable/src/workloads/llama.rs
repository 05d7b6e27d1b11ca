//! Decoder layers and whole models of published sizes: whole sequences, packed ones, and a step of generation.

use super::WorkloadError;
use super::arguments::Arguments;
use crate::models::{Decoder, DecoderConfig, DecoderInputs, DecoderLayer, KeyValues};
use crate::nn::Scope;
use crate::nn::rotary::{Positions, Rotary};
use crate::tensor::Tensor;
use ein_ir::dtype::DType;

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

/// What a line asks for after the name of the model.
enum Tokens {
    /// So many sequences of so many tokens.
    Whole(usize, usize),
    /// Sequences of these lengths in one row.
    Packed(Vec<usize>),
    /// One new token for so many sequences of so many tokens.
    Decode(usize, usize),
}

fn tokens(arguments: &Arguments) -> Result<Tokens, WorkloadError> {
    const PACKED: &str = "the lengths of the sequences, such as packed=2048+1024+512";
    const DECODE: &str = "BATCHxLENGTH, such as decode=64x4096";
    if let Some(list) = arguments.setting("packed", PACKED)? {
        let lengths = list.split('+').map(|length| arguments.size(length));
        return lengths.collect::<Result<_, _>>().map(Tokens::Packed);
    }
    if let Some(pair) = arguments.setting("decode", DECODE)? {
        let (batch, length) = arguments.pair(pair, DECODE)?;
        return Ok(Tokens::Decode(batch, length));
    }
    let (batch, sequence) = arguments.batch()?;
    Ok(Tokens::Whole(batch, sequence))
}

/// The outputs of a model or of a layer.
pub(super) fn llama(arguments: &Arguments, name: &str, dtype: DType) -> Result<Vec<(String, Tensor)>, WorkloadError> {
    // What is wrong with the first argument is said before what comes after it.
    tokens(arguments)?;
    if let Some(more) = arguments.list.get(1) {
        return Err(arguments.wrong(format!("`{more}` after `{}`", arguments.list[0])));
    }
    let (model, block) = name.strip_suffix("-block").map_or((name, false), |m| (m, true));
    let config = llama_config(model).expect("every listed model has a configuration");
    outputs(arguments, &DecoderConfig { dtype, ..config }, block)
}

/// The form of a layer of any sizes.
pub(super) const BLOCK: &str =
    "block:BATCHxSEQ|packed=LEN+LEN+...|decode=BATCHxLENGTH,FEATURES,HEADS,KV,HIDDEN[,DTYPE]";

/// The outputs of one decoder layer of given sizes.
pub(super) fn block(arguments: &Arguments, dtype: DType) -> Result<Vec<(String, Tensor)>, WorkloadError> {
    let &[_, features, heads, kv, hidden] = arguments.list.as_slice() else {
        return Err(arguments.wrong(format!("{} arguments, not 5", arguments.list.len())));
    };
    let [features, heads, kv, hidden] = [features, heads, kv, hidden].map(|text| arguments.size(text));
    let (features, heads, kv, hidden) = (features?, heads?, kv?, hidden?);
    // Rotation pairs the features of a head.
    if !features.is_multiple_of(2 * heads) {
        return Err(arguments.wrong(format!("{features} features are not an even number for each of {heads} heads")));
    }
    let config = DecoderConfig { dtype, ..DecoderConfig::of_sizes(features, heads, kv, hidden, 1, 1) };
    outputs(arguments, &config, true)
}

fn outputs(arguments: &Arguments, config: &DecoderConfig, block: bool) -> Result<Vec<(String, Tensor)>, WorkloadError> {
    let (tokens, dtype) = (tokens(arguments)?, config.dtype);
    let layer = || DecoderLayer::new(&Scope::root(dtype).child("model").child("layers").child(0), config, 0);
    let integers = |name, shape: &[usize]| Tensor::input(name, shape.to_vec(), DType::I64);
    let hidden = |batch, sequence| Tensor::input("x", [batch, sequence, config.hidden_size], dtype);
    let (batch, sequence, packed) = match tokens {
        Tokens::Decode(batch, length) => {
            let positions = Positions { start: length, ..Positions::default() };
            let past = |layer| past(config, batch, length, layer);
            if block {
                let (out, own) = layer().step(&hidden(batch, 1), &past(0), positions);
                return Ok(with_own(out, vec![own]));
            }
            let past: Vec<KeyValues> = (0..config.num_hidden_layers).map(past).collect();
            let (out, own) = Decoder::new(config).step(&integers("input_ids", &[batch, 1]), &past, positions);
            return Ok(with_own(out, own));
        }
        Tokens::Whole(batch, sequence) => (batch, sequence, None),
        Tokens::Packed(lengths) => {
            (1, arguments.size(&lengths.iter().sum::<usize>().to_string())?, Some(lengths.len()))
        }
    };
    // One plan serves every packing of so many sequences: where they begin is known at run time.
    let given = packed.map(|n| (integers("position_ids", &[1, sequence]), integers("offsets", &[n])));
    let positions = given.as_ref().map_or_else(Positions::default, |(ids, offsets)| Positions {
        ids: Some(ids),
        offsets: Some(offsets),
        ..Positions::default()
    });
    let out = if block {
        layer().forward(&hidden(batch, sequence), None, positions)
    } else {
        let inputs = DecoderInputs { attention_mask: None, positions };
        Decoder::new(config).forward_with(&integers("input_ids", &[batch, sequence]), inputs)
    };
    Ok(vec![("out".into(), out)])
}

/// The cache of a layer: state, which lives between steps where the plan likes.
fn past(config: &DecoderConfig, batch: usize, length: usize, layer: usize) -> KeyValues {
    let of = |what: &str| {
        let name = format!("past.{layer}.{what}");
        Tensor::state(&name, [batch, config.num_key_value_heads, length, config.head_dim], config.dtype)
    };
    KeyValues { keys: of("keys"), values: of("values") }
}

/// The result, and for each layer the new rows of its cache.
fn with_own(out: Tensor, own: Vec<KeyValues>) -> Vec<(String, Tensor)> {
    let rows = own.into_iter().enumerate().flat_map(|(layer, own)| {
        [(format!("own.{layer}.keys"), own.keys), (format!("own.{layer}.values"), own.values)]
    });
    std::iter::once(("out".into(), out)).chain(rows).collect()
}
