//! The rotation that a configuration asks for: `rope_parameters`, or `rope_theta` and `rope_scaling` in older files.

use super::config::ConfigError;
use super::keys::Keys;
use crate::nn::rotary::{Rotary, Scaling, YarnRange};
use serde_json::Value;

/// The kinds that `transformers` knows and that are built here.
const KINDS: &str = "default, linear, dynamic, llama3, yarn and longrope are supported";

/// What else of a configuration decides the rotation.
pub(super) struct Sizes {
    /// Features of a head.
    pub head_dim: usize,
    /// The longest sequence it was made for.
    pub max_position_embeddings: usize,
    /// Whether it is a Phi-3, which turns a part of a head only where it is asked to, knows longrope under two
    /// older names, and keeps the first context beside the parameters.
    pub phi3: bool,
    /// `rope_theta` where none is given.
    pub theta: f64,
}

/// The rotation of queries and keys.
pub(super) fn read(keys: &Keys, sizes: &Sizes) -> Result<Rotary, ConfigError> {
    let empty = Value::Object(serde_json::Map::new());
    let new = keys.get("rope_parameters");
    let (value, inside) = match (new, keys.get("rope_scaling")) {
        (Some(new), None) => (new, "rope_parameters."),
        (_, Some(old)) => (old, "rope_scaling."),
        (None, None) => (&empty, ""),
    };
    if !value.is_object() {
        return Err(keys.wrong(inside.trim_end_matches('.'), value.to_string(), "an object is expected"));
    }
    let inner = Keys { value, architecture: keys.architecture, inside };
    for key in ["full_attention", "sliding_attention", "mrope_section"] {
        if let Some(found) = inner.get(key) {
            return Err(inner.wrong(key, found.to_string(), "one rotation for all layers and axes is supported"));
        }
    }
    let theta = if inner.get("rope_theta").is_some() {
        inner.number("rope_theta")?
    } else {
        keys.number_or("rope_theta", sizes.theta)?
    };
    let dims = rotated(keys, &inner, sizes)?;
    let reader = Reader { keys, inner, sizes, theta, dims };
    let mut rotary = reader.rotary()?;
    if dims < sizes.head_dim {
        rotary.dims = Some(dims);
    }
    Ok(rotary)
}

/// Features of a head that are turned.
fn rotated(keys: &Keys, inner: &Keys, sizes: &Sizes) -> Result<usize, ConfigError> {
    let holder = if inner.get("partial_rotary_factor").is_some() { inner } else { keys };
    let factor = holder.number_or("partial_rotary_factor", 1.0)?;
    if factor > 1.0 || (factor < 1.0 && !sizes.phi3) {
        let expected = if sizes.phi3 { "at most 1 is expected" } else { "only 1 is supported for this model" };
        return Err(holder.wrong("partial_rotary_factor", factor.to_string(), expected));
    }
    let dims = (sizes.head_dim as f64 * factor) as usize;
    if dims > 0 && dims.is_multiple_of(2) {
        return Ok(dims);
    }
    let expected = format!("rotation needs an even number of features of a head, not {dims}");
    let key = if factor < 1.0 {
        return Err(holder.wrong("partial_rotary_factor", factor.to_string(), expected));
    } else if keys.get("head_dim").is_some() {
        "head_dim"
    } else {
        "hidden_size"
    };
    Err(keys.wrong(key, keys.get(key).map_or_else(String::new, Value::to_string), expected))
}

struct Reader<'a> {
    keys: &'a Keys<'a>,
    inner: Keys<'a>,
    sizes: &'a Sizes,
    theta: f64,
    dims: usize,
}

impl Reader<'_> {
    fn rotary(&self) -> Result<Rotary, ConfigError> {
        let inner = &self.inner;
        let kind = match (inner.get("rope_type"), inner.get("type")) {
            (Some(_), _) => inner.text("rope_type")?,
            (None, Some(_)) => inner.text("type")?,
            (None, None) => "default",
        };
        // Phi-3 wrote two other names for what is called longrope now.
        let renamed = self.sizes.phi3 && matches!(kind, "su" | "yarn");
        let plain = Rotary::new(self.theta);
        match if renamed { "longrope" } else { kind } {
            "default" => Ok(plain),
            "linear" => Ok(Rotary { scaling: Scaling::Linear { factor: inner.number("factor")? }, ..plain }),
            "dynamic" => self.dynamic(),
            "llama3" => {
                let scaling = Scaling::Llama3 {
                    factor: inner.number("factor")?,
                    low_freq_factor: inner.number("low_freq_factor")?,
                    high_freq_factor: inner.number("high_freq_factor")?,
                    original: self.original()? as f64,
                };
                Ok(Rotary { scaling, ..plain })
            }
            "yarn" => self.yarn(),
            "longrope" => self.longrope(),
            other => Err(inner.wrong("rope_type", format!("`{other}`"), KINDS)),
        }
    }

    /// The context before it was stretched. What stands beside the parameters comes before what is in them.
    fn original(&self) -> Result<usize, ConfigError> {
        let key = "original_max_position_embeddings";
        if self.sizes.phi3 || self.keys.get(key).is_some() {
            return self.keys.size_or(key, 4096);
        }
        self.inner.size_or(key, self.sizes.max_position_embeddings)
    }

    fn dynamic(&self) -> Result<Rotary, ConfigError> {
        let factor = self.inner.number("factor")?;
        if self.dims <= 2 {
            return Err(self.inner.wrong("rope_type", "`dynamic`", "more than 2 features of a head are needed"));
        }
        let original = self.sizes.max_position_embeddings as f64;
        Ok(Rotary { scaling: Scaling::Dynamic { factor, original }, ..Rotary::new(self.theta) })
    }

    fn yarn(&self) -> Result<Rotary, ConfigError> {
        let original = self.original()? as f64;
        let factor = self.inner.number_or("factor", self.sizes.max_position_embeddings as f64 / original)?;
        let grown = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        let scales = (self.inner.optional_number("mscale")?, self.inner.optional_number("mscale_all_dim")?);
        let attention_factor = match (self.inner.optional_number("attention_factor")?, scales) {
            (Some(given), _) => given,
            (None, (Some(scale), Some(all))) => grown(scale) / grown(all),
            (None, _) => grown(1.0),
        };
        let range = YarnRange {
            fast: self.inner.number_or("beta_fast", 32.0)?,
            slow: self.inner.number_or("beta_slow", 1.0)?,
            truncate: self.inner.flag_or("truncate", true)?,
        };
        let (low, high) = range.features(self.dims, self.theta, original);
        Ok(Rotary { scaling: Scaling::Yarn { factor, low, high }, attention_factor, ..Rotary::new(self.theta) })
    }

    fn longrope(&self) -> Result<Rotary, ConfigError> {
        let original = self.original()?;
        let factor = self.inner.number_or("factor", self.sizes.max_position_embeddings as f64 / original as f64)?;
        let usual = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (original as f64).ln()).sqrt() };
        let attention_factor = self.inner.number_or("attention_factor", usual)?;
        let short = self.inner.numbers("short_factor", self.dims / 2)?;
        let long = self.inner.numbers("long_factor", self.dims / 2)?;
        Ok(Rotary { scaling: Scaling::Long { short, long, original }, attention_factor, ..Rotary::new(self.theta) })
    }
}
