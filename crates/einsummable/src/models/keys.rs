//! Typed access to the keys of a `config.json`.

use super::config::ConfigError;
use crate::nn::Activation;
use ein_ir::dtype::DType;
use serde_json::Value;

/// The keys of a configuration, or of an object inside it.
pub(crate) struct Keys<'a> {
    /// The object.
    pub value: &'a Value,
    /// Who reads it, for messages.
    pub architecture: &'static str,
    /// The object's name with a dot, for messages; empty at the top.
    pub inside: &'static str,
}

impl<'a> Keys<'a> {
    /// The keys at the top.
    pub fn new(value: &'a Value, architecture: &'static str) -> Self {
        Self { value, architecture, inside: "" }
    }

    /// The value of a key, unless it is missing or null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|v| !v.is_null())
    }

    /// A value that is refused.
    pub fn wrong(&self, key: &str, found: impl Into<String>, expected: impl Into<String>) -> ConfigError {
        ConfigError::Value { key: format!("{}{key}", self.inside), found: found.into(), expected: expected.into() }
    }

    fn need(&self, key: &str) -> Result<&'a Value, ConfigError> {
        self.get(key).ok_or_else(|| ConfigError::Missing {
            key: format!("{}{key}", self.inside),
            architecture: self.architecture,
        })
    }

    /// A size of at least 1.
    pub fn size(&self, key: &str) -> Result<usize, ConfigError> {
        self.size_up_to(key, 1 << 40)
    }

    /// A number of layers. Each is rows of the graph, so absurd numbers are refused before they take memory.
    pub fn layers(&self, key: &str) -> Result<usize, ConfigError> {
        self.size_up_to(key, 10_000)
    }

    fn size_up_to(&self, key: &str, most: u64) -> Result<usize, ConfigError> {
        let value = self.need(key)?;
        let size = value.as_u64().filter(|n| (1..=most).contains(n));
        size.map(|n| n as usize)
            .ok_or_else(|| self.wrong(key, value.to_string(), format!("a whole number from 1 to {most} is expected")))
    }

    /// A size, if it is given.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize, ConfigError> {
        if self.get(key).is_some() { self.size(key) } else { Ok(default) }
    }

    /// A size, if it is given.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>, ConfigError> {
        self.get(key).map(|_| self.size(key)).transpose()
    }

    /// An index, 0 included, if it is given.
    pub fn index_or(&self, key: &str, default: usize) -> Result<usize, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let index = value.as_u64().filter(|&n| n < 1 << 40);
        index
            .map(|n| n as usize)
            .ok_or_else(|| self.wrong(key, value.to_string(), "a whole number from 0 on is expected"))
    }

    /// A positive number.
    pub fn number(&self, key: &str) -> Result<f64, ConfigError> {
        let value = self.need(key)?;
        value
            .as_f64()
            .filter(|&n| n > 0.0 && n.is_finite())
            .ok_or_else(|| self.wrong(key, value.to_string(), "a positive number is expected"))
    }

    /// A positive number, if it is given.
    pub fn number_or(&self, key: &str, default: f64) -> Result<f64, ConfigError> {
        if self.get(key).is_some() { self.number(key) } else { Ok(default) }
    }

    /// A positive number, if it is given.
    pub fn optional_number(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.get(key).map(|_| self.number(key)).transpose()
    }

    /// As many positive numbers as are expected.
    pub fn numbers(&self, key: &str, count: usize) -> Result<Vec<f64>, ConfigError> {
        let value = self.need(key)?;
        let each = value.as_array().map_or(&[][..], Vec::as_slice).iter().map(|v| v.as_f64().filter(|&n| n > 0.0));
        let numbers: Option<Vec<f64>> = each.collect();
        numbers.filter(|all| all.len() == count).ok_or_else(|| {
            self.wrong(key, value.to_string(), format!("a list of {count} positive numbers is expected"))
        })
    }

    /// One size for height and width, or one of each.
    pub fn pair(&self, key: &str) -> Result<[usize; 2], ConfigError> {
        match self.need(key)? {
            Value::Array(both) => {
                let sizes: Vec<usize> =
                    both.iter().filter_map(Value::as_u64).filter(|&n| n > 0).map(|n| n as usize).collect();
                match sizes[..] {
                    [height, width] if both.len() == 2 => Ok([height, width]),
                    _ => Err(self.wrong(key, Value::from(both.clone()).to_string(), "height and width are expected")),
                }
            }
            _ => self.size(key).map(|n| [n, n]),
        }
    }

    /// A flag.
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => Err(self.wrong(key, other.to_string(), "true or false is expected")),
        }
    }

    /// A flag, false if it is not given.
    pub fn flag(&self, key: &str) -> Result<bool, ConfigError> {
        self.flag_or(key, false)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<&'a str, ConfigError> {
        let value = self.need(key)?;
        value.as_str().ok_or_else(|| self.wrong(key, value.to_string(), "a text is expected"))
    }

    /// The activation that a key names, or the one that is used when none is.
    pub fn activation_or(&self, key: &str, default: Activation) -> Result<Activation, ConfigError> {
        if self.get(key).is_none() {
            return Ok(default);
        }
        let name = self.text(key)?;
        let expected = || format!("one of {} is supported", Activation::NAMES);
        Activation::parse(name).ok_or_else(|| self.wrong(key, format!("`{name}`"), expected()))
    }

    /// Refuses keys whose only supported value is false, for another changes what is computed.
    pub fn not(&self, keys: &[&str]) -> Result<(), ConfigError> {
        for &key in keys {
            if self.flag(key)? {
                return Err(self.wrong(key, "true", "only false is supported"));
            }
        }
        Ok(())
    }

    /// Ids of tokens: one, a list, or none.
    pub fn tokens(&self, key: &str) -> Result<Vec<i64>, ConfigError> {
        let ids: Option<Vec<i64>> = match self.get(key) {
            None => Some(vec![]),
            Some(Value::Array(ids)) => ids.iter().map(Value::as_i64).collect(),
            Some(id) => id.as_i64().map(|id| vec![id]),
        };
        ids.ok_or_else(|| self.wrong(key, self.value[key].to_string(), "ids of tokens are expected"))
    }

    /// `dtype`, or `torch_dtype` in older files; `F32` if neither is given.
    pub fn dtype(&self) -> Result<DType, ConfigError> {
        let key = if self.get("dtype").is_some() { "dtype" } else { "torch_dtype" };
        if self.get(key).is_none() {
            return Ok(DType::F32);
        }
        match self.text(key)? {
            "float32" | "auto" => Ok(DType::F32),
            "bfloat16" => Ok(DType::BF16),
            "float16" => Ok(DType::F16),
            "float64" => Ok(DType::F64),
            other => {
                let expected = "one of float32, bfloat16, float16, float64 is supported";
                Err(self.wrong(key, format!("`{other}`"), expected))
            }
        }
    }

    /// Refuses `count` that `by` does not divide.
    pub fn divides(&self, key: &str, count: usize, by_key: &str, by: usize) -> Result<(), ConfigError> {
        if count.is_multiple_of(by) {
            return Ok(());
        }
        Err(self.wrong(key, count.to_string(), format!("a multiple of `{by_key}` ({by}) is expected")))
    }
}
