//! The architectures that are supported, by the names of `transformers`.

use std::fmt;

/// A family of models: one way from a configuration to a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// BERT: an encoder.
    Bert,
    /// `DistilBERT`: an encoder.
    DistilBert,
    /// `RoBERTa`: an encoder.
    Roberta,
    /// `LLaMA` 1 to 3: a decoder.
    Llama,
    /// Mistral: a decoder with a sliding window.
    Mistral,
    /// Qwen2 and Qwen2.5: a decoder.
    Qwen2,
    /// Qwen3, not the sparse ones: a decoder.
    Qwen3,
    /// Gemma-2: a decoder.
    Gemma2,
    /// Phi-3 and Phi-4-mini: a decoder.
    Phi3,
    /// GPT-2: a decoder.
    Gpt2,
    /// The vision transformer.
    Vit,
}

/// What stands on top of the hidden states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Head {
    /// Nothing: hidden states come out.
    None,
    /// Logits of the token that follows.
    CausalLm,
    /// Logits of the token that stands there.
    MaskedLm,
    /// Scores of the classes of an image.
    ImageClassification,
}

/// A family with one of its heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture {
    family: Family,
    head: Head,
    name: &'static str,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Bert,
        Self::DistilBert,
        Self::Roberta,
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
        Self::Gemma2,
        Self::Phi3,
        Self::Gpt2,
        Self::Vit,
    ];

    /// The value of `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Bert => "bert",
            Self::DistilBert => "distilbert",
            Self::Roberta => "roberta",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma2 => "gemma2",
            Self::Phi3 => "phi3",
            Self::Gpt2 => "gpt2",
            Self::Vit => "vit",
        }
    }

    /// The heads it is known with, and the names in `architectures`. The first is meant where a configuration
    /// names none.
    pub fn heads(self) -> [(Head, &'static str); 2] {
        let masked = |base, head| [(Head::None, base), (Head::MaskedLm, head)];
        let causal = |head, base| [(Head::CausalLm, head), (Head::None, base)];
        match self {
            Self::Bert => masked("BertModel", "BertForMaskedLM"),
            Self::DistilBert => masked("DistilBertModel", "DistilBertForMaskedLM"),
            Self::Roberta => masked("RobertaModel", "RobertaForMaskedLM"),
            Self::Llama => causal("LlamaForCausalLM", "LlamaModel"),
            Self::Mistral => causal("MistralForCausalLM", "MistralModel"),
            Self::Qwen2 => causal("Qwen2ForCausalLM", "Qwen2Model"),
            Self::Qwen3 => causal("Qwen3ForCausalLM", "Qwen3Model"),
            Self::Gemma2 => causal("Gemma2ForCausalLM", "Gemma2Model"),
            Self::Phi3 => causal("Phi3ForCausalLM", "Phi3Model"),
            Self::Gpt2 => causal("GPT2LMHeadModel", "GPT2Model"),
            Self::Vit => [(Head::None, "ViTModel"), (Head::ImageClassification, "ViTForImageClassification")],
        }
    }

    /// The prefix of its parameters where a head stands beside them: `base_model_prefix`.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert",
            Self::DistilBert => "distilbert",
            Self::Roberta => "roberta",
            Self::Llama | Self::Mistral | Self::Qwen2 | Self::Qwen3 | Self::Gemma2 | Self::Phi3 => "model",
            Self::Gpt2 => "transformer",
            Self::Vit => "vit",
        }
    }
}

impl Architecture {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |family: Family| family.heads().map(|(head, name)| Self { family, head, name });
        Family::ALL.into_iter().flat_map(of)
    }

    /// The one of this name in `architectures`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|a| a.name == name)
    }

    /// The one that is meant where a configuration says only of which family it is.
    pub fn of(family: Family) -> Self {
        let [(head, name), _] = family.heads();
        Self { family, head, name }
    }

    /// The family.
    pub fn family(self) -> Family {
        self.family
    }

    /// The head.
    pub fn head(self) -> Head {
        self.head
    }

    /// The name in `architectures`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The names, for messages.
    pub fn names() -> String {
        Self::all().map(Self::name).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_own() {
        let all: Vec<Architecture> = Architecture::all().collect();
        assert_eq!(all.len(), 22);
        for &a in &all {
            assert_eq!(Architecture::named(a.name()), Some(a), "{a}");
        }
    }
}
